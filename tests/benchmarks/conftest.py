from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.growth import SERIES
from benchmarks.tables import PHASES


def model_measurement(speed: float = 1.0) -> dict[str, Any]:
    """Two turns of a made-up workload.

    Twice the speed is half the time of federico's E- and M-step.
    """
    phases = dict.fromkeys(PHASES, 0.01) | {"e_step": 1.0 / speed, "m_step": 3.0 / speed}
    turn = {
        "whole": 4.0 / speed + 0.4,
        "phases": phases,
        "flop": 120e9,
        "visits": 40,
        "trained": 30,
        "mixed": 50,
        "bare": {"e_step": 1.0, "m_step": 4.0},
        "plain": {"e_step": 2.0, "m_step": 9.0, "update": 0.5, "evaluate": 0.5},
        "difference": {"before": 1e-7, "after": 2e-6},
    }
    late = turn | {"difference": {"before": 3e-6, "after": 1e-9}}
    return {"rates": [40e9, 60e9, 50e9], "peak": 2_000_000_000, "turns": [turn, late]}


def growth_measurement(
    name: str, time_power: float = 1.0, memory_power: float = 0.5
) -> dict[str, Any]:
    """A series whose time and memory grow with these powers of the work."""
    series = SERIES[name]
    points = [
        {
            "seconds": 0.01 * series.work(size) ** time_power,
            "memory": 1e5 * series.work(size) ** memory_power,
        }
        for size in series.sizes
    ]
    return {
        "points": [point | {"last": point["seconds"], "peak": point["memory"]} for point in points]
    }


@pytest.fixture(name="model_measurement")
def _model_measurement() -> Callable[..., dict[str, Any]]:
    return model_measurement


@pytest.fixture(name="growth_measurement")
def _growth_measurement() -> Callable[..., dict[str, Any]]:
    return growth_measurement


@pytest.fixture
def measured() -> dict[str, list[dict[str, Any]]]:
    """Every kind of row."""
    models = {
        name: [model_measurement(), model_measurement(1.25)]
        for name in ("linear", "mlp", "cnn2", "resnet18")
    }
    growing = {name: [growth_measurement(name), growth_measurement(name, 0.9)] for name in SERIES}
    endurance = {"endurance": [{"seconds": 1.0, "last": 1.2, "memory": 4e8, "peak": 7_000_000_000}]}
    return {**models, **growing, **endurance, "ranks": [{"one": 10.0, "ranks": 11.0}]}
