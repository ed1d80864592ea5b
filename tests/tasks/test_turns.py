"""Turns at an origin: bounded, in order, given back whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from support.trap import Trap
from tasks.attempt import attempt
from tocsin import clock
from tocsin.egress import LOOPBACK
from tocsin.settings import Settings
from tocsin_tasks.http_runner import HttpRunner
from tocsin_tasks.outcome import Outcome
from tocsin_tasks.turns import Turns


async def until(reached: Callable[[], bool]) -> None:
    while not reached():  # noqa: ASYNC110
        await asyncio.sleep(0)


def test_so_many_at_once_and_in_order() -> None:
    async def main() -> None:
        turns, inside, order = Turns(3), 0, []
        go = asyncio.Event()

        async def one(number: int) -> None:
            nonlocal inside
            async with turns.turn("a"):
                inside += 1
                order.append(number)
                await go.wait()
                inside -= 1

        tasks = [asyncio.create_task(one(number)) for number in range(8)]
        await until(lambda: inside == 3)
        async with turns.turn("b"):  # another key is not held up
            assert inside == 3
        tasks.pop(3).cancel()  # one that waits
        go.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == [0, 1, 2, 4, 5, 6, 7]
        assert len(turns) == 0

    asyncio.run(main())


def test_a_turn_is_given_back_when_the_work_fails() -> None:
    async def main() -> None:
        turns = Turns(1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                async with turns.turn("a"):
                    _ = 1 / 0
        assert len(turns) == 0

    asyncio.run(main())


def test_a_worker_keeps_to_its_limit_per_origin() -> None:
    """While the first calls hang, the others have not even connected; and they wait within their timeout."""

    async def main() -> None:
        async with Trap("127.0.0.1", hold=True) as target, Trap("127.0.0.1") as other:
            runner = HttpRunner(Settings(http_allow=LOOPBACK, http_per_host=2))

            async def call(port: int, timeout: float) -> Outcome:
                what = attempt({"http": {"url": f"http://127.0.0.1:{port}/"}}, timeout=timeout)
                return await runner.run(what, clock.monotonic() + what.timeout)

            calls = [asyncio.create_task(call(target.port, 20)) for _ in range(4)]
            await until(lambda: target.connections == 2)
            assert (await call(other.port, 20)).failure is None
            late = await call(target.port, 0.2)
            assert late.failure is not None
            assert (late.failure.reason, target.connections) == ("timeout", 2)
            target.release.set()
            assert [outcome.failure for outcome in await asyncio.gather(*calls)] == [None] * 4
            assert target.connections == 4
            await runner.close()

    asyncio.run(main())
