from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn

from federico.errors import ConfigError
from federico.learning.client_data import ClientData
from federico.learning.visits import Visits
from federico.methods.accepting import OWNERS
from federico.methods.federico import Federico
from federico.methods.federico_options import FedericoOptions
from federico.methods.method import Needs, Posterior, pull_neighbors

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Federico]
SIZES = (7, 4, 5, 6)


@pytest.fixture
def federico(method: Build, blobs: Clients) -> Build:
    """Options -> FedeRiCo with four ragged clients, before its first round."""
    return lambda **options: method("federico", blobs(SIZES), **{"neighbors": 2, **options})


@pytest.fixture
def paper(federico: Build) -> Build:
    """The same with the paper's rule: trust by training losses."""
    return lambda **options: federico(preset="paper", **options)


def play(federico: Federico, rounds: int) -> Federico:
    for round_index in range(1, rounds + 1):
        federico.round(round_index)
    return federico


def test_defaults_are_the_papers_where_it_states_them() -> None:
    options = FedericoOptions()
    assert (options.neighbors, options.epsilon, options.momentum) == (3, 0.3, 0.6)


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 1.1},
        {"epsilon": -0.1},
        {"momentum": 0.0},
        {"momentum": 1.1},
        {"preset": "paper", "temperature": 0.0},
        {"w_min": 1.0},
        {"anchor": 2.0},
        {"neighbors": -1},
        {"solo_rounds": -1},
        {"sampler": "all"},
        {"beta": 0.6},
        {"preset": "paper", "debias": True, "tracking": "accumulated"},
        {"held_out": 0.0},
        {"held_out": 1.0},
        {"judging": 0.0},
        {"together_prior": 1.0},
        {"say": "nobody"},
    ],
)
def test_options_without_a_meaning_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FedericoOptions(**bad)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.1),
        ("tracking", "accumulated"),
        ("debias", True),
        ("loss", "sum"),
        ("worse_than_guess", "tracked"),
        ("strangers", "literal"),
    ],
)
def test_options_of_training_losses_are_refused_where_they_have_no_effect(
    name: str, value: object
) -> None:
    with pytest.raises(ValidationError, match=f"{name}.* is about training losses.*'paper'"):
        FedericoOptions.model_validate({name: value})
    FedericoOptions.model_validate({"preset": "paper", name: value})


def test_rules_of_trust_need_held_out_samples() -> None:
    with pytest.raises(ValidationError, match="trust is about held-out samples"):
        FedericoOptions(preset="paper", trust="stacking")


@pytest.mark.parametrize("rule", ["softmax", "bootstrap", "stacking"])
def test_every_rule_of_trust_learns_and_resumes(federico: Build, rule: str) -> None:
    whole = play(federico(trust=rule), 4)
    begun = play(federico(trust=rule), 2)
    resumed: Any = federico(trust=rule)
    resumed.restore(begun.state())
    for t in (3, 4):
        resumed.round(t)
    for i, weights in whole.posteriors.items():
        assert weights.weights.tolist() == resumed.posteriors[i].weights.tolist()
        assert weights.weights.sum() == pytest.approx(1)


def test_a_round_says_what_the_models_that_were_judged_are_worth(federico: Build) -> None:
    played = federico()
    alone = played.round(1)
    together = played.round(2)

    assert [each.peers.tolist() for each in alone.gains] == [[0], [1], [2], [3]]
    for i, each in enumerate(together.gains):
        assert each.peers.tolist() == sorted([i, *together.neighbors[i].tolist()])
        # Whoever was judged for the first time is tracked as it was found.
        tracker = played.evidence.gains[i]
        met_now = each.peers != i
        found = np.searchsorted(tracker.peers, each.peers[met_now])
        assert np.maximum(each.nats[met_now], -1).tolist() == tracker.gain[found].tolist()


def test_training_losses_are_no_gains(paper: Build) -> None:
    assert paper().round(1).gains == []


def test_a_private_model_needs_held_out_samples() -> None:
    with pytest.raises(ValidationError, match="set private_model = false"):
        FedericoOptions(evidence="training")
    FedericoOptions(evidence="training", private_model=False)


