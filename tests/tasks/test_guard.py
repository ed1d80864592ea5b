"""The guard: what is not public is never connected to, however it is spelled, resolved or redirected to."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpcore
import pytest

from support.dns import NameServer, asks
from support.trap import Trap
from tasks.attempt import attempt
from tasks.spellings import LOOPBACK_HOSTS, REFUSED
from tocsin import clock
from tocsin.egress import Egress
from tocsin.embedded.supervised import free_port
from tocsin.model.job import RetryPolicy
from tocsin.model.policy import retryable
from tocsin.model.status import Reason
from tocsin.settings import Settings
from tocsin_tasks.guard import GuardedNetwork, Resolver, TargetRefusedError, system_resolver
from tocsin_tasks.http_runner import HttpRunner
from tocsin_tasks.outcome import Outcome

NOWHERE: dict[str, list[list[str]]] = {}


def resolver(server: NameServer) -> Resolver:
    """The system's own look-up, which asks this name server."""

    def resolve(host: str, port: int) -> list[str]:
        asks(server)
        return system_resolver(host, port)

    return resolve


def guarded(
    egress: str,
    names: dict[str, list[list[str]]],
    work: Callable[[Callable[..., Any], NameServer], Coroutine[Any, Any, None]],
) -> None:
    """Run `work(call, server)`; `call(url, **http)` executes one attempt under this policy."""

    async def main() -> None:
        with NameServer(names) as server:
            runner = HttpRunner(Settings(http_allow=egress, output_limit=1000), resolver(server))

            async def call(url: str, **http: Any) -> Outcome:
                what = attempt({"http": {"url": url, **http}}, timeout=20)
                return await runner.run(what, clock.monotonic() + what.timeout)

            try:
                await work(call, server)
            finally:
                await runner.close()

    asyncio.run(main())


def test_the_table_is_long_enough() -> None:
    assert len(set(REFUSED)) >= 100


def test_no_spelling_reaches_what_is_not_public() -> None:
    async def work(call: Callable[..., Any], server: NameServer) -> None:
        async with Trap() as trap:
            for host in REFUSED:
                outcome = await call(f"http://{host}:{trap.port}/")
                reason = outcome.failure and outcome.failure.reason
                assert reason in (Reason.TARGET_REFUSED, Reason.BAD_TASK), f"{host}: {outcome}"
                assert not retryable(RetryPolicy(), outcome.failure)
            assert trap.connections == 0

    guarded("", NOWHERE, work)


def test_the_trap_catches_what_the_policy_lets_through() -> None:
    """Else the test above proves nothing."""

    async def work(call: Callable[..., Any], server: NameServer) -> None:
        async with Trap() as trap:
            hosts = ("127.0.0.1", "127.0.0.2", "[::1]", "localhost", "LOCALHOST")
            for count, host in enumerate(hosts, start=1):
                outcome = await call(f"http://{host}:{trap.port}/")
                assert (outcome.failure, trap.connections) == (None, count), f"{host}: {outcome}"

    guarded("127.0.0.0/8, ::1", NOWHERE, work)


def test_the_network_itself_refuses_every_spelling() -> None:
    """Also of hosts that the document would not have let pass."""

    async def main() -> None:
        with NameServer(NOWHERE) as server:
            network = GuardedNetwork(Egress(), resolver(server))
            async with Trap() as trap:
                refused = 0
                for host in LOOPBACK_HOSTS:
                    with pytest.raises((TargetRefusedError, httpcore.ConnectError)) as caught:
                        await network.connect_tcp(host.strip("[]"), trap.port)
                    refused += caught.type is TargetRefusedError
                assert refused > 20  # the rest is no host for any resolver
                assert trap.connections == 0
            network.close()

    asyncio.run(main())


