"""What a fault works on."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from chaos.cluster import Cluster, Member

QUEUE = "tocsin.default"
GUEST = "guest"  # the member that comes and goes
Break = Callable[["Scene"], str]


@dataclass(slots=True)
class Scene:
    """What a fault may use."""

    cluster: Cluster
    dice: random.Random
    seconds: float  # that most faults last
    outage: float  # seconds that a total outage lasts
    stop: threading.Event
    target: str = ""  # the member to hit; any of the role when empty

    def one(self, role: str) -> Member:
        if self.target:
            return self.cluster.members[self.target]
        return self.dice.choice(self.members(role))

    def members(self, role: str) -> list[Member]:
        """Those that belong to the cluster; a guest comes and goes by itself."""
        return [member for member in self.cluster.of(role) if member.name != GUEST]

    def hold(self, at_least: float = 0.0) -> None:
        self.stop.wait(max(self.seconds, at_least))
