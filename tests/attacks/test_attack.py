"""Hostile members of a simulation: who they are, what they do to others, and what is reported."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from federico.attacks.options import AttackKind, AttackOptions
from federico.attacks.shown_models import without_effect
from federico.errors import ConfigError
from federico.experiment.build import Setup, prepare
from federico.experiment.config import validate
from federico.experiment.evaluation import Evaluation, evaluate
from federico.learning.layout import ModelLayout
from federico.learning.model_options import MLP, Linear, ResNet18
from federico.report.details import summarize
from federico.report.text import notes
from federico.runs.layout import RunDir
from federico.runs.results import read_results
from tests.support.experiments import Told

KINDS: tuple[AttackKind, ...] = get_args(AttackKind)
NAMES = [str(number) for number in range(8)]


def setup(attack: dict[str, Any] | None, method: str = "federico", **federico: Any) -> Setup:
    tables: dict[str, Any] = {
        "methods": [method],
        "rounds": 3,
        "split": {"samples": 240},
        "partition": {"kind": "iid", "clients": 4},
        "model": {"kind": "mlp", "hidden": [8]},
        "federico": {"neighbors": 3, **federico},
        "system": {"threads": 1},
    }
    if attack is not None:
        tables["attack"] = attack
    return prepare(validate(tables), 0)


def played(attack: dict[str, Any] | None, method: str = "federico", **federico: Any) -> Evaluation:
    made = setup(attack, method, **federico).method(method)
    for round_index in (1, 2, 3):
        made.round(round_index)
    return evaluate(made, made.predictors(3))


def test_members_are_drawn_by_the_seed_and_fewer_are_among_more() -> None:
    two = AttackOptions(kind="noise", count=2).who(NAMES, 5)
    three = AttackOptions(kind="noise", count=3).who(NAMES, 5)
    assert len(two) == 2
    assert set(two) < set(three)
    drawn = {tuple(AttackOptions(kind="noise").who(NAMES, seed)) for seed in range(20)}
    assert len(drawn) > 3


def test_members_may_be_named() -> None:
    assert AttackOptions(kind="echo", members=("6", "2")).who(NAMES, 0).tolist() == [2, 6]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "nois"}, "attack = 'nois'"),
        ({"kind": "noise", "count": 1, "members": ["0"]}, "count and members both"),
        ({"kind": "noise", "members": ["nobody"]}, "no client 'nobody'"),
        ({"kind": "noise", "count": 4}, "at least one must be honest"),
        ({"kind": "mimic", "strength": 2.0}, "mimic has none"),
        ({"kind": "noise", "target": 1}, "target is about a backdoor"),
        ({"kind": "backdoor", "target": 10}, "there are 10 labels"),
        ({"kind": "noise", "from_round": 4}, "from_round = 4: there are 3 rounds"),
        ({"kind": "echo-disguised", "target": 1}, "target is about a backdoor"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        setup(options)


def test_an_attack_is_part_of_what_a_cell_is_and_none_is_not() -> None:
    peaceful = setup(None)
    assert peaceful.hostile.tolist() == []
    assert "attack" not in peaceful.experiment.model_dump(exclude_none=True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("absent", "honest")])
def test_every_attack_changes_what_others_get_under_the_papers_rule(kind: AttackKind) -> None:
    attack = {"kind": kind, "members": ["0"], "from_round": 2}
    among_hostile = played(attack, preset="paper").used.figures["loss"][1:]
    in_peace = played(None, preset="paper").used.figures["loss"][1:]
    assert not np.allclose(among_hostile, in_peace)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_says_of_every_attack_what_it_does(kind: AttackKind) -> None:
    reference = Path(__file__).parents[2] / "docs" / "reference-options.md"
    (row,) = [line for line in reference.read_text().splitlines() if "`sign-flip` (what" in line]
    assert f"`{kind}`" in row


@pytest.mark.parametrize("model", [Linear(), MLP(hidden=(6,)), ResNet18()])
def test_a_disguise_changes_numbers_and_no_answer(model: Linear | MLP | ResNet18) -> None:
    layout = ModelLayout(model.factory((1, 8, 8), 10))
    row = layout.initial(0, "somebody")
    added = without_effect(layout, 10, seed=0)
    assert added.norm() > 0.5
    inputs = torch.randn(20, 1, 8, 8)
    logits = [layout.bind(each, layout.initial_counters())(inputs) for each in (row, row + added)]
    assert (logits[0] - logits[1]).abs().max() > 0.1
    assert torch.allclose(logits[0].softmax(1), logits[1].softmax(1), atol=1e-5)


def test_who_visits_a_disguised_echo_computes_what_it_does_on_its_own_model() -> None:
    """So that in the simulation nothing else tells it from an echo."""
    losses = []
    for kind in ("echo", "echo-disguised"):
        figures = played({"kind": kind, "members": ["0"]}, preset="paper").used.figures
        losses.append(figures["loss"])
    assert np.allclose(losses[0], losses[1], rtol=1e-3)


def test_a_disguise_needs_classes_and_a_linear_last_layer() -> None:
    with pytest.raises(ConfigError, match="echo-disguised': needs classes"):
        AttackOptions(kind="echo-disguised").check("regression", 1, 3)
    convolution = ModelLayout(lambda: nn.Sequential(nn.Conv2d(1, 10, 8), nn.Flatten()))
    with pytest.raises(ConfigError, match="last layer must be linear"):
        without_effect(convolution, 10, seed=0)


def test_before_they_turn_hostile_members_behave() -> None:
    losses = []
    for attack in ({"kind": "scaled-flip", "members": ["0"], "from_round": 3}, None):
        made = setup(attack).method("federico")
        for round_index in (1, 2):
            made.round(round_index)
        losses.append(evaluate(made, made.predictors(2)).used.figures["loss"].tolist())
    assert losses[0] == losses[1]


def test_who_is_honest_is_only_left_out_of_reports() -> None:
    among_honest = setup({"kind": "honest", "members": ["0"]})
    assert among_honest.hostile.tolist() == [0]
    figures = played({"kind": "honest", "members": ["0"]}).used.figures
    assert figures["loss"].tolist() == played(None).used.figures["loss"].tolist()


def test_a_model_that_is_no_number_elsewhere_costs_others_only_its_part() -> None:
    attack = {"kind": "nan-elsewhere", "members": ["0"]}
    in_peace = setup(None).method("federico")
    for round_index in (1, 2, 3):
        in_peace.round(round_index)
    mixtures = in_peace.predictors(3)
    from_others = mixtures.visits.clients > 0
    assert mixtures.weights[from_others & (mixtures.visits.owners == 0)].sum() > 0.3, "it counts"

    figures = played(attack).used.figures
    accuracy = evaluate(in_peace, mixtures).used.figures["accuracy"][1:].mean()
    assert np.isfinite(figures["loss"]).all()
    assert figures["accuracy"][1:].mean() > accuracy - 0.1


def test_who_has_two_faces_is_honest_to_every_second_member() -> None:
    """In the round in which it turns hostile; from then on models are no more what they were."""
    attack = {"kind": "two-faced", "members": ["1"], "from_round": 3}
    two_faced, in_peace = (played_rows(each) for each in (attack, None))
    moved = [bool((one != other).any()) for one, other in zip(two_faced, in_peace, strict=True)]
    assert moved == [False, False, False, True]


def played_rows(attack: dict[str, Any] | None) -> Tensor:
    """The models of all after three rounds of the paper's rule."""
    made = setup(attack, preset="paper").method("federico")
    for round_index in (1, 2, 3):
        made.round(round_index)
    return made.bank.rows


