"""What owners make of the updates of others, by every rule, whatever is sent and how."""

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from federico.exchange.protocol import Updates
from federico.experiment.build import prepare
from federico.experiment.config import validate
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.methods.accepting import Weighed
from federico.methods.federico import Federico
from federico.methods.federico_options import FedericoOptions

RULES: dict[str, dict[str, Any]] = {
    "reach": {"accept": "reach"},
    "cosine": {"accept": "cosine"},
    "median": {"accept": "median"},
    "trimmed": {"accept": "trimmed", "trim": 0.3},
}
VICTIM = 1
HOSTILE = 0


def federico(**options: Any) -> Federico:
    tables: dict[str, Any] = {
        "methods": ["federico"],
        "rounds": 6,
        "split": {"samples": 600},
        "partition": {"kind": "iid", "clients": 5},
        "model": {"kind": "linear"},
        "training": {"optimizer": {"kind": "adam", "learning_rate": 0.02}},
        "federico": {"neighbors": 4, **options},
        "system": {"threads": 1},
    }
    method = prepare(validate(tables), 0).method("federico")
    assert isinstance(method, Federico)
    return method


def forward(share: float, times: float, **options: Any) -> float:
    """How far a victim's model moves, in parts of its own update and along it.

    A hostile member with `share` of the weight sends the victim's own update backwards, `times` as
    long; the victim is beside it alone.
    """
    method = federico(**options)
    method.round(1)
    own = method.m_step(method.to_own(), 2).take(np.array([VICTIM]))
    delta = own.rows[0]
    weight = float(own.coefficients[0]) * share / (1 - share)
    updates = Updates(
        owners=np.array([VICTIM, VICTIM]),
        contributors=np.array([HOSTILE, VICTIM]),
        coefficients=np.array([weight, float(own.coefficients[0])]),
        rows=Rows.of(torch.stack([-times * delta, delta])),
    )
    weighed = method.weigh(updates)
    factors = weighed.updates.coefficients * weighed.scales
    moved = sum(
        factor * row for factor, row in zip(factors.tolist(), weighed.updates.rows, strict=True)
    )
    moved = moved / weighed.updates.coefficients.sum()
    return float((moved @ delta) / (delta @ delta))


@pytest.mark.parametrize("times", [1.0, 100.0])
@pytest.mark.parametrize("m_step", ["epochs", "gradient"])
@pytest.mark.parametrize("rule", RULES)
def test_no_rule_lets_a_backward_update_lead_backwards(
    rule: str, m_step: str, times: float
) -> None:
    """Under the sender's say, with less weight than the least of the rules can bear."""
    assert forward(0.24, times, m_step=m_step, say="sender", **RULES[rule]) > 0
    taken = forward(0.24, times, m_step=m_step, say="sender", accept="any")
    assert taken == pytest.approx(0.76 - 0.24 * times, rel=1e-4)


def test_a_longer_reach_lets_an_update_lead_further() -> None:
    near = forward(0.9, 100.0, say="sender", m_step="gradient", reach=0.5)
    far = forward(0.9, 100.0, say="sender", m_step="gradient", reach=3.0)
    assert near > 0.4
    assert far < -0.3


def test_what_is_refused_counts_for_the_owners_own_delta() -> None:
    backwards = forward(0.9, 1.0, say="sender", accept="cosine")
    assert backwards == pytest.approx(1.0)
    harmful = forward(0.9, 100.0, say="sender", reach=3.0)
    assert harmful == pytest.approx(1.0)


# What updates are worth.


def send(method: Federico, times: float) -> Weighed:
    """What becomes of the update that the hostile member sends the victim.

    It is what the victim's update would be if it were the hostile member, so many times.
    """
    own = method.m_step(method.to_own(), 2).take(np.array([VICTIM]))
    theirs = method.learner.train(method.bank, Visits.of([(HOSTILE, VICTIM)]), 2)
    rows = Rows.of(torch.stack([times * theirs[0], own.rows[0]]))
    owners = np.array([VICTIM, VICTIM])
    contributors = np.array([HOSTILE, VICTIM])
    return method.weigh(Updates(owners, contributors, np.array([60.0, 60.0]), rows))


def is_taken(weighed: Weighed) -> bool:
    return HOSTILE in weighed.updates.contributors


def trusting(**options: Any) -> Federico:
    """A federation after rounds in which everybody was honest."""
    method = federico(judging=1.0, **options)
    for round_index in (1, 2, 3):
        method.round(round_index)
    return method


def refused(method: Federico) -> list[int]:
    """Whose updates the victim has had to refuse."""
    peers: list[int] = method.owner_side.standings[VICTIM].peers.tolist()
    return peers


