import json

import pytest

from federico.cli.console import WIDE, for_tables, print_json


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1.5, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1.5, None]}


def test_json_never_holds_what_json_cannot() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json({"a": float("nan")})


def test_a_table_in_a_file_is_not_squeezed() -> None:
    assert for_tables().width == WIDE
