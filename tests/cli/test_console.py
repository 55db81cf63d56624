import json

import pytest
from rich.console import Console
from rich.table import Table

from federico.cli.console import PLAIN, WIDE, err, for_tables, out, print_json


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1.5, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1.5, None]}


def test_json_never_holds_what_json_cannot() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json({"a": float("nan")})


def test_a_table_in_a_file_is_not_squeezed() -> None:
    assert for_tables().width == WIDE


@pytest.mark.parametrize("console", [out, err, for_tables()], ids=["out", "err", "tables"])
def test_a_fingerprint_is_no_picture(console: Console) -> None:
    table = Table.grid()
    table.add_row("76:ab:62")
    with console.capture() as shown:
        console.print(table)
        console.print("76:ab:62", **PLAIN)
    assert shown.get().split() == ["76:ab:62", "76:ab:62"]
