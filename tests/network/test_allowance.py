"""A flood uses up its allowance, kind by kind; an honest member never does."""

import pytest

from federico.network.allowance import BYTES_A_SECOND, Allowance, Allowances
from federico.network.protocol import Topic
from federico.network.wire.schema import ChunkPlan
from tests.support.clock import Clock

PLAN = ChunkPlan(size=2560, width=4, chunk_numbers=256)
"""A model of ten chunks of 1 KiB."""


@pytest.fixture
def allowances(clock: Clock) -> Allowances:
    return Allowances(PLAN, clock)


def taken(allowances: Allowances, topic: str, requests: int, size: int = 0) -> int:
    return sum(allowances.take(topic, size) for _ in range(requests))


def test_a_stock_fills_up_with_time_and_does_not_grow_beyond_its_most(clock: Clock) -> None:
    stock = Allowance(10, 2.0, clock)
    assert [stock.take(6), stock.take(6), stock.take(4)] == [True, False, True]
    clock.now += 3
    assert [stock.take(6), stock.take(1)] == [True, False]
    clock.now += 1e6
    assert sum(stock.take() for _ in range(100)) == 10


@pytest.mark.parametrize(
    ("topic", "at_once", "a_second"),
    [
        (Topic.REQUEST_MODEL, 64, 20),
        (Topic.REQUEST_CHUNK, 64 + 40, 20),
        (Topic.OFFER_UPDATE, 64, 2),
        (Topic.UPLOAD_CHUNK, 64 + 40, 20),
        ("gossip", 64, 1),
    ],
)
def test_after_a_first_burst_a_flood_gets_some_answers_a_second(
    clock: Clock, allowances: Allowances, topic: str, at_once: int, a_second: int
) -> None:
    assert taken(allowances, topic, 100_000) == at_once
    answered = 0
    for _ in range(600):
        clock.now += 0.1
        answered += taken(allowances, topic, 100)
    assert answered == pytest.approx(60 * a_second, rel=0.05)


def test_a_flood_of_one_kind_takes_nothing_from_the_others(allowances: Allowances) -> None:
    taken(allowances, Topic.OFFER_UPDATE, 100_000)
    assert taken(allowances, Topic.REQUEST_CHUNK, 40) == 40


def test_bytes_are_bounded_too(clock: Clock) -> None:
    large = ChunkPlan(size=1 << 20, width=4, chunk_numbers=1 << 18)
    allowances = Allowances(large, clock)
    taken(allowances, Topic.UPLOAD_CHUNK, 100_000, size=1 << 20)
    answered = 0
    for _ in range(600):
        clock.now += 0.1
        answered += taken(allowances, Topic.UPLOAD_CHUNK, 100, size=1 << 20)
    assert answered << 20 == pytest.approx(60 * BYTES_A_SECOND, rel=0.05)


def test_a_whole_model_passes_several_times_in_each_direction(allowances: Allowances) -> None:
    for topic in (Topic.REQUEST_CHUNK, Topic.UPLOAD_CHUNK):
        assert taken(allowances, topic, 4 * PLAN.chunks, size=1024) == 4 * PLAN.chunks


def test_a_new_version_may_be_fetched_however_much_was_asked_before(allowances: Allowances) -> None:
    taken(allowances, Topic.REQUEST_CHUNK, 100_000)
    allowances.renew()
    assert taken(allowances, Topic.REQUEST_CHUNK, 40) == 40


def test_a_thousand_requests_that_are_dropped_are_a_flood(
    clock: Clock, allowances: Allowances
) -> None:
    assert not any(allowances.is_flood() for _ in range(1000))
    assert allowances.is_flood()
    clock.now += 10
    assert not any(allowances.is_flood() for _ in range(200)), "nor some a second"
