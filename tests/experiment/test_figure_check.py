from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federico.errors import ConfigError
from federico.experiment.estimate import estimate
from federico.experiment.figure_check import check_figure
from federico.experiment.grid import Grid
from federico.experiment.runner import run_grid
from tests.support.experiments import Told

Tiny = Callable[..., Grid]
SINE: dict[str, Any] = {
    "data": {"kind": "sine", "clients": 4},
    "partition": {"kind": "natural"},
    "split": {},
}
LINES = {"draw": "lines"}
ONE_COLUMN: dict[str, Any] = {"rates": ["given"], "columns": [{}]}
ROWS = [{"name": "a"}, {"name": "b", "method": "fedem"}]


@pytest.mark.parametrize(
    ("figure", "grid", "changes", "said"),
    [
        ({"draw": "curves"}, {}, {}, "give rows a `panel`"),
        ({"draw": "posteriors"}, {"rates": ["best"]}, {}, "from runs at the given learning rate"),
        (
            {"draw": "posteriors"},
            {},
            {"methods": ["local"]},
            "row 'local' runs local, which has no weights",
        ),
        ({"draw": "variants"}, {}, {}, "row 'local' runs local, which has no weights"),
        (
            {"draw": "variants", "clients": [0, 4]},
            {"rows": ROWS},
            {},
            "there is no client 4, the last is 3",
        ),
        (LINES, ONE_COLUMN, {}, "it draws a regression with one input"),
        (LINES, ONE_COLUMN, SINE | {"methods": ["local"]}, "it draws the lines of federico"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused_before_the_first_run(
    tiny_grid: Tiny,
    tmp_path: Path,
    figure: dict[str, Any],
    grid: dict[str, Any],
    changes: dict[str, Any],
    said: str,
) -> None:
    made = tiny_grid(grid, paper={}, figure=figure, **changes)
    with pytest.raises(ConfigError, match=r"tiny: figure\.draw = ") as error:
        run_grid(made, tmp_path, Told())
    assert said in str(error.value)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigError, match=r"figure\.draw"):
        estimate(made, tmp_path)


@pytest.mark.parametrize(
    ("figure", "grid", "changes"),
    [
        ({"draw": "curves"}, {"rows": [{"name": "a", "panel": "x"}]}, {}),
        ({"draw": "posteriors"}, {}, {}),
        ({"draw": "variants", "clients": [3]}, {"rows": ROWS}, {}),
        (LINES, ONE_COLUMN, SINE),
    ],
)
def test_a_figure_that_can_be_drawn_is_not(
    tiny_grid: Tiny, figure: dict[str, Any], grid: dict[str, Any], changes: dict[str, Any]
) -> None:
    check_figure(tiny_grid(grid, paper={}, figure=figure, **changes))
