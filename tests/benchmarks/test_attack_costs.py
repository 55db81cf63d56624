"""What attacks cost, read from results."""

import pytest

from benchmarks.attack_costs import Study, beside_the_paper, costs_of_all, main, worst_split
from benchmarks.page import DOCS
from federico.runs.results import CellResult
from tests.support.results import make_cell

COLUMN = "2 of 8, from the start"


def cell(row: str, seed: int, honest: float, hostile: float = 0.1) -> CellResult:
    """A federation of two honest clients and a hostile one, which does not count."""
    figures = [honest, honest, hostile]
    return make_cell(row, figures, column=COLUMN, seed=seed, hostile=["c"], title=row)


STUDY = Study(
    [
        cell("local", 0, 0.5),
        cell("nobody is hostile", 0, 0.8, hostile=0.9),
        cell("absent", 0, 0.75),
        cell("absent", 1, 0.65),
        cell("noise", 0, 0.74),
        cell("noise", 1, 0.61),
        cell("paper: absent", 0, 0.9),
        cell("paper: noise", 0, 0.2),
    ]
)


def test_an_attack_costs_what_honest_members_miss_of_the_same_split_without_hostile_ones() -> None:
    assert STUDY.attacks == ["noise"]
    assert STUDY.costs("noise", 2, "the start") == pytest.approx([1, 4])
    assert STUDY.costs("paper: noise", 2, "the start") == pytest.approx([70])
    assert STUDY.costs("noise", 3, "the start") == [], "was not run"
    assert worst_split(STUDY) == "The most in one split: 4.0 (noise, 2 of 8, from the start)."


def test_the_table_has_a_column_for_each_trial_and_no_figure_for_what_was_not_run() -> None:
    rows = {row[0]: row[1:] for row in costs_of_all(STUDY).rows}
    assert rows["noise"] == ["-", "2.5", "-", "-", "-", "-"]
    assert rows["accuracy: hostile members absent"][1] == "70.0"
    assert rows["accuracy: nobody hostile"][1] == "80.0"
    assert rows["accuracy: training alone"][1] == "50.0"


def test_the_default_stands_beside_the_papers_rule_on_the_same_seeds() -> None:
    assert beside_the_paper(STUDY, 2, "the start").rows == [
        ["absent", "75.0", "90.0"],
        ["noise", "74.0", "20.0"],
    ]


@pytest.mark.parametrize("study", ["hostile-digits", "hostile-people", "hostile-office-home"])
def test_the_page_has_the_tables_of_what_is_kept(
    study: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([study])
    page = (DOCS / "explanation-hostile-members.md").read_text(encoding="utf-8")
    for part in capsys.readouterr().out.strip().split("\n\n"):
        assert part in page