def test_a_name_is_resolved_once_and_the_checked_address_is_called() -> None:
    """A rebinding name server: its first answer may be called, its second may not."""

    async def work(call: Callable[..., Any], server: NameServer) -> None:
        async with Trap("127.0.0.2") as good, Trap("127.0.0.1", good.port) as trap:
            url = f"http://rebind.test:{good.port}/"
            assert (await call(url)).failure is None
            assert (good.connections, trap.connections) == (1, 0)
            assert server.asked["rebind.test", 1] == 1
            assert f"Host: rebind.test:{good.port}\r\n" in good.requests[0]
            again = await call(url)
            assert again.failure.reason is Reason.TARGET_REFUSED
            assert (good.connections, trap.connections) == (1, 0)
            assert "127.0.0.1" not in again.error

    guarded("127.0.0.2", {"rebind.test": [["127.0.0.2"], ["127.0.0.1"]]}, work)


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["127.0.0.2", "127.0.0.1"],
        ["127.0.0.1", "127.0.0.2"],
        ["127.0.0.2", "::1"],
        ["127.0.0.2", "fd00:ec2::254"],
        ["127.0.0.2", "::ffff:127.0.0.1"],
        ["127.0.0.2", "169.254.169.254"],
        ["8.8.8.8", "10.0.0.1"],
    ],
)
def test_one_address_that_is_not_public_is_enough(addresses: list[str]) -> None:
    async def work(call: Callable[..., Any], server: NameServer) -> None:
        async with Trap() as trap:
            outcome = await call(f"http://mixed.test:{trap.port}/")
            assert outcome.failure.reason is Reason.TARGET_REFUSED
            assert trap.connections == 0

    guarded("127.0.0.2", {"mixed.test": [addresses]}, work)


def test_a_name_that_the_operator_opens_may_be_private_but_not_metadata() -> None:
    async def work(call: Callable[..., Any], server: NameServer) -> None:
        async with Trap() as trap:
            assert (await call(f"http://billing.corp.test:{trap.port}/")).failure is None
            assert trap.connections == 1
            for host in ("corp.test", "meta.corp.test", "billing.corp.test.evil.test"):
                outcome = await call(f"http://{host}:{trap.port}/")
                assert outcome.failure.reason is Reason.TARGET_REFUSED, host
            assert trap.connections == 1

    names = {
        "billing.corp.test": [["127.0.0.1"]],
        "corp.test": [["127.0.0.1"]],
        "meta.corp.test": [["169.254.169.254"]],
        "billing.corp.test.evil.test": [["127.0.0.1"]],
    }
    guarded("*.corp.test", names, work)


def test_an_address_that_does_not_answer_gives_way_to_the_next() -> None:
    async def work(call: Callable[..., Any], server: NameServer) -> None:
        async with Trap("127.0.0.2") as good:
            assert (await call(f"http://two.test:{good.port}/")).failure is None
            missing = await call(f"http://missing.test:{good.port}/")
            assert missing.failure.reason is Reason.CONNECTION

    guarded("127.0.0.0/8", {"two.test": [["127.0.0.3", "127.0.0.2"]]}, work)


def test_many_calls_at_once_share_one_look_up() -> None:
    async def work(call: Callable[..., Any], server: NameServer) -> None:
        async with Trap() as trap:
            outcomes = await asyncio.gather(*(call(f"http://busy.test:{trap.port}/") for _ in range(20)))
            assert [outcome.failure for outcome in outcomes] == [None] * 20
            assert server.asked["busy.test", 1] < 5

    guarded("127.0.0.1", {"busy.test": [["127.0.0.1"]]}, work)


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.2:{port}")

    async def work(call: Callable[..., Any], server: NameServer) -> None:
        async with Trap("127.0.0.2", port) as proxy, Trap("127.0.0.1") as target:
            assert (await call(f"http://127.0.0.1:{target.port}/")).failure is None
            assert (proxy.connections, target.connections) == (0, 1)

    guarded("127.0.0.0/8", NOWHERE, work)


def test_tls_is_made_with_the_name_of_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SNI and the certificate's check keep the name, though the connection is made to an address."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=tls.test", "-addext", "subjectAltName=DNS:tls.test"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)

    async def work(call: Callable[..., Any], server: NameServer) -> None:
        async with Trap("127.0.0.1", tls=context) as target:
            assert (await call(f"https://tls.test:{target.port}/")).failure is None
            assert names == ["tls.test"]
            other = await call(f"https://other.test:{target.port}/")
            assert other.failure.reason is Reason.CONNECTION
            assert len(target.requests) == 1

    guarded("127.0.0.1", {"tls.test": [["127.0.0.1"]], "other.test": [["127.0.0.1"]]}, work)
