from typing import Any

import pytest

from federico.compare.studydir import StudyDir
from federico.errors import RunError
from federico.report.old.metric import ACCURACY
from federico.runs.layout import CellDir

ONE_CELL: dict[str, Any] = {"methods": ["local"], "seeds": [0]}


def test_the_best_rate_is_the_one_that_scored_best_on_validation_data(played: Any) -> None:
    study = played.study
    for row, column in study.pairs():
        scores = {}
        for cell in study.tuning_cells(row, column):
            found = played.folder.cell(cell)
            scores[cell.rate] = ACCURACY.mean(found.records[-1], found.description)
        assert played.folder.best_rate(study, row, column) == max(
            scores, key=lambda rate: scores[rate]
        )


def test_no_rate_is_best_before_all_were_tried(played: Any, tiny: Any) -> None:
    more = tiny({"tuning": {"rates": [0.01, 0.1, 0.5], "rounds": 1}})
    assert played.folder.best_rate(more, more.rows[0], more.compare.columns[0]) is None


def test_validation_samples_are_training_samples_of_the_real_run(played: Any) -> None:
    study, row, column = played.study, played.study.rows[0], played.study.compare.columns[0]
    tuned = played.folder.cell(study.tuning_cells(row, column)[0]).description
    real = played.folder.cell(study.cells(row, column, "given")[0]).description
    both = [
        train + held for train, held in zip(tuned.train_samples, tuned.test_samples, strict=True)
    ]
    assert both == real.train_samples


def test_tuning_runs_keep_no_models(played: Any) -> None:
    for row, column in played.study.pairs():
        for cell in played.study.tuning_cells(row, column):
            path = played.folder.cell(cell).path
            assert (path / "records.jsonl").exists()
            assert not (path / "checkpoint").exists()
            assert not (path / "clients").exists()


def test_a_cell_that_has_gone_on_is_read_up_to_the_rounds_asked_for(played: Any, tiny: Any) -> None:
    shorter = tiny(rounds=1)
    cell = shorter.cells(shorter.rows[0], shorter.compare.columns[0], "given")[0]
    found = StudyDir(played.folder.path).cell(cell)
    assert found.finished
    assert [record.round for record in found.records] == [1]
    assert len(found.spent) == 1
    whole = CellDir(found.path)
    assert len(whole.records) == 2
    assert found.figure == pytest.approx(ACCURACY.mean(whole.records[0], whole.description))


def test_a_rate_tuned_for_more_rounds_than_asked_for_has_no_score(play: Any, tiny: Any) -> None:
    longer, shorter = (
        tiny(
            {
                "columns": [{"name": "two"}],
                "paper": {},
                "tuning": {"rates": [0.01], "rounds": rounds},
            },
            **ONE_CELL,
        )
        for rounds in (2, 1)
    )
    folder = play(longer).folder
    assert folder.best_rate(longer, longer.rows[0], longer.compare.columns[0]) == 0.01
    with pytest.raises(RunError, match="tuned for more rounds"):
        folder.best_rate(shorter, shorter.rows[0], shorter.compare.columns[0])
