"""Whatever is asked of the server, it answers as it says it does."""

from pathlib import Path

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis.schemas import BaseSchema

from federico.runs.table import write_table
from federico.ui.server import create_app
from tests.support.results import make_table
from tests.support.run_folders import learning, write_cell

HOST = "127.0.0.1:8000"
TOKEN = "the-token"
ALLOWED = {"Authorization": f"Bearer {TOKEN}", "Host": HOST}


@pytest.fixture(scope="module")
def interface(tmp_path_factory: pytest.TempPathFactory) -> BaseSchema:
    folder: Path = tmp_path_factory.mktemp("runs")
    (folder / "tiny").mkdir()
    write_table(folder / "tiny", make_table("federico", rounds=2))
    write_cell(folder / "tiny", "federico", *learning(0.5, 0.9))
    (folder / "broken").mkdir()
    (folder / "broken" / "table.json").write_text("{")
    app = create_app(folder, TOKEN, {HOST})
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers=ALLOWED)


OPERATIONS = ("runs", "run", "compare", "cell", "client", "network")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_request_breaks_the_server(interface: BaseSchema, operation: str) -> None:
    described = interface[f"/api/{operation}"]["GET"]

    @given(case=described.as_strategy())
    @settings(max_examples=15)
    def answer(case: schemathesis.Case) -> None:
        case.call_and_validate(headers=ALLOWED)

    answer()


def test_all_requests_are_among_them(interface: BaseSchema) -> None:
    assert {f"/api/{operation}" for operation in OPERATIONS} == set(interface.raw_schema["paths"])
