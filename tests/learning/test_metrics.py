import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    log_loss,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

from federico.learning.metrics import classification_figures, regression_figures
from federico.types import Array, FloatArray, IntArray, Task

CLASSES = 4


def figures(
    task: Task,
    predicted: Array,
    targets: Array,
    counts: list[int],
    train_mean: Array | None = None,
) -> dict[str, FloatArray]:
    sizes: IntArray = np.array(counts, dtype=np.int64)
    predictions = torch.from_numpy(predicted)
    true = torch.from_numpy(targets)
    if task == "classification":
        return classification_figures(predictions, true, sizes)
    usual = torch.zeros_like(true) if train_mean is None else torch.from_numpy(train_mean)
    return regression_figures(predictions, true, usual, sizes)


def drawn(seed: int, counts: list[int]) -> tuple[FloatArray, IntArray]:
    """Random probabilities, some of them equal, and random labels."""
    random = np.random.default_rng(seed)
    total = sum(counts)
    weights = random.integers(1, 6, (total, CLASSES)).astype(np.float64)
    probabilities = weights / weights.sum(1, keepdims=True)
    return probabilities, random.integers(0, CLASSES, total)


def parts(counts: list[int]) -> list[slice]:
    ends = np.cumsum(counts)
    return [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_classification_agrees_with_scikit_learn(seed: int) -> None:
    counts = [30, 1, 12, 55]
    probabilities, labels = drawn(seed, counts)

    found = figures("classification", probabilities, labels, counts)

    for client, part in enumerate(parts(counts)):
        p, y = probabilities[part], labels[part]
        predicted = p.argmax(1)
        assert found["accuracy"][client] == pytest.approx(accuracy_score(y, predicted))
        assert found["loss"][client] == pytest.approx(log_loss(y, p, labels=range(CLASSES)))
        assert found["macro_f1"][client] == pytest.approx(
            f1_score(y, predicted, average="macro", zero_division=0)
        )
        areas = []
        for label in np.unique(y):
            if not (y == label).all():
                areas.append(roc_auc_score(y == label, p[:, label]))
        if areas:
            assert found["auroc"][client] == pytest.approx(np.mean(areas))
        else:
            assert np.isnan(found["auroc"][client])


@pytest.mark.parametrize("outputs", [1, 3])
def test_regression_agrees_with_scikit_learn(outputs: int) -> None:
    counts = [2, 40, 7]
    random = np.random.default_rng(0)
    targets = random.normal(50, 10, (sum(counts), outputs))
    predicted = targets + random.normal(0, 8, targets.shape)

    found = figures("regression", predicted, targets, counts)

    for client, part in enumerate(parts(counts)):
        p, y = predicted[part], targets[part]
        squared = mean_squared_error(y, p)
        assert found["loss"][client] == pytest.approx(squared)
        assert found["rmse"][client] == pytest.approx(np.sqrt(squared))
        assert found["mae"][client] == pytest.approx(mean_absolute_error(y, p))
        assert found["r2"][client] == pytest.approx(r2_score(y, p))


def test_skill_compares_with_the_mean_of_the_training_targets() -> None:
    targets = np.array([[1.0], [3.0], [10.0], [14.0]])
    predicted = np.array([[2.0], [2.0], [0.0], [0.0]])
    train_mean = np.array([[4.0], [4.0], [12.0], [12.0]])

    found = figures("regression", predicted, targets, [2, 2], train_mean)

    assert found["skill"] == pytest.approx([1 - 2 / 10, 1 - 296 / 8])
    assert found["r2"] == pytest.approx([0.0, 1 - 296 / 8])


def test_calibration_error_by_hand() -> None:
    # Two answers at 0.9, one of them right: a gap of 0.4. Two at 0.6, both right: the same.
    sure = [[0.9, 0.1], [0.9, 0.1]]
    unsure = [[0.6, 0.4], [0.4, 0.6]]
    labels = np.array([0, 1, 0, 1])

    found = figures("classification", np.array(sure + unsure), labels, [4])

    assert found["calibration_error"][0] == pytest.approx(0.4)


def test_confidence_on_the_edge_of_a_bin_belongs_to_the_lower_one() -> None:
    # 0.6 is the end of the ninth of 15 bins, and 0.55 lies in that bin: their gaps cancel out.
    probabilities = np.array([[0.6, 0.4], [0.55, 0.45], [0.55, 0.45]])

    found = figures("classification", probabilities, np.array([1, 0, 0]), [3])

    assert found["calibration_error"][0] == pytest.approx(abs(0.6 - 0.45 - 0.45) / 3)


def test_figures_that_the_samples_do_not_define_are_nan() -> None:
    one_class = figures("classification", np.array([[0.7, 0.3]] * 3), np.zeros(3, dtype=int), [3])
    constant = np.full((3, 1), 0.1)
    values = figures("regression", constant + 1, constant, [2, 1])

    assert np.isnan(one_class["auroc"]).all()
    assert np.isnan(values["r2"]).all()
    assert values["mae"] == pytest.approx([1.0, 1.0])


def test_a_constant_output_does_not_spoil_r2_of_the_others() -> None:
    targets = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    predicted = targets + np.array([[0.5, 9.0]] * 3)

    found = figures("regression", predicted, targets, [3])

    assert found["r2"][0] == pytest.approx(1 - 0.75 / 2)


def test_a_client_without_samples_has_no_figures_and_spoils_none() -> None:
    probabilities, labels = drawn(0, [9])

    alone = figures("classification", probabilities, labels, [9])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        beside = figures("classification", probabilities, labels, [0, 9, 0])
        values = figures("regression", np.ones((2, 1)), np.zeros((2, 1)), [0, 2, 0])

    for name, by_client in beside.items():
        assert np.isnan(by_client[[0, 2]]).all(), name
        assert by_client[1] == alone[name][0], name
    assert values["loss"][1] == 1.0


def test_a_nan_is_a_wrong_answer() -> None:
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [np.nan, np.nan], [0.3, np.nan]])
    labels = np.array([0, 1, 0, 1])

    found = figures("classification", probabilities, labels, [4])

    assert found["accuracy"][0] == 0.5
    # Both classes: one hit, one miss, no false alarm.
    assert found["macro_f1"][0] == pytest.approx(2 / 3)
    # Of the four pairs of a class and the other, only the one of the two sound answers is right.
    assert found["auroc"][0] == pytest.approx(0.25)
    assert found["calibration_error"][0] == pytest.approx((0.1 + 0.2 + 2) / 4)


