"""L_ij inside a real run: what the recurrence comes to for a peer met in given rounds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from federico.learning.bank import Bank
from federico.learning.client_data import ClientData
from federico.learning.visits import Visits
from federico.methods.federico import Federico
from federico.types import FloatArray, IntArray

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Federico]

MEETINGS: dict[int, list[list[int]]] = {
    1: [[], [], []],
    2: [[1], [], [0]],
    3: [[], [2], []],
    4: [[1], [], [1]],
    5: [[2], [0], []],
}
"""Round -> whom each of the three peers samples."""


class Diary:
    """Plays the given meetings and writes down every loss that was measured."""

    def __init__(self, federico: Federico, monkeypatch: pytest.MonkeyPatch) -> None:
        self.federico = federico
        self.measured: list[dict[tuple[int, int], float]] = []
        evaluate = federico.learner.evaluate

        def note(bank: Bank, visits: Visits) -> FloatArray:
            losses = evaluate(bank, visits)
            self.measured.append(dict(zip(visits.pairs, losses.tolist(), strict=True)))
            return losses

        def given(round_index: int) -> list[IntArray]:
            return [np.array(row, dtype=np.int64) for row in MEETINGS[round_index]]

        monkeypatch.setattr(federico.learner, "evaluate", note)
        monkeypatch.setattr(federico, "sample", given)
        for round_index in MEETINGS:
            federico.round(round_index)

    def known(self, pair: tuple[int, int]) -> list[float]:
        """The latest loss of the pair in each round since they first met."""
        losses: list[float] = []
        for measured in self.measured:
            if pair in measured or losses:
                losses.append(measured.get(pair, losses[-1] if losses else np.nan))
        return losses


def ema(known: list[float], beta: float) -> float:
    last = len(known) - 1
    return sum(beta * (1 - beta) ** (last - t) * loss for t, loss in enumerate(known))


FORMS: dict[str, tuple[dict[str, Any], Callable[[list[float]], float]]] = {
    "ema 0.6": ({}, lambda known: ema(known, 0.6)),
    "ema 0.1": ({"momentum": 0.1}, lambda known: ema(known, 0.1)),
    "accumulated": ({"tracking": "accumulated"}, sum),
    "debias": ({"debias": True}, lambda known: ema(known, 0.6) / (1 - 0.4 ** len(known))),
}


@pytest.mark.parametrize("name", FORMS)
def test_tracked_losses_have_their_closed_form(
    method: Build, blobs: Clients, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    options, form = FORMS[name]
    federico = method(
        "federico",
        blobs((7, 4, 5)),
        preset="paper",
        neighbors=1,
        worse_than_guess="tracked",
        **options,
    )
    diary = Diary(federico, monkeypatch)
    for i, tracker in diary.federico.evidence.losses.items():
        expected = {j: form(diary.known((i, j))) for j in range(3) if diary.known((i, j))}
        assert tracker.peers.tolist() == sorted(expected)
        np.testing.assert_allclose(
            tracker.tracked, [expected[j] for j in sorted(expected)], rtol=1e-12
        )


def test_a_model_is_measured_when_it_is_met_and_ones_own_always(
    method: Build, blobs: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    federico = method("federico", blobs((7, 4, 5)), preset="paper", neighbors=1)
    diary = Diary(federico, monkeypatch)
    for round_index, measured in enumerate(diary.measured, start=1):
        met = {(i, b) for i, row in enumerate(MEETINGS[round_index]) for b in [i, *row]}
        assert measured.keys() == met