def test_what_is_turned_round_is_refused_however_good_its_senders_model_is() -> None:
    """Turned round, an update is as long as others, and at a right angle to the owner's own."""
    method = trusting()
    taken = [is_taken(send(method, -1.0)) for _ in range(6)]
    assert not any(taken[3:]), taken
    standings = method.owner_side.standings[VICTIM]
    assert standings.of(np.array([HOSTILE]))[0] < 0.2


def test_who_stops_doing_harm_is_heard_again() -> None:
    method = trusting()
    assert refused(method) == [], "all were honest"
    for _ in range(6):
        send(method, -1.0)
    assert refused(method) == [HOSTILE]
    for round_index in range(4, 30):
        method.round(round_index)
    assert is_taken(send(method, 1.0))
    standings = method.owner_side.standings[VICTIM]
    assert standings.of(np.array([HOSTILE]))[0] > 0.9


@pytest.mark.parametrize("rule", [{"accept": "any"}, {"preset": "paper"}])
def test_where_nothing_is_weighed_no_update_is_judged(rule: dict[str, Any]) -> None:
    method = trusting(**rule) if "preset" not in rule else federico(**rule)
    method.round(4)
    assert all(is_taken(send(method, -1.0)) for _ in range(6))


def test_judging_updates_leaves_no_trace_in_the_models() -> None:
    """Updates are tried on the models themselves, which are then as they were, bit for bit."""
    method = trusting()
    before = method.bank.rows.clone()
    others = Visits.of([(2, VICTIM), (3, VICTIM), (VICTIM, VICTIM), (3, 3)])
    deltas = method.learner.train(method.bank, others, 2)
    method.weigh(Updates(others.owners, others.clients, np.ones(4), deltas))
    assert np.array_equal(method.bank.rows.numpy(), before.numpy())


# Reputation.


def refuse(method: Federico, times: int) -> None:
    """The victim gets updates from the hostile member, all of which it has to refuse."""
    own = method.m_step(method.to_own(), 2).take(np.array([VICTIM]))
    delta = own.rows[0]
    owners = np.array([VICTIM, VICTIM])
    rows = Rows.of(torch.stack([-10 * delta, delta]))
    for _ in range(times):
        contributors = np.array([HOSTILE, VICTIM])
        method.weigh(Updates(owners, contributors, np.array([40.0, 40.0]), rows))


def test_whose_updates_are_refused_counts_for_less_and_is_asked_less_readily() -> None:
    method = federico(sampler="epsilon_greedy", epsilon=0.0, neighbors=2, judging=0.5)
    for round_index in range(1, 5):
        played = method.round(round_index)
    assert all(len(each.peers) == 0 for each in played.refusals), "all were honest"
    asked_before = times_asked(method)

    trusted = method.posteriors[VICTIM]
    assert trusted.weights[trusted.peers == HOSTILE] > 0.05
    refuse(method, 3)
    refused = method.owner_side.standings[VICTIM]
    assert refused.peers.tolist() == [HOSTILE]
    assert refused.standing.tolist() == [0.125]
    assert times_asked(method) < asked_before / 2

    # Nobody else thinks the worse of it.
    assert all(len(method.owner_side.standings[b].peers) == 0 for b in (0, 2, 3, 4))


def times_asked(method: Federico) -> int:
    """How often the victim would choose the hostile member in many rounds to come."""
    return sum(HOSTILE in method.sample(t)[VICTIM] for t in range(100, 300))


def test_an_update_that_counts_for_nothing_is_held_against_nobody() -> None:
    """Who was never evaluated moves nothing, so nothing of it is weighed."""
    method = federico()
    method.round(1)
    refuse(method, 3)
    assert method.owner_side.standings[VICTIM].peers.tolist() == []


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"accept": "cosine", "reach": 2.0}, "reach is about accept = 'reach'"),
        ({"trim": 0.2}, "trim is about accept = 'trimmed'"),
        ({"accept": "trimmed", "trim": 0.5}, "less than 0.5"),
        ({"reach": 0.0}, "greater than 0"),
    ],
)
def test_what_makes_no_sense_is_refused(bad: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        FedericoOptions.model_validate(bad)


@pytest.mark.parametrize("preset", ["paper", "literal"])
def test_the_papers_rule_takes_any_update(preset: str) -> None:
    assert FedericoOptions.model_validate({"preset": preset}).accept == "any"
    weighed = FedericoOptions.model_validate({"preset": preset, "accept": "reach"})
    assert weighed.accept == "reach"
