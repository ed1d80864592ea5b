"""From a task to what the engine is asked to create. Pure.

Everything that a container could use against its host is set here, whatever the engine's defaults are: no
capabilities, no new privileges, no namespace shared, a user that is not root, a root file system that can only be
read, limits for memory, processors, processes, logs and every writable directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docker.types import LogConfig, Mount

from tocsin.ids import RunKey, parse_run_id
from tocsin.model.docker_task import MEBI, DockerTask
from tocsin.store.leases import Claimed

LABEL_RUN = "tocsin.run"
LABEL_ATTEMPT = "tocsin.attempt"
LABEL_TOKEN = "tocsin.token"
LABEL_JOB = "tocsin.job"
TMPFS_OPTIONS = "rw,nosuid,nodev,noexec,mode=1777"
IMAGE_VOLUME = 64 * MEBI  # of tmpfs, in place of each volume that the image declares
SHM = 16 * MEBI
LOG_FILES = 2
LOG_FILE_BYTES = 8 * MEBI


def name_of(key: RunKey) -> str:
    """The name of the run's container: the same for every attempt, so that there is only one."""
    return f"tocsin-{key}"


def run_of(labels: Mapping[str, str]) -> RunKey | None:
    """The run that a container's labels name."""
    return parse_run_id(labels.get(LABEL_RUN, ""))


def attempt_of(labels: Mapping[str, str]) -> int:
    """The attempt that created the container; 0 when its label says nothing."""
    text = labels.get(LABEL_ATTEMPT, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0


def labels_of(claimed: Claimed) -> dict[str, str]:
    """What tells a container from those of other runs, and which lease it was made under."""
    lease = claimed.lease
    return {
        LABEL_RUN: str(lease.key),
        LABEL_ATTEMPT: str(lease.attempt),
        LABEL_TOKEN: str(lease.token),
        LABEL_JOB: claimed.job_name,
    }


def environment_of(claimed: Claimed, task: DockerTask) -> dict[str, str]:
    """The job's variables, and what the program may want to know about its run."""
    key = claimed.lease.key
    return {
        **task.env,
        "TOCSIN_RUN_ID": str(key),
        "TOCSIN_JOB": claimed.job_name,
        "TOCSIN_ATTEMPT": str(claimed.lease.attempt),
        "TOCSIN_NOMINAL_TIME": key.scheduled_at.isoformat().replace("+00:00", "Z"),
    }


def host_config(task: DockerTask, image_volumes: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the SDK's `create_host_config`."""
    mounted = {*task.tmpfs, *(volume.path for volume in task.volumes)}
    sizes = {**{path: IMAGE_VOLUME for path in image_volumes if path not in mounted}, **task.tmpfs}
    return {
        "privileged": False,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "read_only": task.read_only_root,
        "tmpfs": {path: f"{TMPFS_OPTIONS},size={size}" for path, size in sizes.items()},
        "mounts": [
            Mount(v.path, v.name, type="volume", read_only=v.read_only, no_copy=True) for v in task.volumes
        ],
        "network_mode": task.network,
        "ipc_mode": "private",
        "cgroupns": "private",
        "mem_limit": task.memory,
        "memswap_limit": task.memory,
        "shm_size": min(SHM, task.memory),
        "nano_cpus": round(task.cpus * 1e9),
        "pids_limit": task.pids,
        "init": True,  # signals reach the program, orphans are reaped
        "log_config": LogConfig(
            type="json-file", config={"max-size": str(LOG_FILE_BYTES), "max-file": str(LOG_FILES)}
        ),
        "restart_policy": {"Name": "no"},
    }


def container_config(claimed: Claimed, task: DockerTask, image: str, host: Any) -> dict[str, Any]:
    """The arguments of the SDK's `create_container`; `image` is the engine's ID of it, `host` its host config."""
    return {
        "image": image,
        "name": name_of(claimed.lease.key),
        "entrypoint": list(task.command) if task.command is not None else None,
        # With a command of its own, the image's arguments belong to another program.
        "command": list(task.args) if task.args is not None else [] if task.command is not None else None,
        "environment": environment_of(claimed, task),
        "working_dir": task.working_dir,
        "user": task.user,
        "labels": labels_of(claimed),
        "host_config": host,
        "healthcheck": {"test": ["NONE"]},
    }
