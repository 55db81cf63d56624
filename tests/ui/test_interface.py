"""Whatever is asked of the server, it answers as it says it does: of whole and of damaged runs."""

from collections import Counter
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.schemas import BaseSchema

from federico.runs.table import write_table
from federico.ui.server import create_app
from tests.support.results import make_table
from tests.support.run_folders import learning, write_cell
from tests.support.sites import member, write_rounds, write_site

HOST = "127.0.0.1:8000"
TOKEN = "the-token"
ALLOWED = {"Authorization": f"Bearer {TOKEN}", "Host": HOST}
RUNS = ["tiny", "two", "broken", "half-written", "nothing"]
CELLS = ["federico-0", "local-0", "federico-1", "nothing"]
CLIENTS = ["a", "b", "c", "nobody"]
SITES = ["north/state", "damaged/state", "nothing"]
OPERATIONS = {
    "folder": {},
    "runs": {},
    "run": {"run": st.sampled_from(RUNS)},
    "compare": {"run": st.lists(st.sampled_from(RUNS), min_size=1, max_size=3)},
    "cell": {"run": st.sampled_from(RUNS), "cell": st.sampled_from(CELLS)},
    "client": {
        "run": st.sampled_from(RUNS),
        "cell": st.sampled_from(CELLS),
        "client": st.sampled_from(CLIENTS),
    },
    "network": {},
    "site": {"site": st.sampled_from(SITES)},
}
"""What can be asked, with names of which most are there."""


@pytest.fixture(scope="module")
def interface(tmp_path_factory: pytest.TempPathFactory) -> BaseSchema:
    folder: Path = tmp_path_factory.mktemp("runs")
    for name in ("tiny", "two", "half-written"):
        (folder / name).mkdir()
        write_table(folder / name, make_table(rounds=2))
        write_cell(folder / name, "federico", *learning(0.5, 0.9))
        write_cell(folder / name, "local", {"figures": {"accuracy": [0.5] * 3}})
    write_cell(folder / "two", "federico", seed=1, finished=False)
    (folder / "half-written" / "federico-0" / "cell.json").write_text('{"method": "feder')
    (folder / "broken").mkdir()
    (folder / "broken" / "table.json").write_text("{")
    write_rounds(write_site(folder, "north", {"south": member()}), place=0, rounds=2)
    damaged = write_site(folder, "damaged", {})
    (damaged / "records.jsonl").write_text('{"round": "half"}\n')
    state = write_site(folder, "south", {"north": member()})
    (state / "status.json").write_text('{"updated": NaN}')
    app = create_app(folder, TOKEN, {HOST})
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers=ALLOWED)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_request_breaks_the_server(interface: BaseSchema, operation: str) -> None:
    described = interface[f"/api/{operation}"]["GET"]
    answers: Counter[int] = Counter()

    @given(case=described.as_strategy())
    @settings(max_examples=10, suppress_health_check=list(HealthCheck))
    def anything(case: schemathesis.Case) -> None:
        case.call_and_validate(headers=ALLOWED)

    @given(names=st.fixed_dictionaries(OPERATIONS[operation]))
    @settings(max_examples=25, derandomize=True, deadline=None)
    def names_that_are_there(names: dict[str, object]) -> None:
        answer = described.Case(query=names).call_and_validate(headers=ALLOWED)
        answers[answer.status_code] += 1

    anything()
    names_that_are_there()
    assert answers[200] > 0
    if OPERATIONS[operation]:
        assert answers[404] > 0
        assert answers[409] > 0


def test_all_requests_are_among_them(interface: BaseSchema) -> None:
    assert {f"/api/{operation}" for operation in OPERATIONS} == set(interface.raw_schema["paths"])
