from pathlib import Path
from typing import Any

import pytest

from federico.compare.estimate import estimate
from federico.compare.run import Part
from federico.compare.studydir import StudyDir


def test_a_new_study_is_estimated_from_miniatures_and_nothing_stays(
    tiny: Any, tmp_path: Path
) -> None:
    study = tiny(
        {"tuning": {"rates": [0.01, 0.1], "rounds": 50}}, methods=["federico", "local"], rounds=100
    )
    rows = estimate(study, StudyDir(tmp_path / "tiny"))
    assert [row.row for row in rows] == ["federico", "local"]
    assert [(row.runs, row.finished) for row in rows] == [(4 + 4 + 4, 0)] * 2
    assert all(row.seconds > 0 for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_a_finished_study_takes_no_time(played: Any) -> None:
    for row in estimate(played.study, played.folder):
        assert row.seconds == 0
        assert row.finished == row.runs


def test_rounds_left_are_counted_at_the_seconds_already_measured(played: Any, tiny: Any) -> None:
    longer = tiny({"at": ["given"]}, rounds=10)
    (row,) = estimate(longer, played.folder, Part(rows=("local",)))
    first = played.folder.cell(longer.cells(longer.rows[1], longer.compare.columns[0], "given")[0])
    assert (row.runs, row.finished) == (4, 0)
    assert row.seconds == pytest.approx(4 * (10 - 2) * sum(first.spent[1].seconds.values()))
