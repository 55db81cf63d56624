import io
import tomllib
from collections.abc import Callable
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
    return parse_study(tomllib.loads(tiny.read_text()) | {"seeds": [0, 1], "compare": {"title": "Tiny table"}}, "tiny")


@pytest.fixture
def live(study: Study, tmp_path: Path) -> Callable[[bool], tuple[LiveStudy, io.StringIO]]:
    def make(terminal: bool) -> tuple[LiveStudy, io.StringIO]:
        text = io.StringIO()
        return LiveStudy(Console(file=text, force_terminal=terminal, width=110), study, StudyDir(tmp_path)), text

    return make


def test_the_table_fills_in(study: Study, tmp_path: Path, live: Callable[..., tuple[LiveStudy, io.StringIO]]) -> None:
    listener, text = live(True)
    with listener:
        run_study(study, StudyDir(tmp_path), listener)
        table = Console(width=110, file=io.StringIO(), record=True)
        table.print(listener._table())
    shown = table.export_text()
    assert "Tiny table" in shown
    assert shown.count("±") == 2, "mean and spread of both methods"
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


def test_notes_are_shown(study: Study, tmp_path: Path, live: Callable[..., tuple[LiveStudy, io.StringIO]]) -> None:
    listener, text = live(False)
    listener.hear(News(first_cells(study, StudyDir(tmp_path))[0], 0, note="[careful]"))
    assert text.getvalue() == "note: [careful]\n"
