import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from federico.exchange.protocol import Hosting, Updates
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.learner import ClientData
from federico.learning.rows import RowFile, Rows, RowsInFiles
from federico.methods import METHODS
from federico.methods.method import Buffers, Method, average_into, finite, shares
from federico.stopwatch import Spent, Stopwatch

Coefficients = dict[tuple[int, int], float]


def updates_of(coefficients: Coefficients, rows: torch.Tensor | None = None) -> Updates:
    owners, contributors = np.array(list(coefficients), dtype=np.int64).reshape(-1, 2).T
    rows = torch.zeros(len(owners), 1) if rows is None else rows
    return Updates(
        owners, contributors, np.array(list(coefficients.values()), dtype=np.float64), Rows.of(rows)
    )


many = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 4)), st.floats(1e-9, 1e6), min_size=1, max_size=15
)


@given(many, st.floats(0, 1))
def test_shares_sum_to_one_per_owner(coefficients: Coefficients, anchor: float) -> None:
    updates = updates_of(coefficients)
    totals = np.bincount(updates.owners, shares(updates, anchor))
    owners = np.unique(updates.owners)
    np.testing.assert_allclose(totals[owners], 1)


@given(many)
def test_without_an_anchor_shares_are_proportional_to_coefficients(
    coefficients: Coefficients,
) -> None:
    updates = updates_of(coefficients)
    totals = {
        b: sum(c for (owner, _), c in coefficients.items() if owner == b) for b, _ in coefficients
    }
    expected = [c / totals[b] for (b, _), c in coefficients.items()]
    np.testing.assert_allclose(shares(updates), expected, rtol=1e-9)


@given(many, st.floats(0, 1))
def test_an_owners_own_share_is_at_least_the_anchor(
    coefficients: Coefficients, anchor: float
) -> None:
    updates = updates_of(coefficients)
    plain, anchored = shares(updates), shares(updates, anchor)
    for (b, i), before, after in zip(coefficients, plain, anchored, strict=True):
        if b == i:
            assert after == pytest.approx(max(before, anchor))
        elif (b, b) not in coefficients:
            assert after == before, "nothing of its own to hold on to"


@given(many, st.floats(0, 0.99))
def test_an_anchor_leaves_the_others_proportions_alone(
    coefficients: Coefficients, anchor: float
) -> None:
    updates = updates_of(coefficients)
    plain, anchored = shares(updates), shares(updates, anchor)
    for b in np.unique(updates.owners):
        others = (updates.owners == b) & (updates.contributors != b)
        if others.any() and plain[others].sum() > 1e-6:
            np.testing.assert_allclose(
                anchored[others] / anchored[others].sum(),
                plain[others] / plain[others].sum(),
                rtol=1e-6,
            )


def test_updates_that_hold_no_numbers_are_as_good_as_never_sent() -> None:
    rows = torch.tensor([[1.0, 2.0], [1.0, torch.nan], [torch.inf, 2.0], [3.0, 4.0]])
    kept = finite(updates_of({(0, 0): 1.0, (0, 1): 2.0, (1, 0): 3.0, (1, 1): 4.0}, rows))
    assert kept.coefficients.tolist() == [1.0, 4.0]
    assert kept.rows.as_tensor().tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.fixture
def bank() -> Bank:
    """Three models of two parameters and two statistics."""
    layout = ModelLayout(lambda: nn.BatchNorm1d(1), torch.float64)
    return Bank(layout, np.array([0, 1, 2]), torch.zeros(3, 4, dtype=torch.float64))


MOVES = torch.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]], dtype=torch.float64)
RECEIVED = {(0, 0): 1.0, (0, 2): 3.0, (2, 0): 5.0}


def test_models_move_by_the_weighted_average_and_not_at_all_without_updates(bank: Bank) -> None:
    average_into(bank, updates_of(RECEIVED, MOVES))
    assert bank.rows.tolist() == [[4, 5, 6, 7], [0, 0, 0, 0], [9, 10, 11, 12]]