def test_more_neighbors_than_others_are_refused(federico: Build) -> None:
    with pytest.raises(ConfigError, match="set it to 3 or less"):
        federico(neighbors=4)
    federico(neighbors=4, sampler="everyone")


def test_gradients_of_a_model_with_statistics_are_refused(
    federico: Build, batch_norm_net: type[nn.Module]
) -> None:
    with pytest.raises(ConfigError, match="cannot train float buffers"):
        federico(m_step="gradient", model=batch_norm_net)


def test_nobody_samples_in_a_solo_round(federico: Build) -> None:
    played = federico(solo_rounds=2)
    sampled = [[len(row) for row in played.round(t).neighbors] for t in (1, 2, 3)]
    assert sampled == [[0] * 4, [0] * 4, [2] * 4]
    assert [row.peers.tolist() for row in federico(solo_rounds=2).round(1).posteriors] == [
        [0],
        [1],
        [2],
        [3],
    ]


def test_models_start_from_their_peers_names_or_from_one(federico: Build) -> None:
    independent, same = federico(), federico(start="same")
    assert len(independent.bank.rows[:4].unique(dim=0)) == 4
    assert len(same.bank.rows[:4].unique(dim=0)) == 1


@pytest.mark.parametrize("start", ["independent", "same"])
def test_private_models_start_where_training_alone_does(
    federico: Build, method: Build, blobs: Clients, start: str
) -> None:
    own, private, judged = federico(start=start).bank.rows.unflatten(0, (3, 4))
    alone = method("local", blobs(SIZES)).bank.rows
    assert torch.equal(private, alone)
    assert torch.equal(judged, alone)
    assert torch.equal(own, alone) == (start == "independent")


def test_own_models_cost_no_message(federico: Build) -> None:
    played = play(federico(), 1)
    assert played.exchange.traffic.take()["training"].moved == 0


def test_messages_are_the_neighbors_models_and_what_goes_back(paper: Build) -> None:
    played = paper(solo_rounds=0, worse_than_guess="tracked")
    visits = played.round(1).neighbors
    counted = played.exchange.traffic.take()["training"]
    sent, received = counted.sent, counted.received
    model = 15 * 8
    assert sent.sum() == received.sum() == 4 * 2 * (model + model + 8)
    asked = np.bincount(np.concatenate(visits), minlength=4)
    assert sent.tolist() == (asked * model + 2 * (model + 8)).tolist()


def test_an_update_weighs_posterior_times_samples(paper: Build) -> None:
    played = paper(sampler="everyone", solo_rounds=0, worse_than_guess="tracked")
    visits = pull_neighbors(played, 1, played.sample(1))
    played.e_step(visits)
    updates = played.m_step(visits, 1)
    for b, i, coefficient in zip(
        updates.owners, updates.contributors, updates.coefficients, strict=True
    ):
        assert coefficient == pytest.approx(played.posteriors[i].weights[b] * SIZES[i])


def set_posterior(federico: Federico, rows: list[list[float]]) -> Visits:
    """Everyone has met everyone, with these weights."""
    federico.posteriors = {i: Posterior(np.arange(4), np.array(row)) for i, row in enumerate(rows)}
    return Visits.of([(i, b) for i in range(4) for b in range(4)])


FIRST_TRUSTS_LITTLE = [[0.00005, 0.99995, 0.0, 0.0], *([[0.25] * 4] * 3)]


@pytest.mark.parametrize("m_step", ["epochs", "gradient"])
def test_what_weighs_less_than_w_min_computes_and_sends_nothing(paper: Build, m_step: str) -> None:
    played = paper(m_step=m_step)
    updates = played.m_step(
        set_posterior(played, [[0.99995, 0.00005, 0.0, 0.0], *([[0.25] * 4] * 3)]), 2
    )
    assert updates.owners[updates.contributors == 0].tolist() == [0]
    assert (0, 1) not in played.learner.states.pairs
    assert len(updates) == 13


