"""A private Docker engine, and an image of busybox made from Debian's static program.

Protocol: `dockerd` runs with directories, socket and containerd of its own, without a bridge and without touching
the packet filter; it serves when its socket answers. All containers are gone with it.

Needs root, as `dockerd` does.
"""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from docker import APIClient

from support.processes import Process
from support.rabbitmq import MissingServiceError

IMAGE = "tocsin-test/busybox:1"
_BUSYBOX = Path("/bin/busybox")
_APPLETS = (
    "sh",
    "cat",
    "echo",
    "sleep",
    "true",
    "false",
    "id",
    "touch",
    "kill",
    "seq",
    "dd",
    "ls",
    "head",
    "tail",
)
_START_SECONDS = 60.0


class DockerEngine:
    """One engine; a context manager."""

    def __init__(self, directory: Path) -> None:
        """`directory` has to have a short path: that of a Unix socket has at most 107 characters."""
        if shutil.which("dockerd") is None or not _BUSYBOX.exists():
            raise MissingServiceError(
                "the Docker engine or busybox-static is not installed; run: make services"
            )
        self.directory = directory
        self.url = f"unix://{directory / 'sock'}"
        self._process: Process | None = None

    def __enter__(self) -> Self:
        place = self.directory
        command = [
            "dockerd", "--host", self.url, "--data-root", str(place / "data"), "--exec-root", str(place / "exec"),
            "--pidfile", str(place / "pid"), "--bridge", "none", "--iptables=false", "--ip6tables=false",
        ]  # fmt: skip
        self._process = Process(command, cwd=place, name="dockerd")
        self._process.wait_for_line(r"API listen on", timeout=_START_SECONDS)
        self.import_busybox()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.remove_containers()
        finally:
            assert self._process is not None
            self._process.stop(timeout=30.0)
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def process(self) -> Process:
        """The daemon."""
        assert self._process is not None, "the engine is not started"
        return self._process

    def client(self) -> APIClient:
        """A client of the SDK."""
        return APIClient(base_url=self.url, version="auto", timeout=60)

    def import_busybox(self) -> None:
        """Make IMAGE."""
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as tar:
            for name in ("bin", "tmp", "data", "dev", "proc", "sys", "etc"):
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name in ("tmp", "data") else 0o755
                tar.addfile(folder)
            tar.add(_BUSYBOX.resolve(), "bin/busybox")
            for applet in _APPLETS:
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        repository, _, tag = IMAGE.partition(":")
        client = self.client()
        client.import_image_from_data(file.getvalue(), repository=repository, tag=tag)
        client.close()

    def containers(self, **filters: Any) -> list[dict[str, Any]]:
        """All containers, those that have ended as well."""
        client = self.client()
        try:
            return list(client.containers(all=True, filters=filters))
        finally:
            client.close()

    def remove_containers(self) -> None:
        """Kill and remove everything."""
        client = self.client()
        for item in client.containers(all=True):
            client.remove_container(item["Id"], v=True, force=True)
        client.close()
