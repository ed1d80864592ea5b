"""Names of container images: the canonical form, and the patterns in which a policy allows them.

`busybox` is `docker.io/library/busybox:latest`. A pattern is a repository in full, with its registry, and may
name a tag: `registry.internal/billing/*`, `docker.io/library/python:3.*`. `*` stands for anything but `/`, `**`
at the end for anything, and `**` alone for every image. A pattern with a tag matches no image with a digest,
since the digest decides what runs, whatever tag stands before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HOST = re.compile(r"(?=.{1,255}$)[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?")
_PATH = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PATTERN = re.compile(r"[A-Za-z0-9._:/*-]{1,512}")
LONGEST = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image by its full name; `tag` is None for one that is named by its digest alone."""

    repository: str
    tag: str | None
    digest: str | None

    @property
    def version(self) -> str:
        """What decides: the digest if there is one, else the tag."""
        return self.digest or self.tag or "latest"

    @property
    def reference(self) -> str:
        """The name that an engine takes."""
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"


def parse_image(text: str) -> Image | None:
    """The image, or None when this names none."""
    if len(text) > LONGEST:
        return None
    name, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return None
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        return None
    host, path = _split_host(f"{head}{slash}{last}")
    if not _HOST.fullmatch(host) or not _PATH.fullmatch(path):
        return None
    return Image(
        repository=f"{host}/{path}",
        tag=tag if colon else None if at else "latest",
        digest=digest if at else None,
    )


def _split_host(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if slash and _is_host(first):
        return ("docker.io", rest if "/" in rest else f"library/{rest}") if first in _HUBS else (first, rest)
    return "docker.io", name if slash else f"library/{name}"


_HUBS = ("docker.io", "index.docker.io")


def _is_host(text: str) -> bool:
    return "." in text or ":" in text or text == "localhost"


def pattern_fault(pattern: str) -> str | None:
    """What is wrong with a pattern, or None."""
    if pattern == "**":
        return None
    repository, _, _ = _split_tag(pattern)
    host, slash, path = repository.partition("/")
    if not _PATTERN.fullmatch(pattern) or not slash or not path:
        return "it is no repository with its registry"
    if "*" in host:
        return "the registry is not spelled out"
    if not _is_host(host):
        return f"{host} is no registry"
    if "**" in pattern.removesuffix("**"):
        return "** stands elsewhere than at the end"
    return None


def _split_tag(pattern: str) -> tuple[str, str, str]:
    head, slash, last = pattern.rpartition("/")
    last, colon, tag = last.partition(":")
    return head + slash + last, colon, tag


def matches(pattern: str, image: Image) -> bool:
    """Whether a pattern allows the image."""
    if pattern == "**":
        return True
    repository, colon, tag = _split_tag(pattern)
    if colon and (image.digest is not None or not _glob(tag).fullmatch(image.tag or "")):
        return False
    return _glob(repository).fullmatch(image.repository) is not None


def _glob(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*)", pattern)
    return re.compile("".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts))
