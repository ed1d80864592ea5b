#!/opt/tocsin/bin/python -S
"""Health of the container's first process: `healthy.py http://…` or `healthy.py connected PORT…`.

An API is asked for a page, which has to say 200. A beat node and a worker listen on nothing; they are well when
process 1 holds an established connection to each of the ports: broker, databases, ZooKeeper. All of them connect
anew by themselves after a loss, so a role without a connection is one that cannot work now.

Weakness: a process that hangs and keeps its connections looks well. Its leases expire all the same.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_ESTABLISHED = "01"


def peers(process: int = 1) -> set[int]:
    """The remote ports of the process's established TCP connections."""
    inodes = set()
    for number in os.listdir(f"/proc/{process}/fd"):
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{process}/fd/{number}"))
        except FileNotFoundError:  # closed since it was listed
            continue
        if found:
            inodes.add(found[1])
    ports = set()
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/{process}/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[3] == _ESTABLISHED and fields[9] in inodes:
                ports.add(int(fields[2].rsplit(":", 1)[1], 16))
    return ports


def main(arguments: list[str]) -> int:
    """0 when healthy; 1 with a line that says what is missing."""
    if arguments and arguments[0].startswith("http://"):
        from urllib.error import URLError
        from urllib.request import urlopen

        try:
            with urlopen(arguments[0], timeout=5) as answer:
                return 0 if answer.status == 200 else 1
        except (URLError, OSError) as error:
            print(f"{arguments[0]}: {error}")
            return 1
    if len(arguments) < 2 or arguments[0] != "connected":
        print("say http://… or connected PORT…")
        return 64
    missing = sorted({int(port) for port in arguments[1:]} - peers())
    if missing:
        print("no connection to port", *missing)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