def test_a_gradient_of_a_model_that_weighs_nothing_is_not_computed(paper: Build) -> None:
    played = paper(m_step="gradient")
    updates = played.m_step(set_posterior(played, FIRST_TRUSTS_LITTLE), 2)
    assert updates.owners[updates.contributors == 0].tolist() == [1]


def test_a_model_that_everybody_left_is_trained_by_its_owner_as_if_alone(paper: Build) -> None:
    played, alone = paper(solo_rounds=0), paper(solo_rounds=0)
    for peer in (played, alone):
        peer.e_step(Visits.of([(i, i) for i in range(4)]))
    everybody_trusts_the_second = [[0.0, 1.0, 0.0, 0.0]] * 4
    played.update(1, played.m_step(set_posterior(played, everybody_trusts_the_second), 1))
    alone.update(1, alone.m_step(Visits.of([(i, i) for i in range(4)]), 1))
    for i in (0, 2, 3):
        assert torch.equal(played.bank.rows[i], alone.bank.rows[i])
    assert not torch.equal(played.bank.rows[1], alone.bank.rows[1])


def test_an_anchored_peer_trains_its_own_model_however_little_it_trusts_it(paper: Build) -> None:
    played = paper(anchor=0.5)
    updates = played.m_step(set_posterior(played, FIRST_TRUSTS_LITTLE), 2)
    assert updates.owners[updates.contributors == 0].tolist() == [0, 1]
    before = played.bank.rows[0].clone()
    played.update(1, updates)
    own = updates.rows.as_tensor()[(updates.owners == 0) & (updates.contributors == 0)][0]
    others = updates.take(np.flatnonzero((updates.owners == 0) & (updates.contributors != 0)))
    weights = torch.from_numpy(others.coefficients / others.coefficients.sum())
    expected = 0.5 * own + 0.5 * (weights[:, None] * others.rows.as_tensor()).sum(0)
    torch.testing.assert_close(played.bank.rows[0] - before, expected)


def test_an_owner_without_contributions_stands_still_with_its_optimizer(paper: Build) -> None:
    played = play(
        paper(m_step="gradient", sampler="everyone", solo_rounds=0, worse_than_guess="tracked"),
        2,
    )
    before, moments = played.bank.rows.clone(), played.learner.states.state()["moments"].clone()
    nobody_trusts_3 = [[0.5, 0.3, 0.2, 0.0]] * 4
    played.update(1, played.m_step(set_posterior(played, nobody_trusts_3), 3))
    assert torch.equal(played.bank.rows[3], before[3])
    assert torch.equal(played.learner.states.state()["moments"][3], moments[3])
    assert not torch.equal(played.bank.rows[0], before[0])


def test_optimizers_are_kept_while_a_model_has_weight(paper: Build) -> None:
    played = play(paper(sampler="everyone", solo_rounds=0, worse_than_guess="tracked"), 2)
    assert played.learner.states.pairs == [(i, b) for i in range(4) for b in range(4)]
    set_posterior(played, [[0.0, 0.9, 0.1, 0.00001], *([[0.25] * 4] * 3)])
    played.forget_negligible(0)
    kept = [b for i, b in played.learner.states.pairs if i == 0]
    assert kept == [0, 1, 2], "model 3 weighs nothing any more; one's own stays"


def test_fresh_optimizers_leave_nothing(paper: Build) -> None:
    assert len(play(paper(optimizer_state="fresh"), 3).learner.states) == 0


