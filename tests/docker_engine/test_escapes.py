"""What would let a container out is refused when the job is made, with the reason and the field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.docker import IMAGE
from tocsin.settings import Settings
from tocsin.store.shards import engine_for
from tocsin_api.app import create_app

TASK = {"image": IMAGE}
SOCKET = "/var/run/docker.sock"
ESCAPES: list[tuple[dict[str, Any], str]] = [
    ({"privileged": True}, "privileged"),
    ({"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation"),
    ({"securityContext": {"privileged": True}}, "securityContext"),
    ({"capAdd": ["SYS_ADMIN"]}, "capAdd"),
    ({"cap_add": ["ALL"]}, "cap_add"),
    ({"devices": ["/dev/sda"]}, "devices"),
    ({"gpus": "all"}, "gpus"),
    ({"network": "host"}, "network"),
    ({"network": "bridge"}, "network"),
    ({"network": "container:other"}, "network"),
    ({"network": "internal"}, "network"),
    ({"networkMode": "host"}, "networkMode"),
    ({"hostNetwork": True}, "hostNetwork"),
    ({"pid": "host"}, "pid"),
    ({"ipc": "host"}, "ipc"),
    ({"uts": "host"}, "uts"),
    ({"userns": "host"}, "userns"),
    ({"cgroupParent": "/"}, "cgroupParent"),
    ({"binds": [f"{SOCKET}:{SOCKET}"]}, "binds"),
    ({"mounts": [{"type": "bind", "source": "/", "target": "/host"}]}, "mounts"),
    ({"hostPath": "/"}, "hostPath"),
    ({"volumes": [f"{SOCKET}:{SOCKET}"]}, "volumes/0"),
    ({"volumes": [{"name": SOCKET, "path": "/x"}]}, "volumes/0/name"),
    ({"volumes": [{"name": "../../etc", "path": "/x"}]}, "volumes/0/name"),
    ({"volumes": [{"name": "others", "path": "/x"}]}, "volumes/0"),
    ({"volumesFrom": ["other"]}, "volumesFrom"),
    ({"tmpfs": {"/proc": "1Mi"}}, "tmpfs"),
    ({"tmpfs": {"/sys/fs/cgroup": "1Mi"}}, "tmpfs"),
    ({"tmpfs": {"/": "1Mi"}}, "tmpfs"),
    ({"user": "0"}, "user"),
    ({"user": 0}, "user"),
    ({"user": "1000:0"}, "user"),
    ({"user": "root"}, "user"),
    ({"readOnlyRoot": False}, "readOnlyRoot"),
    ({"securityOpt": ["seccomp=unconfined"]}, "securityOpt"),
    ({"apparmor": "unconfined"}, "apparmor"),
    ({"sysctls": {"kernel.core_pattern": "|/x"}}, "sysctls"),
    ({"runtime": "other"}, "runtime"),
    ({"oomKillDisable": True}, "oomKillDisable"),
    ({"groupAdd": ["0"]}, "groupAdd"),
    ({"ports": ["80:80"]}, "ports"),
    ({"memory": "1Ti"}, "memory"),
    ({"cpus": 500}, "cpus"),
    ({"pids": 30_000}, "pids"),
    ({"env": {"TOCSIN_RUN_ID": "x"}}, "env"),
]


@pytest.fixture(scope="module")
def http(databases: Any, template_database: str) -> Iterator[TestClient]:
    name = databases.create(template=template_database)
    settings = Settings(database_url=databases.server.url_of(name))
    with TestClient(create_app(settings)) as client:
        yield client
    engine_for(settings.database_url).dispose()
    databases.drop(name)


@pytest.mark.parametrize(
    ("more", "field"), ESCAPES, ids=[f"{n}-{field}" for n, (_, field) in enumerate(ESCAPES)]
)
def test_it_is_refused(http: TestClient, more: dict[str, Any], field: str) -> None:
    answer = http.post("/jobs", json={"name": "x", "task": {"docker": TASK | more}})
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"].startswith(f"#/task/docker/{field}"), error
    assert error["fix"]
    assert http.get("/jobs/name:x").status_code == 404


def test_what_no_policy_need_allow_is_taken(http: TestClient) -> None:
    task = {**TASK, "user": "1000", "memory": "64Mi", "env": {"A": "b"}, "tmpfs": {"/scratch": "8Mi"}}
    assert http.post("/jobs", json={"name": "fine", "task": {"docker": task}}).status_code == 201


def test_a_policy_opens_what_it_names_to_the_team_it_names(
    databases: Any, template_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("docker: {teams: {ops: {root: true, networks: [internal], writableRoot: true}}}\n")
    name = databases.create(template=template_database)
    settings = Settings(database_url=databases.server.url_of(name), policy_file=str(file))
    asked = {"user": "0", "network": "internal", "readOnlyRoot": False}
    with TestClient(create_app(settings)) as http:
        document = {"name": "x", "owner": "ops", "task": {"docker": TASK | asked}}
        assert http.post("/jobs", json=document).status_code == 201
        refused = http.post("/jobs", json=document | {"name": "y", "owner": "web"})
        assert {e["pointer"] for e in refused.json()["errors"]} == {
            f"#/task/docker/{field}" for field in asked
        }
        # The job does not become root by becoming another team's.
        assert http.patch("/jobs/name:x", json={"owner": "web"}).status_code == 422
    engine_for(settings.database_url).dispose()
    databases.drop(name)
