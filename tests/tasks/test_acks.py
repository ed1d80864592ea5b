"""Answers to the broker: in order, each message by itself, and never on a channel that did not deliver it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tocsin_tasks.acks import Acks, Verdict


class Consumer:
    """A consumer whose event loop runs what it was asked to when the test says so."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, str]] = []
        self.soon: list[Callable[[], None]] = []
        self.channel = object()
        self.connection = SimpleNamespace(default_channel=self.channel)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        while self.soon:
            self.soon.pop()()

    def message(self, tag: int) -> Any:
        return SimpleNamespace(
            channel=self.channel,
            ack=lambda: self.sent.append((tag, "ack")),
            reject=lambda requeue: self.sent.append((tag, "requeue" if requeue else "reject")),
        )


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


def test_answers_are_sent_by_the_loop_in_order_and_wake_it_once(consumer: Consumer) -> None:
    acks = Acks()
    acks.attach(consumer)
    for tag, verdict in enumerate((Verdict.ACK, Verdict.REJECT, Verdict.REQUEUE, Verdict.ACK)):
        acks.settle(consumer.message(tag), verdict)
    assert (consumer.sent, len(consumer.soon)) == ([], 1)
    consumer.turn()
    assert consumer.sent == [(0, "ack"), (1, "reject"), (2, "requeue"), (3, "ack")]
    acks.settle(consumer.message(4), Verdict.ACK)
    consumer.turn()
    assert consumer.sent[-1] == (4, "ack")


def test_answers_to_messages_of_a_channel_that_is_gone_are_dropped(consumer: Consumer) -> None:
    acks, again = Acks(), Consumer()
    acks.attach(consumer)
    acks.settle(consumer.message(1), Verdict.ACK)
    acks.attach(again)  # the old loop never ran its callback
    acks.settle(consumer.message(2), Verdict.ACK)
    acks.settle(again.message(1), Verdict.ACK)
    again.turn()
    assert consumer.sent == []
    assert (again.sent, acks.dropped) == ([(1, "ack")], 2)


def test_an_answer_that_fails_holds_up_no_other(consumer: Consumer) -> None:
    acks = Acks()
    acks.attach(consumer)
    broken = consumer.message(1)
    broken.ack = lambda: 1 / 0
    acks.settle(broken, Verdict.ACK)
    acks.settle(consumer.message(2), Verdict.ACK)
    consumer.turn()
    assert consumer.sent == [(2, "ack")]
