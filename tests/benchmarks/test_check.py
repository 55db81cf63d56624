from typing import Any

import pytest

from benchmarks.check import verdicts
from benchmarks.ratios import Ratio

HIGHER = Ratio("speed", "speed", lambda one: float(one["value"]), "higher")
LOWER = Ratio("peak", "peak memory", lambda one: float(one["value"]), "lower")
ROUNDING = Ratio(
    "difference",
    "difference",
    lambda one: float(one["value"]),
    "lower",
    {"mlp": 1e-2},
    rounding=True,
)


def regression(ratio: Ratio, stored: list[float], now: list[float]) -> bool:
    (verdict,) = verdicts(
        "mlp", [ratio], [{"value": v} for v in stored], [{"value": v} for v in now]
    )
    assert ("REGRESSION" in str(verdict)) == verdict.regression
    assert "mlp: " + ratio.title in str(verdict)
    return verdict.regression


@pytest.mark.parametrize(
    ("now", "worse"),
    [
        ([2.0, 2.1, 2.2], False),
        ([1.7], False),
        ([1.5], True),
        ([9.0], False),
        ([1.5, 2.0, 2.0], False),
    ],
    ids=["as before", "within the spread", "beyond it", "better", "one bad minute"],
)
def test_higher_is_better(now: list[float], worse: bool) -> None:
    assert regression(HIGHER, [1.8, 2.0, 2.2], now) == worse


@pytest.mark.parametrize(("now", "worse"), [([2.3], False), ([2.5], True), ([0.1], False)])
def test_lower_is_better(now: list[float], worse: bool) -> None:
    assert regression(LOWER, [1.8, 2.0, 2.2], now) == worse


@pytest.mark.parametrize(("now", "worse"), [(1.04, False), (1.06, True)])
def test_stored_values_without_spread_leave_room_for_a_little(now: float, worse: bool) -> None:
    assert regression(LOWER, [1.0], [now]) == worse


@pytest.mark.parametrize(("now", "worse"), [(1e-4, False), (5e-2, True)])
def test_rounding_is_no_regression(now: float, worse: bool) -> None:
    assert regression(ROUNDING, [1e-7, 2e-7], [now]) == worse


def test_every_ratio_has_its_own_verdict() -> None:
    one: list[Any] = [{"value": 1.0}]
    found = verdicts("mlp", [HIGHER, LOWER], one, [{"value": 2.0}])
    assert [(verdict.ratio.name, verdict.regression) for verdict in found] == [
        ("speed", False),
        ("peak", True),
    ]
