from typing import Any

import pytest

from federico.compare.drawable import check_figure
from federico.compare.estimate import estimate
from federico.compare.presets import names, preset
from federico.compare.study import load_study
from federico.compare.studydir import StudyDir
from federico.errors import ConfigError

SINE: dict[str, Any] = {
    "data": {"kind": "sine", "clients": 4},
    "partition": {"kind": "natural"},
    "split": {},
}
LINES: dict[str, Any] = {"at": ["given"], "columns": [{}], "paper": {}, "figure": {"draw": "lines"}}
ROWS = [{"name": "a"}, {"name": "b", "method": "fedem"}]


@pytest.mark.parametrize(
    ("compare", "changes", "said"),
    [
        ({"figure": {"draw": "curves"}}, {}, "give rows a `panel`"),
        (
            {"figure": {"draw": "posteriors"}, "at": ["best"]},
            {},
            "drawn from runs at the given learning rate",
        ),
        (
            {"figure": {"draw": "posteriors"}},
            {"methods": ["local"]},
            "row 'local' runs local, which has no weights",
        ),
        ({"figure": {"draw": "variants"}}, {}, "row 'local' runs local, which has no weights"),
        (
            {"figure": {"draw": "variants", "clients": [0, 4]}, "rows": ROWS},
            {},
            "there is no client 4, the last is 3",
        ),
        (LINES, {}, "it draws a regression with one input"),
        (LINES, SINE | {"methods": ["local"]}, "it draws the lines of federico"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused_before_the_first_run(
    play: Any, tiny: Any, tmp_path: Any, compare: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    study = tiny({"paper": {}} | compare, **changes)
    with pytest.raises(ConfigError, match=r"tiny: compare\.figure\.draw = ") as error:
        play(study)
    assert said in str(error.value)
    assert not (tmp_path / "tiny").exists()
    with pytest.raises(ConfigError, match=r"compare\.figure\.draw"):
        estimate(study, StudyDir(tmp_path / "tiny"))


@pytest.mark.parametrize(
    ("compare", "changes"),
    [
        ({"figure": {"draw": "curves"}, "rows": [{"name": "a", "panel": "x"}]}, {}),
        ({"figure": {"draw": "posteriors"}}, {}),
        ({"figure": {"draw": "variants", "clients": [3]}, "rows": ROWS}, {}),
        (LINES, SINE),
    ],
)
def test_a_figure_that_can_be_drawn_is_not(
    tiny: Any, compare: dict[str, Any], changes: dict[str, Any]
) -> None:
    check_figure(tiny({"paper": {}} | compare, **changes))


@pytest.mark.parametrize(
    "name", [name for name in names() if name in ("figure1", "figure3", "figure4", "figure6")]
)
def test_presets_can_be_drawn(name: str) -> None:
    check_figure(load_study(preset(name)))
