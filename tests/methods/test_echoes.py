"""Nobody is trusted for giving a reader its own model."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from federico.api.progress import Quiet
from federico.experiment.config import validate
from federico.experiment.runner import simulate
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.visits import Visits
from federico.methods.answers import AnswerSketches, no_sketches
from federico.methods.echoes import REMEMBERED, STEPS_TO_COMPARE, Echoes
from federico.runs.records import Record, read_records
from federico.types import FloatArray

NAMES = ("reader", "other")
SIZE = 5000
STEP = 1.0
"""How far the reader's model moves in a round."""
OTHER_VISITS = Visits.of([(0, 1)])
HOSTED = np.array([0])


class Reader:
    """A peer that has played some rounds, and the model that another one gives it."""

    def __init__(self, rounds: int = 3, size: int = SIZE) -> None:
        layout = ModelLayout(lambda: nn.Linear(size, 1, bias=False))
        self.bank = Bank.start(layout, 0, {0: "reader", 1: "other"}, torch.device("cpu"))
        self.echoes = Echoes(self.bank, HOSTED, NAMES, seed=0)
        self.trail = self.echoes.nothing_yet()
        self.answers = self.echoes.nothing_answered_yet()
        self.models: list[Tensor] = []
        self._random = torch.Generator().manual_seed(0)
        self.play(rounds)

    def play(self, rounds: int) -> None:
        for _ in range(rounds):
            self.bank.rows[0].add_(self.direction(), alpha=STEP)
            self.models.append(self.bank.rows[0].clone())
            self.echoes.remember(self.trail)

    def direction(self) -> Tensor:
        drawn = torch.randn(self.bank.rows.shape[1], generator=self._random)
        return drawn / drawn.norm()

    def takes_for_echo(self, model: Tensor) -> bool:
        self.bank.rows[1].copy_(model)
        (is_echo,) = self.echoes.among(OTHER_VISITS, self.trail, no_sketches(1), self.answers)
        return bool(is_echo)


def test_ones_own_model_is_an_echo_and_another_is_not() -> None:
    reader = Reader()
    assert reader.takes_for_echo(reader.models[-1])
    assert not reader.takes_for_echo(reader.models[-1] + 0.1 * reader.direction())


@given(noise=st.floats(0, 0.005), age=st.integers(1, 3))
def test_a_little_noise_does_not_hide_an_echo_nor_does_age(noise: float, age: int) -> None:
    reader = Reader()
    assert reader.takes_for_echo(reader.models[-age] + noise * reader.direction())


def test_the_oldest_models_are_forgotten() -> None:
    reader = Reader(REMEMBERED + 1)
    assert reader.takes_for_echo(reader.models[1])
    assert not reader.takes_for_echo(reader.models[0])


@given(distance=st.floats(0.03, 100), age=st.integers(1, 3))
def test_an_honest_model_nearby_is_no_echo(distance: float, age: int) -> None:
    reader = Reader()
    assert not reader.takes_for_echo(reader.models[-age] + distance * reader.direction())


def test_models_that_differ_in_a_single_number_are_told_apart() -> None:
    reader = Reader()
    other = reader.models[-1].clone()
    other[17] += 0.1 * STEP
    assert not reader.takes_for_echo(other)


def test_ones_own_visit_is_no_echo() -> None:
    reader = Reader()
    own = Visits.to_own(HOSTED)
    is_echo = reader.echoes.among(own, reader.trail, no_sketches(1), reader.answers)
    assert is_echo.tolist() == [False]


def test_who_has_not_moved_yet_finds_no_echo() -> None:
    reader = Reader(rounds=1)
    assert not reader.takes_for_echo(reader.models[0]), "everybody may have started with it"


def test_a_model_that_is_no_number_is_no_echo() -> None:
    reader = Reader()
    assert not reader.takes_for_echo(torch.full((SIZE,), math.nan))


def test_a_model_of_fewer_numbers_than_a_sketch_is_compared_number_by_number() -> None:
    reader = Reader(size=3)
    assert reader.takes_for_echo(reader.models[-2])
    assert not reader.takes_for_echo(reader.models[-1] + torch.tensor([0.0, 0.0, 0.05]))


