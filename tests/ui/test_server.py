"""The server of the page answers its own page and nobody else, and stays up whatever it reads."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from federico.runs.table import write_table
from federico.ui.server import create_app
from tests.support.results import make_table
from tests.support.run_folders import learning, write_cell
from tests.support.sites import member, write_site

HOST = "127.0.0.1:8000"
TOKEN = "the-token"
ALLOWED = {"Authorization": f"Bearer {TOKEN}", "Host": HOST}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "tiny"
    run.mkdir(parents=True)
    write_table(run, make_table(rounds=2, title="Tiny <digits>"))
    write_cell(run, "federico", *learning(0.5, 0.9))
    write_cell(run, "local", *[{"figures": {"accuracy": [value] * 3}} for value in (0.4, 0.5)])
    return tmp_path / "runs"


@pytest.fixture
def page(folder: Path) -> TestClient:
    return TestClient(create_app(folder, TOKEN, {HOST}), base_url=f"http://{HOST}")


def test_the_link_opens_the_page(page: TestClient) -> None:
    answer = page.get("/", params={"token": TOKEN})

    assert answer.status_code == 200
    assert "FedeRiCo" in answer.text
    assert page.get("/api/runs").json()[0]["name"] == "tiny"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": HOST},
        ALLOWED | {"Authorization": "Bearer another"},
        ALLOWED | {"Host": "rebinding.example:8000"},
        ALLOWED | {"Origin": "http://evil.example"},
        ALLOWED | {"Sec-Fetch-Site": "cross-site"},
        ALLOWED | {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_requests_from_elsewhere_are_refused(page: TestClient, headers: dict[str, str]) -> None:
    assert page.get("/api/runs", headers=headers).status_code == 403


@pytest.mark.parametrize("name", ["../secret", "..", "/etc", "tiny/../../secret", "%2e%2e/secret"])
def test_nothing_outside_the_folder_is_read(page: TestClient, folder: Path, name: str) -> None:
    secret = folder.parent / "secret"
    secret.mkdir()
    write_table(secret, make_table(title="secret"))
    (folder / "link").symlink_to(secret)

    run = page.get("/api/run", params={"run": name}, headers=ALLOWED)
    cell = page.get("/api/cell", params={"run": "tiny", "cell": name}, headers=ALLOWED)
    file = page.get(f"/static/x{quote('/' + name, safe='')}", headers=ALLOWED)

    assert {run.status_code, cell.status_code, file.status_code} == {404}
    assert page.get("/api/run", params={"run": "link"}, headers=ALLOWED).status_code == 404


def test_a_run_and_its_rounds(page: TestClient) -> None:
    run = page.get("/api/run", params={"run": "tiny"}, headers=ALLOWED).json()
    chosen = {"run": "tiny", "cell": run["cells"][0]["cell"]}
    cell = page.get("/api/cell", params=chosen, headers=ALLOWED).json()

    assert "In a single run FedeRiCo is ahead: 90.0 % accuracy" in run["headline"]
    assert cell["rounds"] == [1, 2]
    assert cell["trust"]["groups"] == [0, 0, 1]
    client = page.get("/api/client", params=chosen | {"client": "a"}, headers=ALLOWED).json()
    assert "a learns with b (40 %)" in client["sentence"]
    nobody = page.get("/api/client", params=chosen | {"client": "nobody"}, headers=ALLOWED)
    assert nobody.status_code == 404


def cell_with(**changes: object) -> Callable[[Path], None]:
    """Damage to what a cell says of itself."""

    def damage(run: Path) -> None:
        file = run / "federico-0" / "cell.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return damage


def file_with(name: str, text: str) -> Callable[[Path], None]:
    """Damage to a file of a run."""

    def damage(run: Path) -> None:
        (run / "federico-0" / "done.json").unlink()
        (run / name).write_text(text)

    return damage


DAMAGES = {
    "table cut off": file_with("table.json", "{"),
    "table of another kind": file_with("table.json", "[]"),
    "results": file_with("results.jsonl", "nonsense\n"),
    "results of another kind": file_with("results.jsonl", "3\n"),
    "cell": file_with("federico-0/cell.json", '{"method": 3}'),
    "cell nested too deeply": file_with("federico-0/cell.json", "[" * 100_000),
    "options that are a list": cell_with(options=[]),
    "options that are nothing": cell_with(options=None),
    "clients that are a number": cell_with(clients=3),
    "records": file_with("federico-0/records.jsonl", '{"round": "x"}\n'),
    "records that are not text": file_with("federico-0/records.jsonl", "\x00\ud7ff\n"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_broken_run_is_shown_as_such(
    page: TestClient, folder: Path, damage: Callable[[Path], None]
) -> None:
    shutil.copytree(folder / "tiny", folder / "well")
    damage(folder / "tiny")

    broken, well = page.get("/api/runs", headers=ALLOWED).json()
    answer = page.get("/api/run", params={"run": "tiny"}, headers=ALLOWED)

    assert (broken["status"], well["status"]) == ("broken", "finished")
    assert broken["error"]
    assert str(folder) not in broken["error"]
    assert "bring the file back from a copy" in broken["advice"]
    assert answer.status_code == 409
    assert answer.json()["advice"] == broken["advice"]


def test_a_setting_that_makes_no_sense_does_not_hide_the_run(
    page: TestClient, folder: Path
) -> None:
    cell_with(options={"data": "x"})(folder / "tiny")

    (line,) = page.get("/api/runs", headers=ALLOWED).json()
    run = page.get("/api/run", params={"run": "tiny"}, headers=ALLOWED).json()

    assert line["status"] == "finished"
    assert run["settings"]["data"].startswith("x")


SPOILT_STATUS = {
    "updated": [None, "today", float("nan"), 1e400],
    "posterior": ["x", {"south": None}],
    "figures": [None, {"accuracy": "x"}],
    "sent": [float("nan")],
    "certificate_ends": ["soon", -1e300],
    "members": [{"south": 3}, {"south": {"here": 1}}, None],
    "comparison": [3, {}],
    "waits": [3],
    "phase": [None],
}
SPOILT = [(key, value) for key, values in SPOILT_STATUS.items() for value in values]


@pytest.mark.parametrize(("key", "value"), SPOILT)
def test_a_broken_site_does_not_hide_the_others(
    page: TestClient, folder: Path, key: str, value: object
) -> None:
    write_site(folder, "north", {"south": member()})
    file = write_site(folder, "south", {"north": member()}) / "status.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))

    answer = page.get("/api/network", headers=ALLOWED)

    assert answer.status_code == 200
    north, south = answer.json()
    assert north["well"]
    assert south["site"] == "south/state"


def test_a_status_that_is_no_status_says_so(page: TestClient, folder: Path) -> None:
    state = write_site(folder, "south", {})
    (state / "status.json").write_text("[" * 100_000)

    (south,) = page.get("/api/network", headers=ALLOWED).json()

    assert "status.json: cannot be read" in south["error"]


def test_links_that_lead_out_of_the_folder_are_not_followed(page: TestClient, folder: Path) -> None:
    secret = folder.parent / "secret.png"
    secret.write_bytes(b"secret")
    (folder / "tiny" / "figure.png").symlink_to(secret)
    elsewhere = folder.parent / "elsewhere"
    write_cell(elsewhere, "local", {"figures": {"accuracy": [0.1] * 3}}, seed=7)

    with_figure = page.get("/api/run", params={"run": "tiny"}, headers=ALLOWED)
    (folder / "tiny" / "figure.png").unlink()
    (folder / "tiny" / "local-7").symlink_to(elsewhere / "local-7")
    with_cell = page.get("/api/run", params={"run": "tiny"}, headers=ALLOWED)
    chosen = {"run": "tiny", "cell": "local-7"}
    cell = page.get("/api/cell", params=chosen, headers=ALLOWED)
    (line,) = page.get("/api/runs", headers=ALLOWED).json()

    assert {with_figure.status_code, with_cell.status_code, cell.status_code} == {409}
    assert "leads out of the folder" in cell.json()["detail"]
    assert line["status"] == "broken"

    # A link to a place in the folder is as good as a copy.
    (folder / "tiny" / "local-7").unlink()
    shutil.copytree(elsewhere / "local-7", folder / "kept" / "local-7")
    (folder / "tiny" / "local-7").symlink_to(folder / "kept" / "local-7")
    assert page.get("/api/cell", params=chosen, headers=ALLOWED).status_code == 200


@pytest.mark.parametrize("verb", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(page: TestClient, verb: str) -> None:
    for path in ("/", "/api/runs", "/api/run?run=tiny", "/api/events", "/static/app.js"):
        assert page.request(verb, path, headers=ALLOWED).status_code == 405


@pytest.mark.parametrize(
    "path", ["/", "/api/events", "/static/app.js", "/openapi.json", "/nothing"]
)
def test_no_address_is_open_to_others(page: TestClient, path: str) -> None:
    wrong_host = ALLOWED | {"Host": "rebinding.example:8000"}
    assert page.get(path, headers=wrong_host).status_code == 403
    assert page.get(path, headers={"Host": HOST}).status_code == 403
    assert page.get(path, headers=ALLOWED | {"Origin": "http://evil.example"}).status_code == 403
    assert page.get(path, params={"token": "wrong"}, headers={"Host": HOST}).status_code == 403


def test_two_who_ask_at_once_get_the_same(page: TestClient) -> None:
    chosen = {"run": "tiny", "cell": "federico-0"}
    with ThreadPoolExecutor(4) as many:
        ask = [many.submit(page.get, "/api/cell", params=chosen, headers=ALLOWED) for _ in range(8)]
        assert len({each.result().text for each in ask}) == 1
