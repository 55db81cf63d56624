import math

import pytest

from federico.runs.metric import (
    ACCURACY,
    LOG_LOSS,
    R2,
    SQUARED_ERROR,
    metric_in,
    metric_of,
    tuning_metric,
)


def test_every_task_has_its_figure() -> None:
    assert metric_of("classification") is ACCURACY
    assert metric_of("regression") is R2
    assert metric_in({"loss": 1.0, "accuracy": 0.5}) is ACCURACY
    assert metric_in({"loss": 1.0, "r2": 0.5}) is R2
    assert tuning_metric("regression") is SQUARED_ERROR


def test_a_client_that_diverged_makes_the_mean_infinite() -> None:
    assert SQUARED_ERROR.mean({"loss": [0.1, None]}, [1, 3]) == math.inf
    assert R2.mean({"r2": [0.1, None], "loss": [0.1, None]}, [1, 3]) == -math.inf
    assert ACCURACY.mean({"accuracy": [0.5, 1.0], "loss": [1.0, 1.0]}, [1, 3]) == pytest.approx(
        0.875
    )


def test_a_client_whose_figure_is_undefined_is_left_out_of_the_mean() -> None:
    figures = {"r2": [0.5, None, 0.1], "loss": [0.5, 0.2, 0.9]}
    assert R2.mean(figures, [1, 5, 3]) == pytest.approx(0.2)
    nobody = R2.mean({"r2": [None], "loss": [0.2]}, [5])
    assert R2.bare(nobody) == "-"


def test_r2_of_all_clients_is_the_share_of_their_variance_that_is_explained() -> None:
    # Variances 2, 10 and 0.01: the last client's wild R2 hardly matters.
    figures = {"r2": [0.5, 0.8, -20.0], "loss": [1.0, 2.0, 0.21]}
    unexplained = 3 * 1.0 + 1 * 2.0 + 2 * 0.21
    variance = 3 * 2.0 + 1 * 10.0 + 2 * 0.01
    assert R2.mean(figures, [3, 1, 2]) == pytest.approx(1 - unexplained / variance)
    assert R2.mean({"r2": [1.0, 1.0], "loss": [0.0, 0.0]}, [1, 2]) == 1.0


def test_accuracies_are_shown_in_percent_and_errors_as_they_are() -> None:
    assert ACCURACY.text(0.5661) == "56.6 %"
    assert ACCURACY.bare(0.5661) == "56.6"
    assert ACCURACY.named(0.5661) == "56.6 % accuracy"
    assert R2.named(0.5661) == "R2 0.566"
    assert R2.bare(-0.526) == "\N{MINUS SIGN}0.526"
    assert SQUARED_ERROR.bare(0.00001) == "1e-05"
    assert SQUARED_ERROR.text(0.03691) == "0.0369"
    assert (ACCURACY.axis, SQUARED_ERROR.axis) == ("accuracy (%)", "mean squared error")


def test_what_has_diverged_is_said_and_not_drawn() -> None:
    assert SQUARED_ERROR.bare(math.inf) == "diverged"
    assert math.isnan(SQUARED_ERROR.drawn(math.inf))
    assert SQUARED_ERROR.signed(-math.inf) == "-"


@pytest.mark.parametrize(
    ("difference", "text"), [(0.0694, "+6.9"), (-0.0694, "\N{MINUS SIGN}6.9"), (0.0, "0.0")]
)
def test_differences_carry_their_sign(difference: float, text: str) -> None:
    assert ACCURACY.signed(difference) == text


def test_a_deviation_follows_only_where_there_is_one() -> None:
    assert ACCURACY.spread(0.012) == " ± 1.2"
    assert R2.spread(0.44) == " ± 0.440"
    assert ACCURACY.spread(None) == ""
    assert ACCURACY.spread(0.0) == ""


def test_lower_errors_are_gains() -> None:
    assert SQUARED_ERROR.gain(-0.1) == 0.1
    assert ACCURACY.gain(-0.1) == -0.1
    assert ACCURACY.distance(-0.069) == "6.9 points"


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.622, 0.59], ["0.622", "0.590"]),
        ([0.815, 17.0], ["0.815", "17.000"]),
        ([0.0021, 0.00213], ["0.00210", "0.00213"]),
        ([1234.5, 0.0], ["1234", "0"]),
        ([math.inf, 0.5], ["diverged", "0.500"]),
        ([1e9, 0.5], ["1e+09", "0.5"]),
        ([math.nan], ["-"]),
    ],
)
def test_a_column_of_figures_has_one_number_of_decimals(
    values: list[float], shown: list[str]
) -> None:
    decimals = LOG_LOSS.decimals(values)
    assert [LOG_LOSS.bare(value, decimals) for value in values] == shown
    assert ACCURACY.decimals([0.5]) is None
    assert R2.decimals([0.5]) is None