def test_a_diverged_model_has_no_finite_errors() -> None:
    targets = np.array([[1.0], [2.0]])
    for predicted in (np.array([[np.nan], [1.0]]), np.array([[1e300], [1.0]])):
        found = figures("regression", predicted, targets, [2])
        assert not np.isfinite(found["loss"][0])
        assert not np.isfinite(found["r2"][0])


@given(
    arrays(np.float64, (12, CLASSES), elements=st.floats(0.01, 1)),
    arrays(np.int64, 12, elements=st.integers(0, CLASSES - 1)),
)
def test_figures_of_classes_are_fractions_and_know_no_order_of_samples(
    weights: FloatArray, labels: IntArray
) -> None:
    probabilities = weights / weights.sum(1, keepdims=True)
    turned = np.arange(12)[::-1]

    found = figures("classification", probabilities, labels, [12])
    reordered = figures("classification", probabilities[turned], labels[turned], [12])

    for name, values in found.items():
        assert values == pytest.approx(reordered[name], nan_ok=True), name
        if name != "loss" and not np.isnan(values[0]):
            assert -1e-12 <= values[0] <= 1 + 1e-12, name


@given(
    arrays(np.float64, (10, 1), elements=st.floats(-100, 100)),
    st.floats(0.1, 10),
    st.floats(-50, 50),
)
def test_r2_knows_no_units(targets: FloatArray, scale: float, shift: float) -> None:
    predicted = np.roll(targets, 1)

    found = figures("regression", predicted, targets, [10])["r2"]
    in_other_units = figures(
        "regression", predicted * scale + shift, targets * scale + shift, [10]
    )["r2"]

    if np.ptp(targets) > 1e-3:
        assert in_other_units == pytest.approx(found, rel=1e-6)
