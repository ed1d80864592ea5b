"""What the operator lets the teams' containers have, and the check of a task against it. Pure.

The policy has a `default` for everybody and an entry for a team (the job's `owner`), which replaces what it names.
What neither names is as in BUILT_IN: any image, no network, no volume, no root, a read-only root file system.
What no policy can allow (privileges, capabilities, devices, the host's paths and namespaces) is not here: the
task has no field for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from tocsin.errors import Problem
from tocsin.model.docker_task import MEBI, NEVER_NETWORKS, DockerTask
from tocsin.model.duration import Document
from tocsin.model.image import matches, parse_image, pattern_fault
from tocsin.model.size import Size, size_text


class AllowedVolume(Document):
    """A volume that may be mounted."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{1,127}$", description="Name of the volume.")
    read_only: bool = Field(True, description="Whether it may only be mounted to read.")


class DockerRules(Document):
    """What a team may ask for. A field that is left out is as in the entry `default`, or built in."""

    images: tuple[str, ...] | None = Field(None, max_length=1000, description="Patterns of images.")
    networks: tuple[str, ...] | None = Field(None, max_length=100, description="Networks beside `none`.")
    volumes: tuple[AllowedVolume, ...] | None = Field(None, max_length=1000, description="Volumes.")
    max_memory: Size | None = Field(None, description="Most memory of a container.")
    max_cpus: float | None = Field(None, gt=0, le=512, description="Most processors of a container.")
    max_pids: int | None = Field(None, ge=4, le=32_768, description="Most processes of a container.")
    max_tmpfs: Size | None = Field(None, description="Most tmpfs of a container, all together.")
    root: bool | None = Field(None, description="Whether containers may run as root.")
    writable_root: bool | None = Field(None, description="Whether the root file system may be writable.")

    @field_validator("images")
    @classmethod
    def _patterns(cls, patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for pattern in patterns or ():
            if fault := pattern_fault(pattern):
                raise PydanticCustomError(
                    "policy_image",
                    "{pattern} cannot be a pattern of images: {fault}",
                    {
                        "pattern": pattern[:200],
                        "fault": fault,
                        "fix": "write the registry and a path, such as docker.io/library/* or registry.internal/**",
                    },
                )
        return patterns

    @field_validator("networks")
    @classmethod
    def _own_networks(cls, networks: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for network in networks or ():
            if network in NEVER_NETWORKS or ":" in network:
                raise PydanticCustomError(
                    "policy_network",
                    "the network {network} cannot be allowed: it is shared with the host or with everybody",
                    {"network": network[:200], "fix": "make a network of its own and name that"},
                )
        return networks


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one team may ask for, complete. Sizes are in bytes."""

    images: tuple[str, ...] = ("**",)
    networks: tuple[str, ...] = ()
    volumes: tuple[AllowedVolume, ...] = ()
    max_memory: int = 1024 * MEBI
    max_cpus: float = 2.0
    max_pids: int = 256
    max_tmpfs: int = 256 * MEBI
    root: bool = False
    writable_root: bool = False


BUILT_IN = Rules()


class DockerPolicy(Document):
    """The part of the operator's policy that is about containers."""

    default: DockerRules = Field(default_factory=DockerRules, description="For every team.")
    teams: dict[str, DockerRules] = Field(
        default_factory=dict, max_length=10_000, description="By team, the job's `owner`."
    )

    def rules(self, owner: str) -> Rules:
        """What this team may ask for."""
        rules = BUILT_IN
        for entry in (self.default, self.teams.get(owner, DockerRules())):
            named = {name: getattr(entry, name) for name in DockerRules.model_fields}
            rules = replace(rules, **{name: value for name, value in named.items() if value is not None})
        return rules


def check(rules: Rules, task: DockerTask, owner: str) -> list[Problem]:
    """What the task asks for beyond the rules; the reason names what would be allowed."""
    return [
        Problem(
            pointer=f"#/task/docker/{field}", code=f"policy_{code}", detail=f"{words} for {owner}", fix=fix
        )
        for field, code, words, fix in (*_places(rules, task), *_amounts(rules, task), *_rights(rules, task))
    ]


_Found = Iterator[tuple[str, str, str, str]]  # field, code, words, fix


def _places(rules: Rules, task: DockerTask) -> _Found:
    image = parse_image(task.image)
    if image is None or not any(matches(pattern, image) for pattern in rules.images):
        name = image.reference if image else task.image
        yield (
            "image",
            "image",
            f"the operator's policy does not allow the image {name}",
            _one_of(rules.images),
        )
    if task.network != "none" and task.network not in rules.networks:
        words = f"the operator's policy does not allow the network {task.network}"
        yield "network", "network", words, _one_of(("none", *rules.networks))
    for number, volume in enumerate(task.volumes):
        allowed = next((v for v in rules.volumes if v.name == volume.name), None)
        if allowed is None:
            words = f"the operator's policy does not allow the volume {volume.name}"
            yield f"volumes/{number}/name", "volume", words, _one_of(tuple(v.name for v in rules.volumes))
        elif allowed.read_only and not volume.read_only:
            words = f"the operator's policy allows the volume {volume.name} to be read only"
            yield f"volumes/{number}/readOnly", "volume_write", words, "write readOnly: true"


def _amounts(rules: Rules, task: DockerTask) -> _Found:
    tmpfs = sum(task.tmpfs.values())
    for field, wanted, most, text in (
        ("memory", task.memory, rules.max_memory, size_text(rules.max_memory)),
        ("cpus", task.cpus, rules.max_cpus, f"{rules.max_cpus:g}"),
        ("pids", task.pids, rules.max_pids, str(rules.max_pids)),
        ("tmpfs", tmpfs, rules.max_tmpfs, f"{size_text(rules.max_tmpfs)} together"),
    ):
        if wanted > most:
            words = f"{field} is more than the operator's policy allows"
            yield field, field, words, f"ask for {text} at most"


def _rights(rules: Rules, task: DockerTask) -> _Found:
    if not rules.root and "0" in task.user.split(":"):
        words = "the operator's policy does not allow root, as user or group,"
        yield "user", "root", words, 'write another number, such as "65534"'
    if not rules.writable_root and not task.read_only_root:
        words = "the operator's policy does not allow a writable root file system"
        yield (
            "readOnlyRoot",
            "writable_root",
            words,
            "write into a tmpfs or a volume, with readOnlyRoot: true",
        )


def _one_of(names: tuple[str, ...]) -> str:
    if not names:
        return "leave it out, or ask the operator to allow it"
    shown = ", ".join(names[:5]) + (" or another that the policy names" if len(names) > 5 else "")
    return f"use {shown}, or ask the operator to allow it"
