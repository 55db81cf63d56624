"""Every fault in every phase: nobody crashes, nobody waits for ever, and no model or update is ever half applied."""

import threading
import time
from collections.abc import Iterator
from enum import Enum, auto

import numpy as np
import pytest
import torch
import zenoh
from torch import nn

from federico.exchange.protocol import Updates
from federico.learning.layout import ModelLayout
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.network.exchange import NetworkExchange
from federico.network.limits import Limits
from tests.support.neighborhood import join, names, seals

SIZE = 20 * 301
LIMITS = Limits(deadline=60, patience=60, clip=1e9, refuse=1e9, chunk_bytes=4096)
SHORT = LIMITS.model_copy(update={"deadline": 1.5, "patience": 0.5})
"""For faults that nothing but a time limit ends."""


class Fault(Enum):
    """What the other side does."""

    BEFORE = auto()
    """It fails at the first question."""
    MIDWAY = auto()
    """It is gone after a few."""
    SLOW = auto()
    """It takes its time over every answer."""
    CUT = auto()
    """What it sends ends in the middle."""
    HALF_OPEN = auto()
    """It takes questions, and answers none."""
    FROZEN = auto()
    """It stops for a while, then goes on."""
    HURRIED = auto()
    """The asking side itself is told to stop while it receives."""


PHASES = ["_announce", "_chunk", "_offer", "_add"]
"""How an owner answers: it announces its model, sends a chunk of it, accepts an update, takes a chunk of it."""


class Stage:
    """The owner's answers of one phase, under a fault."""

    def __init__(
        self, owner: NetworkExchange, visitor: NetworkExchange, fault: Fault, phase: str
    ) -> None:
        self.owner, self.visitor, self.fault = owner, visitor, fault
        self.answer = getattr(owner._owner, phase)
        self.asked, self.over = 0, threading.Event()
        setattr(owner._owner, phase, self)

    def __call__(self, *question: object) -> object:
        self.asked += 1
        match self.fault:
            case Fault.BEFORE:
                raise RuntimeError("it fell over")
            case Fault.MIDWAY if self.asked > 2:
                threading.Thread(target=self.owner.close).start()
            case Fault.SLOW:
                time.sleep(0.03)
            case Fault.HALF_OPEN:
                self.over.wait(60)
            case Fault.FROZEN if self.asked == 2:
                self.over.wait(1.0)
            case Fault.HURRIED if self.asked > 2:
                self.visitor.hurry()
        answer = self.answer(*(cut(part) if self.fault is Fault.CUT else part for part in question))
        return answer[: len(answer) // 2] if self.fault is Fault.CUT else answer


def cut(sent: object) -> object:
    """Half of what came in bytes; anything else as it is."""
    return sent[: len(sent) // 2] if isinstance(sent, bytes) else sent


@pytest.fixture
def pair(
    authority, bus: zenoh.Session, fault: Fault
) -> Iterator[tuple[NetworkExchange, NetworkExchange]]:
    """PeerServer and visitor, with a model of several chunks."""
    limits = SHORT if fault in (Fault.HALF_OPEN, Fault.FROZEN, Fault.MIDWAY) else LIMITS
    peers = join(
        ModelLayout(lambda: nn.Linear(300, 20)),
        [bus] * 2,
        seals(authority, names(2)),
        limits,
        False,
    )
    yield peers[0], peers[1]
    for peer in peers:
        peer.close()


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("fault", Fault)
def test_whole_or_not_at_all(
    pair, fault: Fault, phase: str, caplog: pytest.LogCaptureFixture
) -> None:
    owner, visitor = pair
    truth, sent = owner._bank.hosted_rows[0].clone(), torch.linspace(-1, 1, SIZE)
    owner.pull(Visits.of([]))
    stage = Stage(owner, visitor, fault, phase)
    came = visitor.pull(Visits.of([(1, 0)]))
    if len(came):
        assert torch.equal(visitor._bank.rows[visitor._bank.places(np.array([0]))[0]], truth)
        visitor.push(Updates(np.array([0]), np.array([1]), np.ones(1), Rows.of(sent[None])))
    else:
        assert 0 not in visitor._bank.visiting_places, "what is not whole is not there"
        assert 0 not in visitor._held
    arrived = owner.collect()
    stage.over.set()
    assert all(torch.equal(row, sent) for row in arrived.rows)
    assert stage.asked
    if fault is Fault.SLOW:
        assert len(came) == len(arrived) == 1, "it only costs time"
    assert torch.equal(owner._bank.hosted_rows[0], truth), "only the method moves a model"