class Answering(Reader):
    """The same peer, whose models answer some questions; other models have quite other numbers."""

    def __init__(
        self, rounds: int = 2 * STEPS_TO_COMPARE, samples: int = 20, classes: int = 10
    ) -> None:
        super().__init__(0)
        self.sketches = AnswerSketches(NAMES, seed=0)
        self._rng = np.random.default_rng(0)
        self.logits = 5 * self._rng.standard_normal((samples, classes))
        for _ in range(rounds):
            self.play(1)
            self.logits = self.logits + self.change()
            self.echoes.remember_answers(self.answers, self.sketched(self.logits))

    def change(self) -> FloatArray:
        """What a round changes in the answers, one like another."""
        return 0.5 * self._rng.standard_normal(self.logits.shape)

    def sketched(self, logits: FloatArray) -> FloatArray:
        likelihood = np.exp(logits).sum(axis=1, keepdims=True)
        outputs: FloatArray = (logits - np.log(likelihood))[None]
        return self.sketches.of(outputs, HOSTED)

    def takes_answers_for_its_own(self, logits: FloatArray) -> bool:
        self.bank.rows[1].copy_(10 * self.direction())
        answers = self.sketched(logits)
        (is_echo,) = self.echoes.among(OTHER_VISITS, self.trail, answers, self.answers)
        return bool(is_echo)


def test_other_numbers_do_not_hide_a_model_that_answers_as_ones_own() -> None:
    reader = Answering()
    assert reader.takes_answers_for_its_own(reader.logits)
    assert reader.takes_answers_for_its_own(reader.logits + 0.05 * reader.change())


def test_neither_being_surer_nor_liking_a_class_hides_an_echo() -> None:
    """A judge evens out both, so both are free for who disguises an echo."""
    reader = Answering()
    assert reader.takes_answers_for_its_own(3 * reader.logits)
    assert reader.takes_answers_for_its_own(reader.logits + np.arange(10))


def test_an_honest_model_that_answers_about_the_same_is_no_echo() -> None:
    reader = Answering()
    for _ in range(20):
        assert not reader.takes_answers_for_its_own(reader.logits + reader.change())


@pytest.mark.parametrize("few", [{"samples": 2}, {"rounds": STEPS_TO_COMPARE}])
def test_few_answers_or_rounds_make_no_echo(few: dict[str, int]) -> None:
    reader = Answering(**few)
    assert not reader.takes_answers_for_its_own(reader.logits)


def test_an_answer_to_all_samples_alike_is_close_to_nothing() -> None:
    sketches = AnswerSketches(NAMES, seed=0)
    assert np.isnan(sketches.of(np.full((1, 20, 10), -np.log(10)), HOSTED)).all()


HOSTILE = ("0", "1")


def last_record(folder: Path, **changes: object) -> Record:
    tables = {
        "methods": ["federico"],
        "seeds": [0],
        "rounds": 8,
        "data": {"kind": "digits", "noise": 0.5},
        "partition": {"kind": "label-groups", "clients": 6, "groups": 2},
        "split": {"test_fraction": 0.5, "max_train": 40},
        "model": {"kind": "mlp", "hidden": [16]},
        "system": {"threads": 1},
        **changes,
    }
    run = simulate(validate({"name": "echo", **tables}), folder, Quiet())
    return read_records(run.path / "federico-0")[-1]


def test_in_a_simulation_an_echo_gets_no_trust(tmp_path: Path) -> None:
    record = last_record(tmp_path, attack={"kind": "echo", "members": list(HOSTILE)})
    for weights in record.posterior[len(HOSTILE) :]:
        assert sum(weights.get(name, 0.0) for name in HOSTILE) == 0


def test_in_a_simulation_a_disguised_echo_is_found_once_answers_are_compared(
    tmp_path: Path,
) -> None:
    attack = {"kind": "echo-disguised", "members": list(HOSTILE)}
    trusted = {}
    for rounds in (STEPS_TO_COMPARE - 1, 3 * STEPS_TO_COMPARE):
        record = last_record(tmp_path / str(rounds), rounds=rounds, attack=attack)
        readers = record.posterior[len(HOSTILE) :]
        trusted[rounds] = sum(weights.get(name, 0.0) for weights in readers for name in HOSTILE)
    early, late = trusted.values()
    assert early > 0.5, "its numbers give it not away"
    assert late == 0


@pytest.mark.parametrize("start", ["independent", "same"])
def test_among_honest_peers_of_one_distribution_nobody_is_an_echo(
    tmp_path: Path, start: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="federico.methods.echoes")
    partition = {"kind": "label-groups", "clients": 6, "groups": 1}
    last_record(tmp_path, partition=partition, federico={"start": start})
    assert caplog.text == ""
