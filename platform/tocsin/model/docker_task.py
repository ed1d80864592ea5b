"""The task kind `docker`: one container. What no job may ask for has no field here, and is refused by name.

What the operator may allow (root, networks, volumes, more memory) has a field and is judged by `docker_policy`.
"""

from __future__ import annotations

import re
from posixpath import normpath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from tocsin.model.duration import Document, Flag, Seconds, Whole
from tocsin.model.image import LONGEST, parse_image
from tocsin.model.size import Size

NOBODY = "65534:65534"
MEBI = 1 << 20
LEAST_MEMORY = 6 * MEBI  # the engine takes no less
_USER = re.compile(r"(\d{1,10})(?::(\d{1,10}))?")
_HIGHEST_ID = (1 << 32) - 2
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,127}")
_ARGUMENT_CHARS = 8192
_TOTAL_CHARS = 65_536  # of command, args and env together
_SYSTEM = ("/proc", "/sys", "/dev")
RESERVED = "TOCSIN_"  # the beginning of the variables that the runner sets
NEVER_NETWORKS = ("host", "bridge", "default", "nat", "ingress")

# Field names of Docker, Compose and Kubernetes whose absence is a promise: say so, instead of "unknown field".
_FORBIDDEN: dict[str, tuple[str, ...]] = {
    "a container is never privileged": ("privileged", "allowPrivilegeEscalation", "securityContext"),
    "a container has no capabilities": ("capAdd", "cap_add", "capabilities", "capDrop", "cap_drop"),
    "a container gets no devices": (
        "device", "devices", "gpus", "deviceRequests", "deviceCgroupRules", "device_cgroup_rules",
    ),
    "a container shares no namespace": (
        "pid", "pidMode", "hostPID", "ipc", "ipcMode", "hostIPC", "uts", "utsMode", "userns", "usernsMode",
        "cgroupns", "cgroupnsMode", "cgroupParent", "cgroup_parent", "hostNetwork", "networkMode", "network_mode",
        "hostUsers", "volumesFrom", "volumes_from",
    ),
    "nothing of the host is mounted": ("binds", "bind", "mounts", "hostPath", "tmpfsMounts"),
    "the guards of a container stay on": (
        "securityOpt", "security_opt", "seccomp", "apparmor", "selinux", "runtime", "sysctls", "ulimits",
        "oomKillDisable", "oom_kill_disable", "oomScoreAdj", "oom_score_adj", "groupAdd", "group_add",
    ),
    "a container has no ports and no names beside its network's": (
        "ports", "publish", "portBindings", "publishAllPorts", "extraHosts", "extra_hosts", "dns", "links",
    ),
}  # fmt: skip
_REASONS = {name: reason for reason, names in _FORBIDDEN.items() for name in names}


def _error(code: str, words: str, fix: str, **context: Any) -> PydanticCustomError:
    return PydanticCustomError(code, words, {"fix": fix, **context})


def container_path(value: Any) -> Any:
    """An absolute path in its shortest form that lies on no system mount. Raises PydanticCustomError."""
    if not isinstance(value, str):
        return value
    plain = normpath(value)
    wrong = (
        not value.startswith("/")
        or len(value) > 512
        or re.search(r"[\x00-\x1f\x7f:,]", value)
        or ".." in value.split("/")
        or plain in ("/", "//")
    )
    if wrong:
        raise _error("docker_path", "this is no path in a container", "write an absolute path such as /data")
    plain = "/" + plain.lstrip("/")
    if plain in _SYSTEM or plain.startswith(tuple(f"{top}/" for top in _SYSTEM)):
        raise _error("docker_path_system", f"{plain[:80]} belongs to the system", "choose another path")
    return plain


def _user(value: Any) -> Any:
    """`uid:gid`; the group is the user's number when it is left out, for the engine would take root's."""
    match = _USER.fullmatch(str(value)) if isinstance(value, (int, str)) and value is not True else None
    ids = [int(text) for text in match.groups() if text] if match else []
    if not ids or max(ids) > _HIGHEST_ID:
        raise _error(
            "docker_user",
            "this is no user by number; a name can stand for root in the image",
            'write "1000" or "1000:1000"',
        )
    return f"{ids[0]}:{ids[-1]}"


Path = Annotated[str, BeforeValidator(container_path)]


