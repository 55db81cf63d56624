import csv
import io

import pytest

from federico.runs.spreadsheet import csv_text, inert


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1"])
def test_a_formula_becomes_text(text: str) -> None:
    assert inert(text) == f"'{text}"


@pytest.mark.parametrize("value", ["north", "-1", "+2.5e3", "-inf", "", -1, 0.5, None, "a=b"])
def test_all_else_stays_as_it_is(value: object) -> None:
    assert inert(value) == value


def test_a_file_has_no_formula_in_it() -> None:
    rows = [["client", "=figure"], ['=HYPERLINK("http://x")', -0.5]]
    assert csv_text(rows) == 'client,\'=figure\n"\'=HYPERLINK(""http://x"")",-0.5\n'


def test_a_file_that_is_printed_is_no_order_to_a_terminal() -> None:
    assert inert("north\x1b[2J") == "north\N{REPLACEMENT CHARACTER}[2J"
    assert inert("north\rsouth") == "north\N{REPLACEMENT CHARACTER}south"
    assert inert("\r=1") == "'\N{REPLACEMENT CHARACTER}=1"


def test_what_is_written_is_read_back_in_as_many_lines() -> None:
    text = csv_text([["client", "figure"], ["north\rsouth", 1], ["east\nwest", 2]])
    assert len(list(csv.reader(io.StringIO(text, newline="")))) == 3
