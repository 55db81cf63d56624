"""The fast path computes what the plain loops of `federico.algorithm.reference` do."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from federico.algorithm.reference import ReferenceFederation
from federico.algorithm.reference_acceptance import ReferenceAcceptance
from federico.algorithm.sampling import EpsilonGreedy
from federico.learning.client_data import ClientData
from federico.learning.optimizer_options import Adam
from federico.learning.privacy_rules import Floor
from federico.methods.federico import Federico
from federico.types import FloatArray
from tests.support.linear_models import (
    CLASSES,
    cross_entropy_gradient,
    line,
    log_probabilities,
    squared_error_gradient,
)

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Federico]
SIZES = (12, 5, 45, 1, 2, 40)
"""Some can hold nothing out; one has many samples."""
LARGER_SIZES = (12, 17, 45, 9, 14, 40)
"""Everybody trains in several steps."""
PEERS = len(SIZES)
NEIGHBORS = 2
BATCH_SIZE = 4
RATE = 0.1
"""So that models get better than a guess within the rounds that are played."""
SEED = 3
TOLERANCE = 1e-10

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "the owner alone has a say": {"say": "owner"},
    "the sender alone has a say": {"say": "sender"},
    "much is held out": {"held_out": 0.5},
    "judged to the end": {"judging": 1.0},
    "judged as shortly as possible": {"judging": 0.01},
    "momentum": {"momentum": 0.2},
    "only the last gain counts": {"momentum": 1.0},
    "no private model": {"private_model": False},
    "no solo round": {"solo_rounds": 0},
    "many solo rounds": {"solo_rounds": 5},
    "no exploring": {"epsilon": 0.0},
    "only exploring": {"epsilon": 1.0},
    "few are worth training": {"w_min": 0.2},
    "nobody else weighs much": {"w_max": 0.2, "held_out": 0.5},
    "against collaborating": {"together_prior": 0.1},
    "predicting with others unless they are worse": {"predicting_prior": 0.9, "held_out": 0.5},
    "one start for all": {"start": "same"},
    "a short reach": {"reach": 0.3},
    "the sender alone has a say, and updates are far": {"say": "sender", "reach": 0.3},
    "any update": {"accept": "any"},
    "by direction": {"accept": "cosine"},
    "median": {"accept": "median"},
    "median, the sender alone has a say": {"accept": "median", "say": "sender"},
    "trimmed mean": {"accept": "trimmed", "trim": 0.3},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_fast_path_and_plain_loops_agree_on_classes(
    method: Build, blobs: Clients, options: dict[str, Any]
) -> None:
    clients = blobs(SIZES)
    fast = build(method, clients, options)
    plain = reference(fast, clients)
    play_both(fast, plain, clients)

    temperatures = [value for peer in plain.temperature for value in peer.values()]
    assert len(set(temperatures)) > 1, "some models are read in another way than they speak"


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_fast_path_and_plain_loops_agree_on_values(
    method: Build, sine: Clients, options: dict[str, Any]
) -> None:
    sizes = SIZES
    if options.get("start") == "same":
        # After a single step of Adam from one start, two lines can be the same to the bit. That is
        # taken for an echo, which the plain loops do not look for.
        sizes = LARGER_SIZES
    clients = sine(sizes)
    fast = build(method, clients, options)
    play_both(fast, reference(fast, clients), clients)


def test_they_agree_on_clients_that_have_mostly_one_label(method: Build, blobs: Clients) -> None:
    clients: list[ClientData] = []
    for i, client in enumerate(blobs((60,) * PEERS)):
        x, y = client.train
        kept = (y == i // 2) | (np.arange(len(y)) % 5 == 0)
        clients.append(replace(client, train=(x[kept], y[kept])))

    fast = build(method, clients, {})
    plain = reference(fast, clients)
    play_both(fast, plain, clients)
    powers = [power for peer in plain.prior_power for power in peer.values()]
    assert len(set(powers)) > 1, "some models are read with a client's own label frequencies"


@pytest.mark.parametrize("broken", [0, 5], ids=["few samples", "many samples"])
@pytest.mark.parametrize("after", [2, 7], ids=["while judging", "when trust is final"])
def test_they_agree_on_a_broken_model(
    method: Build, blobs: Clients, broken: int, after: int
) -> None:
    clients = blobs(SIZES)
    fast = build(method, clients, {})
    plain = reference(fast, clients)
    play_both(fast, plain, clients, rounds=range(1, after + 1))

    fast.bank.rows[broken] = np.nan
    plain.phi[broken] = np.full_like(plain.phi[broken], np.nan)
    play_both(fast, plain, clients, rounds=range(after + 1, 11))
    assert any(broken in peers for peers in plain.broken)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("least_samples", [4, 10, 1000])
def test_they_agree_on_clients_with_too_few_samples_to_show_their_models(
    method: Build, blobs: Clients, options: dict[str, Any], least_samples: int
) -> None:
    clients = blobs(SIZES)
    fast = build(method, clients, options, Floor(least_samples))
    plain = reference(fast, clients, least_samples)
    play_both(fast, plain, clients)
    assert fast.unshown == sorted(plain.unshown)
    assert plain.unshown


def build(
    method: Build, clients: list[ClientData], options: dict[str, Any], floor: Floor | None = None
) -> Federico:
    return method(
        "federico",
        clients,
        neighbors=NEIGHBORS,
        seed=SEED,
        batch_size=BATCH_SIZE,
        optimizer=Adam(learning_rate=RATE),
        rounds=10,
        floor=floor,
        **options,
    )


def reference(
    fast: Federico, clients: list[ClientData], least_samples: int = 1
) -> ReferenceFederation:
    """The plain loops from where the fast path starts."""
    is_regression = fast.learner.task == "regression"
    rows = [row.numpy().copy() for row in fast.bank.rows]
    private = rows[PEERS : 2 * PEERS]
    twin = rows[2 * PEERS :]
    return ReferenceFederation(
        x=[client.train[0] for client in clients],
        y=[client.train[1] for client in clients],
        phi=rows[:PEERS],
        private=private,
        twin=twin,
        outputs=line if is_regression else log_probabilities,
        gradient=squared_error_gradient if is_regression else cross_entropy_gradient,
        task=fast.learner.task,
        classes=1 if is_regression else CLASSES,
        sampler=EpsilonGreedy(NEIGHBORS, fast.opt.epsilon),
        names=[client.name for client in clients],
        rounds=10,
        neighbors=NEIGHBORS,
        held_out=fast.opt.held_out,
        judging=fast.opt.judging,
        solo_rounds=fast.opt.solo_rounds,
        has_private_model=fast.opt.private_model,
        together_prior=fast.opt.together_prior,
        predicting_prior=fast.opt.predicting_prior,
        say=fast.opt.say,
        acceptance=ReferenceAcceptance(fast.opt.accept, fast.opt.reach, fast.opt.trim),
        momentum=fast.opt.momentum,
        w_min=fast.opt.w_min,
        w_max=fast.opt.w_max,
        seed=SEED,
        rate=RATE,
        batch_size=BATCH_SIZE,
        least_samples=least_samples,
    )


def play_both(
    fast: Federico,
    plain: ReferenceFederation,
    clients: list[ClientData],
    rounds: range = range(1, 11),
) -> None:
    """Round by round, everything the two hold is the same."""
    for t in rounds:
        expected_neighbors = [sorted(plain.wanted(i, t)) for i in range(PEERS)]
        plain.round(t)
        played = fast.round(t)

        assert [row.tolist() for row in played.neighbors] == expected_neighbors
        assert_same_models(fast, plain)
        for i in range(PEERS):
            assert_same_trust(fast, plain, i)
        assert_same_predictions(fast, plain, clients, t)


def assert_same_models(fast: Federico, plain: ReferenceFederation) -> None:
    """Own models, private models and their twins."""
    models = [*plain.phi, *plain.private, *plain.twin]
    same(fast.bank.rows.numpy(), np.stack(models))


def assert_same_trust(fast: Federico, plain: ReferenceFederation, i: int) -> None:
    """What peer i has tracked, how it reads models, what it trusts, and its gate."""
    tracker = fast.evidence.gains[i]
    waiting = tracker.peers[~tracker.evaluated].tolist()
    assert waiting == sorted(plain.waiting[i])

    assert fast.choice.absent[i].peers.tolist() == sorted(plain.absent[i])

    posterior = fast.posteriors[i]
    peers = posterior.peers.tolist()
    assert peers == sorted(plain.posterior[i])
    same(posterior.weights, np.array([plain.posterior[i][j] for j in peers]))

    judged = tracker.evaluated
    same(tracker.gain[judged], np.array([plain.gain[i][j] for j in peers]))
    same(tracker.temperature[judged], np.array([plain.temperature[i][j] for j in peers]))
    same(tracker.prior_power[judged], np.array([plain.prior_power[i][j] for j in peers]))
    assert tracker.peers[tracker.broken == 1].tolist() == sorted(plain.broken[i])

    standings = fast.owner_side.standings[i]
    named = dict(zip(standings.peers.tolist(), standings.standing.tolist(), strict=True))
    assert named == pytest.approx(plain.standing[i])
    counts = dict(zip(standings.peers.tolist(), standings.refusals.tolist(), strict=True))
    assert counts == plain.refusals[i]
    worths = fast.owner_side.update_worths[i]
    same(worths.worth, np.array([plain.worth_of_updates[i][j] for j in worths.peers.tolist()]))

    if fast.private is not None:
        same(fast.private.together[i], np.array(plain.together[i]))
        same(fast.private.chance[i], np.array(plain.chance[i]))
        same(fast.private.private_temperature[i], np.array(plain.private_temperature[i]))


def assert_same_predictions(
    fast: Federico, plain: ReferenceFederation, clients: list[ClientData], t: int
) -> None:
    """What each peer predicts for its test samples, by all that it trusts and its private model."""
    mixtures = fast.predictors(t).personal()
    mixed = fast.learner.mix(
        mixtures.bank, mixtures.visits, mixtures.weights, calibration=mixtures.calibration
    )
    predicted: list[list[float]] = []
    for i, client in enumerate(clients):
        predicted += plain.predict(i, client.test[0])
    same(mixed.numpy(), np.array(predicted))


def same(fast: FloatArray, plain: FloatArray) -> None:
    np.testing.assert_allclose(fast, plain, rtol=0, atol=TOLERANCE)
