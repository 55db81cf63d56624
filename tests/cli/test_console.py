import json

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from federico.cli.console import (
    PLAIN,
    WIDE,
    PipeConsole,
    err,
    for_tables,
    out,
    print_json,
    print_lines,
)


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1.5, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1.5, None]}


def test_json_never_holds_what_json_cannot() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json({"a": float("nan")})


def test_a_table_in_a_file_is_not_squeezed() -> None:
    assert for_tables().width == WIDE


ORDERS = "north\x1b[31m\x1b]0;mine\x07\u202etxt.exe\x9b2J"
"""A name that colors what follows, names the window, turns round letters and clears the screen."""


@pytest.mark.parametrize("console", [out, err, for_tables()], ids=["out", "err", "tables"])
def test_no_name_is_an_order_to_the_terminal(console: Console) -> None:
    table = Table(title=ORDERS)
    table.add_column(ORDERS)
    table.add_row(ORDERS)
    table.add_row(Text(ORDERS, style="red"))
    with console.capture() as shown:
        console.print(table)
        console.print(ORDERS, **PLAIN)
        print_lines(console, [ORDERS])
    for order in ("\x1b[31m\x1b", "\x1b]", "\x07", "\u202e", "\x9b"):
        assert order not in shown.get()
    assert shown.get().count("north") == 6


def test_colors_of_our_own_are_kept() -> None:
    console = PipeConsole(force_terminal=True, color_system="standard")
    with console.capture() as shown:
        console.print("careful", style="yellow")
    assert shown.get() == "\x1b[33mcareful\x1b[0m\n"


@pytest.mark.parametrize("console", [out, err, for_tables()], ids=["out", "err", "tables"])
def test_a_fingerprint_is_no_picture(console: Console) -> None:
    table = Table.grid()
    table.add_row("76:ab:62")
    with console.capture() as shown:
        console.print(table)
        console.print("76:ab:62", **PLAIN)
    assert shown.get().split() == ["76:ab:62", "76:ab:62"]
