# The commands of this repository. `make` alone lists them.

VENV ?= .venv
PYTHON ?= python3
ARGS ?=
PYTEST_ARGS ?=
TEST_WORKERS ?= 3
SEEDS ?= 20
ITERATIONS ?= 1

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --root-user-action=ignore
CHAOS := PYTHONPATH=ops:tests $(BIN)/python -m chaos
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose) -f compose/docker-compose.yml
CHECKED_TESTS := tests/conftest.py tests/support tests/guards tests/support_tests

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help dev install test lint format types services bench chaos chaos-mutants failover clean cluster cluster-down cluster-test

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

dev: $(VENV)/.dev ## Start tocsin with everything it needs on this machine; ARGS="--port 8000"
	@$(BIN)/tocsin dev $(ARGS)

install: $(VENV)/.test ## Make the virtual environment, with all that development needs

test: services install lint types ## Install what is missing, then lint, type-check and test; PYTEST_ARGS="-k name", TEST_WORKERS=0 for one process
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile $(PYTEST_ARGS)

lint: $(VENV)/.test ## Check style and formatting
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .

format: $(VENV)/.test ## Bring the code into form
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

types: $(VENV)/.test ## Check the types
	@$(BIN)/mypy --no-error-summary
	@MYPYPATH=tests $(BIN)/mypy --no-error-summary $(CHECKED_TESTS)

services: ## Install RabbitMQ, ZooKeeper, Redis and PgBouncer (Debian, Ubuntu), without starting them
	@ops/services/install.sh

bench: services $(VENV)/.test ## Measure everything, ITERATIONS times; ARGS="--only size" for one, "--small" to try it
	@$(BIN)/python ops/bench/schedules.py
	@$(BIN)/python ops/bench/all.py --iterations $(ITERATIONS) $(ARGS)

chaos: services $(VENV)/.test ## Break a cluster on purpose and judge what it did; SEEDS=20, or SEED=7, FAULTS=a,b, SECONDS=80, OUTAGE=180
	@$(CHAOS) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(FAULTS),--faults $(FAULTS)) \
	  $(if $(SECONDS),--seconds $(SECONDS)) $(if $(OUTAGE),--outage $(OUTAGE)) $(ARGS)

chaos-mutants: services $(VENV)/.test ## Show that the judge finds each known defect; MUTANT=name for one
	@$(CHAOS).mutate $(if $(MUTANT),--mutant $(MUTANT))

failover: services $(VENV)/.test ## Measure fail-over, graceful stops, moved partitions and the cluster at rest
	@$(CHAOS).failover $(ARGS)

cluster: ## Start the development cluster in containers; docs/cluster.md
	@compose/secrets.sh
	@PYTHON=$(PYTHON) ops/offline/images.sh
	@$(COMPOSE) up --detach --no-build
	@$(COMPOSE) logs --no-log-prefix banner 2>/dev/null || $(COMPOSE) logs banner

cluster-down: ## Remove the development cluster and its data
	@$(COMPOSE) down --volumes --remove-orphans

cluster-test: ## Start a cluster in containers, load it, kill parts of it, judge and remove it; ARGS=--no-build
	@PYTHONPATH=ops PYTHON=$(PYTHON) $(PYTHON) -m cluster $(ARGS)

clean: ## Remove what was built, the virtual environment included
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than pyproject.toml as long as nothing has to be installed.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tocsin needs Python 3.11 or newer; say which: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || ops/services/install.sh python3-venv
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing tocsin into $(VENV)"
	@$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "installing tocsin and its tests into $(VENV)"
	@$(PIP) --editable '.[test,bench]'
	@touch $@ $(VENV)/.dev
