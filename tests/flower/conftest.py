"""The runs and workers of tests/tasks serve here as well."""

from tasks.conftest import start_worker, table

__all__ = ["start_worker", "table"]
