from pathlib import Path
from typing import Any

import pytest

from benchmarks import page, ten_thousand
from benchmarks.page import DOCS, NAME
from benchmarks.store import Results

Measured = dict[str, list[dict[str, Any]]]


@pytest.fixture
def results(measured: Measured, tmp_path: Path) -> Results:
    results = Results(tmp_path)
    for row, measurements in measured.items():
        results.write(row, {"processor": "Abacus"}, measurements)
    return results


def test_page_is_what_is_stored() -> None:
    measured, results = page.stored()
    assert (DOCS / NAME).read_text(encoding="utf-8") == page.text(measured, results), (
        "run `make docs`"
    )
    assert all(
        (DOCS / section.picture).exists() for section in page.sections(measured) if section.draw
    )
    shown = set(measured) | {ten_thousand.ROW}
    assert set(results) <= shown, "a row that is no longer measured has no results"


def test_page_names_the_machine_and_the_number_of_processes(
    measured: Measured, results: Results
) -> None:
    written = page.text(measured, results)
    assert "processor Abacus" in written
    assert "(1 or 2 a row)" in written


def test_page_shows_every_section_once(measured: Measured, results: Results) -> None:
    written = page.text(measured, results)
    titles = [line for line in written.splitlines() if line.startswith("## ")]
    assert titles == [
        "## Goals",
        "## What is compared",
        "## Where the time goes",
        "## Against the others",
        "## Growth",
    ]
    assert written.count("<img ") == written.count("-dark.png") == 3


def test_page_leaves_out_what_was_not_measured(measured: Measured, results: Results) -> None:
    written = page.text({"linear": measured["linear"]}, results)
    assert "## Growth" not in written
    assert "benchmarks-phases.png" in written


def test_page_says_that_nothing_was_measured(results: Results) -> None:
    written = page.text({}, results)
    assert "Nothing is stored yet" in written
    assert ".png" not in written


def test_a_large_run_is_shown_beside_its_goals(measured: Measured, results: Results) -> None:
    figures = dict.fromkeys(ten_thousand.FIGURES, 4.0) | {"record_bytes": 150e6}
    figures |= {"clients": 10_000, "rounds": 100, "start_wall": 7.0}
    results.write(ten_thousand.ROW, {"processor": "Abacus"}, [figures])
    written = page.text(measured, results)
    assert "10,000 clients of the sine curve" in written
    assert "| seconds before the first round | <= 3 | 4 | 7 | **no** |" in written
    assert "| records of all rounds | <= 100 MB | 150 MB |  | **no** |" in written
    assert "| seconds for the report | <= 5 | 4 |  | yes |" in written