def test_a_spoiled_update_is_left_out_of_the_average(bank: Bank) -> None:
    moves = MOVES.clone()
    moves[1, 0] = torch.nan
    average_into(bank, updates_of(RECEIVED, moves))
    assert bank.rows.tolist() == [[1, 2, 3, 4], [0, 0, 0, 0], [9, 10, 11, 12]]


def test_an_anchor_holds_a_model_to_its_owner(bank: Bank) -> None:
    average_into(bank, updates_of(RECEIVED, MOVES), anchor=0.75)
    assert bank.rows[0].tolist() == [2, 3, 4, 5]
    assert bank.rows[2].tolist() == [9, 10, 11, 12]


@pytest.mark.parametrize(
    ("buffers", "statistics"),
    [
        ("average", [[6, 7], [0, 0], [11, 12]]),
        ("owner", [[3, 4], [0, 0], [0, 0]]),
        ("frozen", [[0, 0]] * 3),
    ],
)
def test_statistics_are_averaged_left_to_the_owner_or_frozen(
    bank: Bank, buffers: Buffers, statistics: list[list[int]]
) -> None:
    average_into(bank, updates_of(RECEIVED, MOVES), buffers=buffers)
    assert bank.rows[:, :2].tolist() == [[4, 5], [0, 0], [9, 10]]
    assert bank.rows[:, 2:].tolist() == statistics


def test_a_full_anchor_leaves_a_model_and_its_statistics_to_the_owner(bank: Bank) -> None:
    average_into(bank, updates_of(RECEIVED, MOVES), anchor=1.0, buffers="owner")
    assert bank.rows[0].tolist() == [1, 2, 3, 4]


def test_no_updates_move_nothing(bank: Bank) -> None:
    average_into(bank, updates_of({}, torch.empty(0, 4, dtype=torch.float64)))
    assert bank.rows.abs().sum() == 0


def test_a_stopwatch_adds_up_each_phase_and_starts_again() -> None:
    clock = Stopwatch()
    for phase in ("a", "b", "a"):
        with clock(phase):
            pass
    taken = clock.take()
    for seconds in (taken.seconds, taken.processor_seconds):
        assert seconds.keys() == {"a", "b"}
        assert min(seconds.values()) >= 0
    assert min(taken.seconds.values()) > 0
    assert clock.take() == Spent({}, {})