def test_who_is_absent_touches_nobody() -> None:
    attack = {"kind": "absent", "members": ["0"]}
    made = setup(attack).method("federico")
    for round_index in (1, 2, 3):
        neighbors = made.round(round_index).neighbors
    assert len(neighbors) == 4
    weights = [dict(zip(row.peers, row.weights, strict=True)) for row in made.posteriors.values()]
    assert all(0 not in row for row in weights[1:])
    assert list(weights[0]) == [0]


def test_other_methods_have_hostile_members_too() -> None:
    attack = {"kind": "scaled-flip", "members": ["0"]}
    harmed = played(attack, "fedavg").used.figures["loss"][1:].mean()
    assert harmed > played(None, "fedavg").used.figures["loss"][1:].mean() + 0.1


def test_a_backdoor_says_how_often_its_mark_decides() -> None:
    found = []
    for marked in (0.01, 1.0):
        attack = {"kind": "backdoor", "members": ["0"], "marked": marked}
        found.append(played(attack, preset="paper").used.figures["trigger_success"])
    hardly, only = found
    # In the attacker's own model, after three rounds.
    assert hardly[0] < 0.3
    assert only[0] > 0.7


def test_a_report_says_how_often_the_mark_decides_for_honest_clients(
    play: Callable[..., tuple[RunDir, Told]],
) -> None:
    run, _ = play(methods=["local"], attack={"kind": "backdoor", "members": ["1"], "marked": 1.0})
    (line,), _ = read_results(run.path)
    shares = line.figures_at(-1)["trigger_success"]
    honest = [share for place, share in enumerate(shares) if place != 1]
    summary = summarize(run.path)
    assert list(summary.trigger_success.values()) == [pytest.approx(np.mean(honest))]
    said = f"{100 * np.mean(honest):.0f} % (local"
    assert said in notes(summary)


def test_reports_are_about_honest_clients(play: Callable[..., tuple[RunDir, Told]]) -> None:
    run, _ = play(methods=["local"], attack={"kind": "noise", "members": ["1"]})
    (line,), _ = read_results(run.path)
    assert line.hostile == ["1"]
    assert len(line.clients) == 4, "results keep everybody's figures"

    summary = summarize(run.path)
    assert summary.clients == 3
    assert "1" not in summary.entries[0].by_client
