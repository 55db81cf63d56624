import io
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from federico.cli.studytable import LiveStudy
from federico.compare.queue import News
from federico.compare.run import first_cells, run_study
from federico.compare.study import Study, parse_study
from federico.compare.studydir import StudyDir


@pytest.fixture
def study(tiny: Path) -> Study:
    return parse_study(
        tomllib.loads(tiny.read_text()) | {"seeds": [0, 1], "compare": {"title": "Tiny [table]"}},
        "tiny",
    )


@pytest.fixture
def live(study: Study, tmp_path: Path) -> Callable[[bool], tuple[LiveStudy, io.StringIO]]:
    def make(terminal: bool) -> tuple[LiveStudy, io.StringIO]:
        text = io.StringIO()
        return LiveStudy(
            Console(file=text, force_terminal=terminal, width=110), study, StudyDir(tmp_path)
        ), text

    return make


def test_the_table_fills_in(
    study: Study, tmp_path: Path, live: Callable[..., tuple[LiveStudy, io.StringIO]]
) -> None:
    listener, text = live(True)
    with listener:
        run_study(study, StudyDir(tmp_path), listener)
        grid = listener._grid()
    assert grid.title == "Tiny [table], given rate"
    assert "Tiny [table]" in text.getvalue()
    assert [line[1].text.count("±") for line in grid.lines] == [1, 1], (
        "mean and spread of both methods"
    )
    assert "8/8" in text.getvalue(), "two methods, two seeds, two rounds"


def test_a_run_that_is_alone_is_counted(
    study: Study, tmp_path: Path, live: Callable[..., tuple[LiveStudy, io.StringIO]]
) -> None:
    listener, text = live(False)
    with listener:
        run_study(study, StudyDir(tmp_path), listener)
    lines = text.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("FedeRiCo, rate 0.01, seed 0: ")
    assert float(lines[0].rpartition(" ")[2]) > 0


def test_notes_are_shown(
    study: Study, tmp_path: Path, live: Callable[..., tuple[LiveStudy, io.StringIO]]
) -> None:
    listener, text = live(False)
    listener.hear(News(first_cells(study, StudyDir(tmp_path))[0], 0, note="[careful]"))
    assert text.getvalue() == "note: [careful]\n"


def test_the_table_is_that_of_the_rate_at_work(
    study: Study, live: Callable[..., tuple[LiveStudy, io.StringIO]]
) -> None:
    listener, _ = live(False)
    row, column = next(study.pairs())
    for cells, rate in (
        (study.cells(row, column, "given"), "given"),
        (study.tuning_cells(row, column), "best"),
        (study.cells(row, column, "best", 0.1), "best"),
    ):
        listener.hear(News(cells[0], 1))
        assert listener._grid().title.endswith(f"{rate} rate")


def test_brackets_are_no_markup_beside_the_bars(
    study: Study, live: Callable[..., tuple[LiveStudy, io.StringIO]]
) -> None:
    listener, text = live(False)
    listener.hear(News(replace(study.cells(*next(study.pairs()), "given")[0], row="[bold]one"), 1))
    listener._console.print(listener._bars.get_renderable())
    assert "[bold]one, rate 0.01" in text.getvalue()