class VolumeMount(Document):
    """A named volume of the engine, which the operator's policy must allow."""

    name: str = Field(max_length=128, description="Name of the volume.", examples=["reports"])
    path: Path = Field(description="Where it is mounted.", examples=["/data"])
    read_only: Flag = Field(True, description="Whether the container may only read it.")

    @model_validator(mode="before")
    @classmethod
    def _no_short_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise _error("docker_volume", "a volume is an object", "write {name: …, path: …}")
        return value

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        if "/" in name or name.startswith("."):
            raise _error(
                "docker_host_path",
                "a path of the host is never mounted",
                "name a volume that the operator's policy allows",
            )
        if not _NAME.fullmatch(name):
            raise _error(
                "docker_volume", "this is no name of a volume", "use letters, digits, `_`, `.` and `-`"
            )
        return name


Text = Annotated[str, Field(max_length=_ARGUMENT_CHARS)]
Words = Annotated[tuple[Text, ...] | None, Field(max_length=256)]


class DockerTask(Document):
    """A container. Success is exit code 0 within the job's timeout."""

    image: str = Field(
        min_length=1,
        max_length=LONGEST,
        description="Image with its tag or digest.",
        examples=["registry.internal/billing/close:1.4"],
    )
    command: Words = Field(None, description="The program with its fixed arguments; else the image's.")
    args: Words = Field(None, description="Arguments of the program; the image's own when left out.")
    env: dict[str, Text] = Field(default_factory=dict, max_length=128, description="Environment variables.")
    working_dir: Path | None = Field(None, description="Working directory; the image's when left out.")
    user: Annotated[str, BeforeValidator(_user)] = Field(
        NOBODY, description="`uid` or `uid:gid`, numbers; root only where the operator's policy allows it."
    )
    memory: Size = Field(256 * MEBI, ge=LEAST_MEMORY, description="Memory, swap included: `256Mi`.")
    cpus: float = Field(1.0, ge=0.01, le=512, allow_inf_nan=False, description="Processors: `0.5`.")
    pids: Whole = Field(64, ge=4, le=32_768, description="Processes and threads at once.")
    tmpfs: dict[Path, Size] = Field(
        default_factory=lambda: {"/tmp": 64 * MEBI},
        max_length=16,
        description="Writable directories in memory, with their sizes; they count as memory.",
    )
    network: str = Field(
        "none", max_length=128, description="`none`, or a network that the operator's policy allows."
    )
    volumes: tuple[VolumeMount, ...] = Field((), max_length=16, description="Named volumes to mount.")
    read_only_root: Flag = Field(True, description="Whether the image's own files can only be read.")
    pull: Literal["never", "missing", "always"] = Field(
        "missing", description="When the image is pulled: `never`, when it is `missing`, or `always`."
    )
    stop_grace_sec: Seconds = Field(
        10.0, ge=0, le=300, description="Time between asking the container to stop and killing it."
    )

    @model_validator(mode="before")
    @classmethod
    def _nothing_forbidden(cls, value: Any) -> Any:
        found = next((name for name in value if name in _REASONS), None) if isinstance(value, dict) else None
        if found is not None:
            raise _error("docker_forbidden", "{reason}", f"remove {found}", reason=_REASONS[found], at=found)
        return value

    @field_validator("image")
    @classmethod
    def _an_image(cls, image: str) -> str:
        if parse_image(image) is None:
            raise _error(
                "docker_image", "this is no name of an image", "write it as in registry.internal/team/app:1.4"
            )
        return image

    @field_validator("network")
    @classmethod
    def _a_network(cls, network: str) -> str:
        if network in NEVER_NETWORKS:
            raise _error(
                "docker_network_shared",
                "the network {network} is shared with the host or with everybody",
                "write none, or a network that the operator's policy allows",
                network=network,
            )
        if not _NAME.fullmatch(network):
            raise _error("docker_network", "this is no name of a network", "write none, or a network's name")
        return network

    @field_validator("env")
    @classmethod
    def _variables(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not _VARIABLE.fullmatch(name):
                raise _error(
                    "docker_env",
                    "{name} is no name of a variable",
                    "use letters, digits and `_`",
                    name=name[:80],
                )
            if name.startswith(RESERVED):
                raise _error(
                    "docker_env_reserved", "{name} is set by tocsin", f"remove {name[:80]}", name=name[:80]
                )
        return env

    @model_validator(mode="after")
    def _sendable(self) -> DockerTask:
        words = [*(self.command or ()), *(self.args or ()), *self.env, *self.env.values()]
        if any("\x00" in word for word in words) or sum(map(len, words)) > _TOTAL_CHARS:
            raise _error(
                "docker_words",
                "command, args and env hold NUL, or more than 65536 characters together",
                "shorten them, or put the data into the image or a volume",
            )
        places = [*self.tmpfs, *(volume.path for volume in self.volumes)]
        twice = next((place for place in places if places.count(place) > 1), None)
        if twice is not None:
            raise _error("docker_path_twice", "{path} is mounted twice", "keep one of them", path=twice)
        return self