def measured(
    federico: Federico, losses: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> list[Posterior]:
    """Everyone's posterior, given the mean losses of everyone's model on everyone's data."""
    visits = Visits.of([(i, b) for i in range(4) for b in range(4)])
    monkeypatch.setattr(federico.learner, "evaluate", lambda bank, visits: np.array(losses).ravel())
    federico.e_step(visits)
    return [*federico.posteriors.values()]


HARDLY_TRAINED = [
    [9e5, 1.0, 2.0, 8.0],
    [4.0, 0.5, 0.8, 1.2],
    [3.0, 5.0, 7e3, 6.0],
    [1.0, np.nan, 1.1, 0.9],
]


@pytest.mark.parametrize("m_step", ["epochs", "gradient"])
@pytest.mark.parametrize("loss", ["mean", "sum"])
def test_models_worse_than_a_guess_have_no_weight_unless_all_are(
    paper: Build, monkeypatch: pytest.MonkeyPatch, loss: str, m_step: str
) -> None:
    rows = measured(paper(momentum=1.0, loss=loss, m_step=m_step), HARDLY_TRAINED, monkeypatch)
    sane = [{1: 1.0}, {1: 0.5, 2: 0.8}, {2: 0.0}, {0: 1.0, 3: 0.9}]
    for n, row, losses in zip(SIZES, rows, sane, strict=True):
        scores = np.exp(-np.array([*losses.values()]) * (n if loss == "sum" else 1))
        assert np.flatnonzero(row.weights).tolist() == [*losses]
        np.testing.assert_allclose(row.weights[[*losses]], scores / scores.sum(), rtol=1e-12)


def test_one_absurd_loss_is_not_remembered_for_rounds(
    paper: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = [[0.5 if i == b else 0.9 for b in range(4)] for i in range(4)]
    weights = {}
    for how in ("ignored", "tracked"):
        played = paper(worse_than_guess=how)
        measured(played, HARDLY_TRAINED, monkeypatch)
        weights[how] = measured(played, fine, monkeypatch)[0].weights
    assert weights["tracked"][0] < 1e-12
    assert weights["ignored"].argmax() == 0


def test_an_even_guess_is_no_worse_than_a_guess(method: Build, blobs: Clients) -> None:
    played = method("federico", blobs(SIZES), preset="paper", neighbors=2, dtype=torch.float32)
    played.bank.rows.zero_()
    played.e_step(Visits.of([(i, b) for i in range(4) for b in range(4)]))
    assert all(tracker.sane.all() for tracker in played.evidence.losses.values())


def test_a_model_worse_than_a_guess_is_trained_by_its_owner_and_by_nobody_else(
    paper: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = paper()
    measured(played, HARDLY_TRAINED, monkeypatch)
    updates = played.m_step(Visits.of([(i, b) for i in range(4) for b in range(4)]), 2)
    trained = sorted(zip(updates.contributors.tolist(), updates.owners.tolist(), strict=True))
    assert trained == [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (3, 0), (3, 3)]


def test_values_have_no_guess_to_be_worse_than(method: Build, sine: Clients) -> None:
    ignored, tracked = (
        play(
            method(
                "federico",
                sine((6, 5, 7, 6)),
                preset="paper",
                neighbors=2,
                worse_than_guess=how,
            ),
            4,
        )
        for how in ("ignored", "tracked")
    )
    assert torch.equal(ignored.bank.rows, tracked.bank.rows)


def test_the_sum_of_losses_is_n_times_the_mean(paper: Build) -> None:
    mean, total = (
        play(paper(loss=loss, sampler="everyone", solo_rounds=0), 1) for loss in ("mean", "sum")
    )
    trackers = zip(mean.evidence.losses.values(), total.evidence.losses.values(), strict=True)
    for n, (a, b) in zip(SIZES, trackers, strict=True):
        np.testing.assert_allclose(b.tracked, n * a.tracked, rtol=1e-12)


def test_temperature_divides_the_losses(paper: Build) -> None:
    played = play(paper(temperature=0.1, sampler="everyone", worse_than_guess="tracked"), 3)
    trackers = played.evidence.losses.values()
    for row, tracker in zip(played.posteriors.values(), trackers, strict=True):
        scores = np.exp(-(tracker.tracked - tracker.tracked.min()) / 0.1)
        np.testing.assert_allclose(row.weights, scores / scores.sum(), rtol=1e-9)


def test_predicts_with_the_posterior_without_its_negligible_part(paper: Build) -> None:
    played = paper(w_min=0.2)
    set_posterior(played, [[0.6, 0.2, 0.1, 0.1], [0.25] * 4, [0.0, 0.0, 1.0, 0.0], [0.0] * 4])
    mixtures = played.predictors(1)
    rows = [
        dict(zip(mixtures.visits.owners[own].tolist(), mixtures.weights[own].tolist(), strict=True))
        for own in (mixtures.visits.clients == i for i in range(4))
    ]
    assert rows == [
        {0: pytest.approx(0.75), 1: pytest.approx(0.25)},
        dict.fromkeys(range(4), 0.25),
        {2: 1.0},
        {3: 1.0},
    ]


def test_no_other_model_weighs_more_than_w_max(paper: Build) -> None:
    played = paper(w_max=0.4)
    set_posterior(played, [[0.2, 0.7, 0.1, 0.0], [0.9, 0.1, 0.0, 0.0], [1.0, 0, 0, 0], [0.1] * 4])
    mixtures = played.predictors(1)
    rows = np.zeros((4, 4))
    rows[mixtures.visits.clients, mixtures.visits.owners] = mixtures.weights
    expected = [[0.4, 0.4, 0.2, 0], [0.4, 0.6, 0, 0], [0.4, 0, 0.6, 0], [0.25] * 4]
    np.testing.assert_allclose(rows, expected)


def test_before_the_first_round_everybody_predicts_with_its_own_model(federico: Build) -> None:
    assert federico().predictors(0).visits.pairs == [(0, 0), (1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("buffers", ["average", "owner", "frozen"])
def test_statistics_follow_the_option_and_counters_the_owner(
    method: Build,
    blobs: Clients,
    batch_norm_net: type[nn.Module],
    buffers: str,
    momentum: float | None,
) -> None:
    played = method(
        "federico",
        blobs((8, 4, 6)),
        model=lambda: batch_norm_net(momentum),
        batch_size=2,
        neighbors=1,
        buffers=buffers,
        sampler="everyone",
        solo_rounds=0,
        preset="paper",
        worse_than_guess="tracked",
    )
    first, before = played.learner.layout.parameters, played.bank.rows.clone()
    visits = pull_neighbors(played, 1, played.sample(1))
    played.e_step(visits)
    updates = played.m_step(visits, 1)
    played.update(1, updates)
    moved = (played.bank.rows - before)[:, first:]
    for b in range(3):
        to_b = updates.owners == b
        weights = torch.from_numpy(updates.coefficients[to_b] / updates.coefficients[to_b].sum())
        expected = {
            "average": (weights[:, None] * updates.rows.as_tensor()[to_b]).sum(0)[first:],
            "owner": updates.rows.as_tensor()[to_b & (updates.contributors == b)][0, first:],
            "frozen": torch.zeros_like(moved[b]),
        }
        torch.testing.assert_close(moved[b], expected[buffers], rtol=0, atol=1e-12)
    assert played.bank.counters[:, 0].tolist() == [4, 2, 3]


@pytest.mark.parametrize("options", [{"anchor": 0.5}, {"optimizer_state": "fresh"}])
def test_options_of_local_epochs_do_not_go_with_a_gradient(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="they need m_step = 'epochs'"):
        FedericoOptions.model_validate({"m_step": "gradient", **options})


@pytest.mark.parametrize("anchor", [0.0, 0.5])
def test_a_peer_trains_its_own_model_even_when_its_weight_underflows(
    paper: Build, anchor: float
) -> None:
    played = paper(
        anchor=anchor,
        sampler="everyone",
        solo_rounds=0,
        temperature=1e-4,
        worse_than_guess="tracked",
    )
    visits = pull_neighbors(played, 1, played.sample(1))
    played.e_step(visits)
    weights = [row.weights[i] for i, row in played.posteriors.items()]
    assert min(weights) == 0.0, "somebody's own model has no weight at all"
    updates = played.m_step(visits, 1)
    assert set(updates.owners[updates.owners == updates.contributors].tolist()) == {0, 1, 2, 3}


def test_fewer_others_than_the_default_are_all_visited(method: Build, blobs: Clients) -> None:
    played = method("federico", blobs((5, 5)), solo_rounds=0)
    assert [sampled.tolist() for sampled in played.sample(1)] == [[1], [0]]


@pytest.mark.parametrize(
    ("options", "rounds", "wanted"),
    [
        ({"neighbors": 2}, 1, Needs(9, 9, 9)),  # nobody samples in a solo round
        ({"neighbors": 2}, 100, Needs(9, 27, 81, met=72)),  # anybody may be a collaborator
        ({"neighbors": 2}, 3, Needs(9, 27, 9 + 36, met=36)),  # half of the others have been met
        ({"neighbors": 2, "solo_rounds": 0}, 1, Needs(9, 27, 27, met=18)),
        (
            {"neighbors": 1, "strangers": "cautious", "epsilon": 0.1},
            11,
            Needs(9, 18, 9 + 27, met=27),
        ),
        (
            {"neighbors": 1, "strangers": "cautious", "epsilon": 0.9},
            4,
            Needs(9, 18, 9 + 27, met=27),
        ),
        ({"neighbors": 0}, 100, Needs(9, 9, 9)),
        ({"sampler": "everyone"}, 100, Needs(9, 81, 81, met=72)),
        ({"neighbors": 2, "optimizer_state": "fresh"}, 100, Needs(9, 27, 0, fresh=27, met=72)),
        ({"neighbors": 2, "m_step": "gradient"}, 100, Needs(9, 36, 9, met=72)),
    ],
)
def test_needs_follow_the_options_and_the_rounds(
    options: dict[str, Any], rounds: int, wanted: Needs
) -> None:
    paper = FedericoOptions.model_validate({"preset": "paper", **options})
    assert Federico.memory(paper, 9, rounds) == wanted


@pytest.mark.parametrize(
    ("options", "rounds", "wanted"),
    [
        # Each client trains its own model and, with an optimizer of its own, two private ones.
        ({"neighbors": 2}, 1, Needs(27, 9, 27)),
        ({"neighbors": 2}, 100, Needs(27, 27, 18 + 81, met=72)),
        ({"neighbors": 2}, 3, Needs(27, 27, 18 + 9 + 36, met=36)),
        ({"sampler": "everyone"}, 100, Needs(27, 81, 18 + 81, met=72)),
        # Private models are trained alone, and keep their optimizers as training alone does.
        ({"neighbors": 2, "optimizer_state": "fresh"}, 100, Needs(27, 27, 18, fresh=27, met=72)),
        ({"neighbors": 2, "m_step": "gradient"}, 100, Needs(27, 36, 18 + 9, met=72)),
        ({"neighbors": 2, "private_model": False}, 100, Needs(9, 27, 81, met=72)),
        ({"neighbors": 0}, 100, Needs(9, 9, 9)),  # its own model is that of training alone
    ],
)
def test_private_models_need_room_too(options: dict[str, Any], rounds: int, wanted: Needs) -> None:
    needed = Federico.memory(FedericoOptions(**options), 9, rounds)
    assert replace(needed, private_updates=0, copies=0) == wanted
    # An update of each private model, while those that were sent are under way.
    has_private_models = wanted.models > 9
    assert needed.private_updates == (9 if has_private_models else 0)


def test_who_judges_updates_needs_room_for_some_models_as_they_were() -> None:
    def copies(clients: int, **options: Any) -> int:
        return Federico.memory(FedericoOptions(**options), clients, 10).copies

    assert copies(3) == 3
    assert copies(1000) == OWNERS
    for judges_none in ({"accept": "any"}, {"m_step": "gradient"}, {"preset": "paper"}):
        assert copies(1000, **judges_none) == 0


def test_a_single_client_needs_one_of_each() -> None:
    assert Federico.memory(FedericoOptions(), 1, 5) == Needs(1, 1, 1)


def test_the_default_number_of_neighbors_may_be_written_out_whoever_is_there(
    method: Build, blobs: Clients
) -> None:
    default = FedericoOptions().neighbors
    played = method("federico", blobs((5, 5)), neighbors=default, solo_rounds=0)
    assert [sampled.tolist() for sampled in played.sample(1)] == [[1], [0]]
    with pytest.raises(ConfigError, match="set it to 1 or less"):
        method("federico", blobs((5, 5)), neighbors=2)
