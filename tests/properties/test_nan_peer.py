"""One broken model is as good as absent: it gets no weight, and takes nothing from anybody else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from federico.experiment.evaluation import evaluate
from federico.learning.client_data import ClientData
from federico.learning.visits import Visits
from federico.methods.federico import Federico
from federico.methods.method import Round

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Federico]
Play = Callable[..., list[Round]]

SIZES = (7, 4, 5, 6, 8)
BROKEN = 2
PAPER = {"preset": "paper", "worse_than_guess": "tracked"}


class WithoutBroken(Federico):
    """Nobody gets to see the broken model but its owner."""

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        return super().pull(round_index, wanted[np.flatnonzero(wanted.owners != BROKEN)])


RULES: dict[str, dict[str, Any]] = {
    "epochs": {},
    "gradient": {"m_step": "gradient"},
    "paper, epochs": {**PAPER},
    "paper, gradient": {**PAPER, "m_step": "gradient"},
}


@pytest.fixture(params=RULES)
def build(request: pytest.FixtureRequest, method: Build, blobs: Clients) -> Build:
    """Everyone samples everyone, and one model is NaN from the start or later."""

    rule = RULES[request.param]

    def make(cls: type[Federico] = Federico, broken: bool = True, **options: object) -> Federico:
        federico = method(
            cls,
            blobs(SIZES),
            **rule,
            **{"sampler": "everyone", "solo_rounds": 0, **options},
        )
        if broken:
            federico.bank.rows[BROKEN] = torch.nan
        return federico

    return make


def test_other_weights_change_by_its_removal_only(build: Build) -> None:
    clean, spoiled = build(broken=False).round(1), build().round(1)
    for i in range(len(SIZES)):
        without = np.delete(clean.posteriors[i].weights, BROKEN)
        assert spoiled.posteriors[i].weights[BROKEN] == 0
        np.testing.assert_allclose(
            np.delete(spoiled.posteriors[i].weights, BROKEN), without / without.sum(), rtol=1e-12
        )


def test_meeting_it_equals_never_meeting_it(build: Build, play: Play) -> None:
    met, never = build(), build(WithoutBroken)
    for a, b in zip(play(met, 4), play(never, 4), strict=True):
        for i, (one, other) in enumerate(zip(a.posteriors, b.posteriors, strict=True)):
            assert BROKEN in one.peers
            assert BROKEN not in other.peers or i == BROKEN
            np.testing.assert_allclose(
                one.weights[one.peers != BROKEN],
                other.weights[other.peers != BROKEN],
                rtol=0,
                atol=1e-12,
            )
    torch.testing.assert_close(met.bank.rows, never.bank.rows, rtol=0, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("sampler", ["everyone", "epsilon_greedy"])
def test_everyone_else_stays_finite_and_its_owner_predicts_with_the_others(
    build: Build, play: Play, sampler: str
) -> None:
    federico = build(sampler=sampler, neighbors=2)
    play(federico, 6)
    sane = np.arange(len(federico.bank.rows)) != BROKEN
    assert federico.bank.rows[sane].isfinite().all()
    mixtures = federico.predictors(6)
    assert BROKEN not in mixtures.visits.owners
    scores = evaluate(federico, federico.predictors(6)).used
    assert np.isfinite(scores.figures["loss"]).all()


def test_a_model_that_breaks_late_loses_its_weight_and_regains_it_when_mended(
    build: Build, play: Play
) -> None:
    federico = build(broken=False)
    before = play(federico, 2)[-1]
    had_weight = [row.weights[BROKEN] > 0 for row in before.posteriors]
    assert sum(had_weight) >= 3
    healthy = federico.bank.rows[BROKEN].clone()
    federico.bank.rows[BROKEN] = torch.inf
    (played,) = play(federico, 1, first=3)
    assert [row.weights[BROKEN] for row in played.posteriors] == [0.0] * len(SIZES)
    federico.bank.rows[BROKEN] = healthy
    (played,) = play(federico, 1, first=4)
    assert [row.weights[BROKEN] > 0 for row in played.posteriors] == had_weight


@pytest.mark.parametrize("m_step", ["epochs", "gradient"])
def test_a_loss_that_is_not_finite_is_not_tracked(
    method: Build, blobs: Clients, play: Play, m_step: str
) -> None:
    options = {**PAPER, "m_step": m_step, "sampler": "everyone", "solo_rounds": 0}
    federico = method("federico", blobs(SIZES), **options)
    play(federico, 2)
    healthy = federico.bank.rows[BROKEN].clone()
    tracked = federico.evidence.losses[0].tracked[BROKEN]
    federico.bank.rows[BROKEN] = torch.inf
    play(federico, 1, first=3)
    federico.bank.rows[BROKEN] = healthy
    (played,) = play(federico, 1, first=4)
    assert min(row.weights[BROKEN] for row in played.posteriors) > 0
    tracker = federico.evidence.losses[0]
    latest = tracker.latest[BROKEN]
    assert tracker.tracked[BROKEN] == pytest.approx(0.4 * tracked + 0.6 * latest)


def test_if_every_model_is_broken_nothing_moves(build: Build, play: Play) -> None:
    federico = build()
    federico.bank.rows.fill_(torch.nan)
    play(federico, 2)
    assert len(federico.learner.states) == 0
    assert federico.predictors(2).visits.pairs == Visits.to_own(np.arange(len(SIZES))).pairs
