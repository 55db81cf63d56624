"""The server of the page answers its own page and nobody else, and stays up whatever it reads."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from federico.runs.table import write_table
from federico.ui.server import create_app
from tests.support.results import make_table
from tests.support.run_folders import learning, write_cell

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


def broken_table(run: Path) -> None:
    (run / "table.json").write_text("{")


def broken_results(run: Path) -> None:
    (run / "results.jsonl").write_text("nonsense\n")


def broken_cell(run: Path) -> None:
    (run / "federico-0" / "cell.json").write_text('{"method": 3}')


def broken_records(run: Path) -> None:
    (run / "federico-0" / "done.json").unlink()
    (run / "federico-0" / "records.jsonl").write_text('{"round": "x"}\n')


@pytest.mark.parametrize("damage", [broken_table, broken_results, broken_cell, broken_records])
def test_a_broken_run_is_shown_as_such(page: TestClient, folder: Path, damage: Any) -> None:
    damage(folder / "tiny")

    (line,) = page.get("/api/runs", headers=ALLOWED).json()
    answer = page.get("/api/run", params={"run": "tiny"}, headers=ALLOWED)

    assert line["status"] == "broken"
    assert line["error"]
    assert answer.status_code == 409