def test_a_stopwatch_tells_waiting_from_computing() -> None:
    clock = Stopwatch()
    with clock("wait"):
        time.sleep(0.5)
    spent = clock.take()
    assert spent.seconds["wait"] >= 0.5
    assert spent.processor_seconds["wait"] < 0.25


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_is(name: str) -> None:
    cls = METHODS[name]
    assert cls.name == name
    assert cls.title
    assert cls.summary.endswith(".")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_and_predicts_with_weights_that_sum_to_one(
    name: str, method: Callable[..., Method], blobs: Callable[..., list[ClientData]]
) -> None:
    played = method(name, blobs((6, 5, 7, 4, 6)))
    for round_index in (1, 2):
        played.round(round_index)
    mixtures = played.mixtures(2)
    np.testing.assert_allclose(np.bincount(mixtures.visits.clients, mixtures.weights), 1)
    scores = played.learner.score(mixtures.bank, mixtures.visits, mixtures.weights)
    assert np.isfinite(scores.loss).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_needs_what_it_then_holds(
    method: Callable[..., Method],
    blobs: Callable[..., list[ClientData]],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where everybody visits everybody and every weight counts, the needs are exact."""
    everything = (
        {"sampler": "everyone", "w_min": 0.0, "worse_than_guess": "tracked"}
        if name == "federico"
        else {}
    )
    at_work = method(name, blobs((7, 4, 5, 6)), **everything)
    moves: list[int] = []
    plain = at_work.learner.new_deltas
    monkeypatch.setattr(
        at_work.learner, "new_deltas", lambda count: moves.append(count) or plain(count)
    )
    for index in (1, 2, 3):
        at_work.round(index)
    needs = METHODS[name].needs(at_work.opt, 4, None, 3)
    held = sum(bank.rows.shape[0] for bank in vars(at_work).values() if isinstance(bank, Bank))
    assert (needs.models, needs.updates, needs.pairs) == (
        held,
        max(moves),
        len(at_work.learner.states),
    )


def test_what_cannot_be_lent_is_left_out_and_the_rest_weighs_more(
    method: Callable[..., Method],
    blobs: Callable[..., list[ClientData]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = method(
        "federico", blobs((6, 5, 7)), neighbors=2, solo_rounds=0, worse_than_guess="tracked"
    )
    played.round(1)
    whole = played.predictors(1)
    monkeypatch.setattr(
        played.exchange, "read_models", lambda _, visits: visits[np.flatnonzero(visits.owners != 1)]
    )
    partial = played.predictors(1)
    assert set(whole.visits.pairs) - set(partial.visits.pairs) == {(0, 1), (1, 1), (2, 1)}
    np.testing.assert_allclose(np.bincount(partial.visits.clients, partial.weights), 1)
    before, after = (
        m.weights[(m.visits.clients == 0) & (m.visits.owners != 1)] for m in (whole, partial)
    )
    np.testing.assert_allclose(after, before / before.sum())


def test_a_client_whose_models_are_all_away_predicts_with_its_own(
    method: Callable[..., Method],
    blobs: Callable[..., list[ClientData]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = method("federico", blobs((6, 5, 7)), neighbors=2, solo_rounds=0)
    played.round(1)
    monkeypatch.setattr(
        played.exchange,
        "read_models",
        lambda _, visits: visits[np.flatnonzero(visits.clients != 1)],
    )
    alone = played.predictors(1)
    own = alone.visits.clients == 1
    assert alone.visits.owners[own].tolist() == [1]
    np.testing.assert_allclose(np.bincount(alone.visits.clients, alone.weights), 1)


def test_a_process_takes_its_own_part_of_what_was_saved(
    method: Callable[..., Method], blobs: Callable[..., list[ClientData]]
) -> None:
    """From the state of everybody, or from its own alone: as a site saves it."""
    whole = method("federico", blobs((6, 5, 7)), neighbors=2)
    for round_index in (1, 2):
        whole.round(round_index)
    context, names = whole.context, whole.context.names
    alone = replace(context, hosting=Hosting(len(names), 1, len(names)))
    first = METHODS["federico"](alone, whole.opt)
    first.restore(whole.state())
    second = METHODS["federico"](alone, whole.opt)
    second.restore(first.state())
    for part in (first, second):
        assert torch.equal(part.bank.hosted_rows, whole.bank.rows[1:2])
        assert part.trackers.keys() == {1}  # type: ignore[attr-defined]
        assert part.trackers[1].tracked.tolist() == whole.trackers[1].tracked.tolist()  # type: ignore[attr-defined]


@pytest.mark.parametrize("buffers", ["average", "owner", "frozen"])
def test_rows_one_by_one_are_averaged_like_rows_side_by_side(buffers: Buffers) -> None:
    layout = ModelLayout(lambda: nn.Sequential(nn.Linear(200, 100), nn.BatchNorm1d(100)))
    rows = torch.randn(4, layout.size, generator=torch.Generator().manual_seed(0))
    rows[2, 7] = torch.inf
    averaged, cut = torch.stack([rows[0] / 4 + rows[1] * 3 / 4, rows[3]]), layout.parameters
    tail = {
        "average": averaged[:, cut:],
        "owner": rows[[0, 3], cut:],
        "frozen": torch.zeros(2, layout.size - cut),
    }
    expected = torch.cat([averaged[:, :cut], tail[buffers]], 1)
    results = []
    for shown in (Rows.of(rows), RowsInFiles([RowFile.of(row.numpy()) for row in rows])):
        bank = Bank.start(layout, 0, {0: "a", 1: "b"}, torch.device("cpu"))
        start = bank.rows.clone()
        updates = updates_of({(0, 0): 1.0, (0, 1): 3.0, (1, 0): 1.0, (1, 1): 2.0}, rows)
        average_into(bank, replace(updates, rows=shown), buffers=buffers)
        torch.testing.assert_close(bank.rows - start, expected)
        results.append(bank.rows)
    assert torch.equal(*results)
