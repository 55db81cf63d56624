from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from benchmarks import ratios
from benchmarks.growth import SERIES
from benchmarks.ratios import Measurement, Ratio, Spread, slope, spread
from benchmarks.rows import ROWS

Make = Callable[..., dict[str, Any]]


def figure(found: Sequence[Ratio], name: str, measurement: Measurement) -> float:
    return next(ratio for ratio in found if ratio.name == name).of(measurement)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("of_matmul", 120e9 / 4 / 50e9),
        ("over_bare", 4 / 5),
        ("training", 9 / 3),
        ("round", 12 / 4.4),
        ("rest", 0.4 / 4.4),
        ("before", 3e-6),
        ("after", 2e-6),
        ("peak", 2.0),
    ],
)
def test_ratios_of_a_workload(model_measurement: Make, name: str, expected: float) -> None:
    assert figure(ratios.MODELS, name, model_measurement()) == pytest.approx(expected)


def test_ratio_is_the_median_over_turns_not_the_ratio_of_sums(model_measurement: Make) -> None:
    measurement = model_measurement()
    measurement["turns"] *= 2
    slow = measurement["turns"][0]
    measurement["turns"][0] = slow | {"phases": slow["phases"] | {"m_step": 1000.0}}
    assert figure(ratios.MODELS, "training", measurement) == pytest.approx(3)


@pytest.mark.parametrize(
    ("better", "at", "above", "below"),
    [("higher", True, True, False), ("lower", True, False, True)],
)
def test_goal_is_reached_from_the_right_side(
    better: Any, at: bool, above: bool, below: bool
) -> None:
    ratio = Ratio("r", "r", lambda one: 0.0, better, {"mlp": 2.0})
    assert [ratio.reached("mlp", value) for value in (2.0, 2.1, 1.9)] == [at, above, below]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_slope_is_the_power(power: float) -> None:
    sizes = [8, 64, 512]
    assert slope(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)


def test_slope_is_that_of_the_best_straight_line() -> None:
    noise = np.exp([0.1, -0.2, 0.1])
    assert slope([1, 10, 100], [1 * noise[0], 10 * noise[1], 100 * noise[2]]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", list(SERIES))
def test_growth_is_fitted_against_the_work(growth_measurement: Make, name: str) -> None:
    measurement = growth_measurement(name, time_power=1.3, memory_power=0.4)
    assert figure(ROWS[name].ratios, "time_slope", measurement) == pytest.approx(1.3)
    assert figure(ROWS[name].ratios, "memory_slope", measurement) == pytest.approx(0.4)


def test_neighbors_are_worked_on_beside_oneself() -> None:
    assert [SERIES["growth-neighbors"].work(size) for size in (1, 15)] == [2, 16]


def test_clients_of_many_cost_as_much_as_clients_of_few(growth_measurement: Make) -> None:
    measurement = growth_measurement("growth-clients", time_power=1.5)
    assert figure(ROWS["growth-clients"].ratios, "client_time", measurement) == pytest.approx(4.0)


@pytest.mark.parametrize("fixed", [0, 1e9])
def test_memory_of_a_further_client_leaves_out_what_is_there_without_clients(
    growth_measurement: Make, fixed: float
) -> None:
    measurement = growth_measurement("growth-clients", memory_power=1.0)
    for point in measurement["points"]:
        point["memory"] += fixed
    assert figure(ROWS["growth-clients"].ratios, "client_memory", measurement) == pytest.approx(1.0)
    measurement["points"][-1]["memory"] += 3072 * 1e5
    assert figure(ROWS["growth-clients"].ratios, "client_memory", measurement) == pytest.approx(2.0)


def test_spread_is_median_and_range() -> None:
    ratio = Ratio("r", "r", lambda one: float(one["value"]), "higher")
    found = spread(ratio, [{"value": value} for value in (5, 1, 2)])
    assert (found.middle, found.width, str(found)) == (2, 4, "2 (1 to 5)")
    assert str(Spread((0.123456,))) == "0.123"


def test_every_goal_belongs_to_a_row_that_has_the_ratio() -> None:
    asked = {
        (row, ratio.name) for name in ROWS for ratio in ROWS[name].ratios for row in ratio.goals
    }
    assert asked == {
        (name, ratio.name) for name in ROWS for ratio in ROWS[name].ratios if name in ratio.goals
    }
    assert {
        ("mlp", "of_matmul"),
        ("cnn2", "over_bare"),
        ("linear", "training"),
        ("ranks", "over_one"),
    } <= asked
