import json

import pytest

from federico.cli.console import print_json


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1.5, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1.5, None]}


def test_json_never_holds_what_json_cannot() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json({"a": float("nan")})
