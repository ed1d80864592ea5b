"""Faults of the servers: PostgreSQL, RabbitMQ, ZooKeeper; and of everything at once.

Each breaks something, holds it and mends it, and says what it hit.
"""

from __future__ import annotations

from chaos.cluster import Member
from chaos.scene import QUEUE, Scene

_SUSPECTED = 12.0  # seconds after which the others have surely chosen another leader


def slow_postgres(scene: Scene) -> str:
    links = [relay for member in scene.cluster.members.values() for relay in member.links("pg0")]
    for relay in links:
        relay.delay = 0.15
    scene.hold()
    for relay in links:
        relay.heal()
    return "pg0"


def restart_postgres(scene: Scene) -> str:
    number = scene.dice.randrange(len(scene.cluster.databases))
    database = scene.cluster.databases[number]
    database.kill()
    scene.stop.wait(min(scene.seconds, 4))
    database.restart()
    return f"pg{number}"


def kill_rabbit(scene: Scene) -> str:
    node = scene.cluster.rabbits.leader(QUEUE)
    node.kill()
    scene.stop.wait(min(scene.seconds, 6))
    node.start()
    return node.name


def memory_alarm(scene: Scene) -> str:
    node = scene.cluster.rabbits.leader(QUEUE)
    node.ctl("set_vm_memory_high_watermark", "0.0001")
    scene.hold(_SUSPECTED)
    node.ctl("set_vm_memory_high_watermark", "0.4")
    return node.name


def kill_zookeeper(scene: Scene) -> str:
    assert scene.cluster.ensemble is not None
    server = scene.cluster.ensemble.leader()
    server.kill()
    scene.hold()
    server.start()
    return f"zk{server.number}"


def pause_rabbit(scene: Scene) -> str:
    """SIGSTOP of the node that leads the queue: its connections stay open and nothing answers on them."""
    node = scene.cluster.rabbits.leader(QUEUE)
    node.process.pause()
    scene.hold(_SUSPECTED)
    node.process.resume()
    return node.name


def pause_zookeeper(scene: Scene) -> str:
    """SIGSTOP of the leader, past the sessions that it leads."""
    assert scene.cluster.ensemble is not None
    server = scene.cluster.ensemble.leader()
    server.process.pause()
    scene.hold()
    server.process.resume()
    return f"zk{server.number}"


def outage(scene: Scene) -> str:
    """Every node and worker dies at once, and all come back."""
    members = [*scene.members("beat"), *scene.members("worker")]
    for member in members:
        member.alive.kill()
    scene.stop.wait(scene.outage)
    _bring_back(scene, members)
    return "all nodes and workers"


def blackout(scene: Scene) -> str:
    """The power fails: every process dies at once, the servers among them, and all come back."""
    cluster = scene.cluster
    members = [member for role in ("api", "beat", "worker") for member in scene.members(role)]
    for member in members:
        member.alive.kill()
    for node in cluster.rabbits.nodes:
        node.kill()
    for database in cluster.databases:
        database.kill()
    keepers = cluster.ensemble.servers if cluster.ensemble else []
    for server in keepers:
        server.kill()
    scene.stop.wait(scene.outage)
    for database in cluster.databases:
        database.restart()
    if cluster.ensemble:
        cluster.ensemble.start()
    cluster.rabbits.heal()
    _bring_back(scene, members)
    return "everything"


def _bring_back(scene: Scene, members: list[Member]) -> None:
    for member in members:
        scene.cluster.start(member, wait=False)
    for member in members:
        scene.cluster.wait_ready(member)
