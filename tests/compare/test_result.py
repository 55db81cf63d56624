from typing import Any

import numpy as np
import pytest

from federico.compare.result import MOST_POINTS, Result, _thinned, gather
from federico.compare.studydir import StudyDir
from federico.report.old.metric import ACCURACY


def figures(played: Any, row: str, column: str) -> list[float]:
    """Read from the records, by another way."""
    study = played.study
    cells = [
        cell
        for r, c in study.pairs()
        for cell in study.cells(r, c, "given")
        if (r.name, c.name) == (row, column)
    ]
    found = [played.folder.cell(cell) for cell in cells]
    values = [ACCURACY.mean(cell.records[-1], cell.description) for cell in found]
    return [value for value in values if value is not None]


def test_a_figure_is_the_mean_over_runs_with_its_spread(played: Any, result: Result) -> None:
    entry = result.entry("fedavg", "four", "given")
    assert entry is not None
    values = figures(played, "fedavg", "four")
    assert list(entry.by_seed.values()) == pytest.approx(values)
    assert entry.mean == pytest.approx(np.mean(values))
    assert entry.sd("seeds") == pytest.approx(np.std(values, ddof=1))
    assert entry.sd("clients") == pytest.approx(np.std(list(entry.by_client.values()), ddof=1))
    assert entry.rate == 0.01


def test_differences_to_local_are_taken_run_by_run(played: Any, result: Result) -> None:
    entry = result.entry("fedavg", "two", "given")
    assert entry is not None
    assert entry.versus is not None
    pairs = np.subtract(figures(played, "fedavg", "two"), figures(played, "local", "two"))
    assert entry.versus.difference == pytest.approx(pairs.mean())
    assert entry.versus.better == sum(pairs > 0)
    assert entry.versus.runs == 2
    local = result.entry("local", "two", "given")
    assert local is not None
    assert local.versus is None


def test_at_the_best_rate_methods_are_compared_with_local_at_its_own(
    played: Any, result: Result
) -> None:
    for column in played.study.compare.columns:
        for row in played.study.rows:
            entry = result.entry(row.name, column.name, "best")
            assert entry is not None
            assert entry.rate == played.folder.best_rate(played.study, row, column)
            if row.name == "fedavg":
                local = result.entry("local", column.name, "best")
                assert local is not None
                assert entry.versus is not None
                assert entry.versus.difference == pytest.approx(entry.mean - local.mean)


def test_the_best_is_the_highest_mean(result: Result) -> None:
    for column in result.columns:
        best = result.best(column, "given")
        assert best is not None
        assert best.mean == max(entry.mean for entry in result.column(column, "given"))


def test_costs_add_up_without_evaluation(played: Any, result: Result) -> None:
    entry = result.entry("federico", "two", "given")
    assert entry is not None
    cells = [
        played.folder.cell(cell)
        for cell in played.study.cells(*next(played.study.pairs()), "given")
    ]
    assert entry.bytes_moved[-1] == pytest.approx(
        np.mean([sum(r.moved for r in cell.records) for cell in cells])
    )
    whole = np.mean(
        [sum(sum(each.processor_seconds.values()) for each in cell.spent) for cell in cells]
    )
    assert 0 < entry.processor_seconds[-1] < whole
    assert entry.processor_seconds == sorted(entry.processor_seconds)
    local = result.entry("local", "two", "given")
    assert local is not None
    assert local.bytes_moved == [0, 0]


def test_nothing_is_known_of_what_was_not_run(tiny: Any, tmp_path: Any) -> None:
    assert gather(tiny(), StudyDir(tmp_path)) is None


def test_long_curves_keep_their_ends() -> None:
    assert _thinned(3) == [0, 1, 2]
    many = _thinned(400)
    assert (many[0], many[-1]) == (0, 399)
    assert len(many) == MOST_POINTS


def test_runs_that_were_only_evaluated_later_say_nothing(play: Any, tiny: Any) -> None:
    one = {"methods": ["local"], "seeds": [0], "system": {"threads": 1, "evaluate_every": 2}}
    longer, shorter = (
        tiny({"at": ["given"], "paper": {}}, rounds=rounds, **one) for rounds in (2, 1)
    )
    folder = play(longer).folder
    assert gather(longer, folder) is not None
    assert gather(shorter, folder) is None
