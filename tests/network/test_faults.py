"""Every fault in every phase: nobody crashes, nobody waits for ever, nothing is half applied."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
import zenoh
from torch import nn

from federico.learning.layout import ModelLayout
from federico.learning.rows import Rows
from federico.network.limits import Limits
from federico.network.protocol import Topic
from tests.support.faults import OF_ANSWERS, Fault, FaultySession
from tests.support.neighborhood import Neighbor, join, names, signers_of

SIZE = 20 * 301
LIMITS = Limits(deadline=60, patience=60, clip=1e9, refuse=1e9, chunk_bytes=4096)
SHORT = LIMITS.model_copy(update={"deadline": 1.5, "patience": 0.5})
"""For faults that nothing but a time limit ends."""
ENDLESS = {Fault.HALF_OPEN, Fault.FROZEN, Fault.MIDWAY}


@dataclass
class Stage:
    """An owner whose answers about one topic go wrong, and a visitor."""

    owner: Neighbor
    visitor: Neighbor
    faulty: FaultySession


@pytest.fixture
def stage(authority, bus: zenoh.Session, fault: Fault, topic: Topic) -> Iterator[Stage]:
    """The model has several chunks."""
    faulty = FaultySession(bus, topic)
    owner, visitor = join(
        ModelLayout(lambda: nn.Linear(300, 20)),
        [faulty, bus],
        signers_of(authority, names(2)),
        SHORT if fault in ENDLESS else LIMITS,
        lockstep=False,
    )
    faulty.leave = owner.exchange.close
    faulty.stop_visitor = visitor.exchange.stop_waiting
    yield Stage(owner, visitor, faulty)
    faulty.over.set()
    for peer in (owner, visitor):
        peer.exchange.close()


@pytest.mark.parametrize("topic", Topic)
@pytest.mark.parametrize("fault", OF_ANSWERS)
def test_whole_or_not_at_all(stage: Stage, fault: Fault) -> None:
    owner, visitor = stage.owner, stage.visitor
    truth = owner.own_row.clone()
    sent = torch.linspace(-1, 1, SIZE)
    stage.faulty.fault = fault
    owner.publish(1)
    came = visitor.pulls(1, 0)
    if came:
        assert torch.equal(visitor.row_of(0), truth)
        visitor.push_rows(1, [0], Rows.of(sent[None]))
    else:
        assert 0 not in visitor.bank.visiting_places, "what is not whole is not there"
    arrived = owner.exchange.collect(1)
    stage.faulty.over.set()
    assert all(torch.equal(row, sent) for row in arrived.rows)
    assert stage.faulty.requests
    if fault is Fault.SLOW:
        assert len(came) == len(arrived) == 1, "it only costs time"
    assert torch.equal(owner.own_row, truth), "only the method moves a model"


@pytest.mark.parametrize("topic", [Topic.REQUEST_MODEL, Topic.REQUEST_CHUNK])
@pytest.mark.parametrize("fault", OF_ANSWERS)
def test_an_earlier_model_stays_until_the_next_is_whole(stage: Stage, fault: Fault) -> None:
    owner, visitor = stage.owner, stage.visitor
    owner.publish(1)
    assert visitor.pulls(1, 0) == [0]
    earlier = owner.own_row.clone()
    owner.exchange.collect(1)
    owner.own_row.add_(1)

    stage.faulty.fault = fault
    owner.publish(2)
    came = visitor.pulls(2, 0)
    stage.faulty.over.set()
    assert stage.faulty.requests
    expected = owner.own_row if came else earlier
    assert torch.equal(visitor.row_of(0), expected)

    visitor.exchange.close()
    assert visitor.reads(2, 0) == [0], "a peer that leaves predicts with what it has"
    assert torch.equal(visitor.row_of(0), expected)
