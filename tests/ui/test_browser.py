"""The page in a real browser; skipped where there is none."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from federico.runs.layout import CellDir
from federico.runs.records import Journal, Record
from federico.runs.table import write_table
from tests.support.results import make_table
from tests.support.run_folders import QUIET_ROUND, learning, write_cell

EVIL = "<img src=x onerror=document.title='broken'>"
PICTURES = Path("build/screenshots")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, accuracy in (("one", 0.9), ("two", 0.8)):
        run = tmp_path / name
        run.mkdir()
        write_table(run, make_table("federico", rounds=9, title=EVIL))
        rounds = learning(0.5, accuracy)
        write_cell(run, "federico", *rounds, finished=False, clients=["a", EVIL, "c"])
    return tmp_path


@pytest.fixture
def link(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "federico", "ui", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.fixture
def page(browser: Browser, link: str) -> Iterator[Page]:
    context = browser.new_context()
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    asked: list[str] = []
    opened.goto(link)
    yield opened
    context.close()
    assert wrong == []
    home = link.split("?", maxsplit=1)[0]
    assert all(url.startswith((home, "data:")) for url in asked)


def picture(page: Page, name: str) -> None:
    """Keep what the page looks like, for people to look at."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def test_a_person_looks_at_running_experiments(page: Page, link: str, folder: Path) -> None:
    home = link.split("?", maxsplit=1)[0]
    page.get_by_text("unfinished, round 2 of 9").first.wait_for()

    # A new round arrives without a reload.
    values = QUIET_ROUND | {"round": 3} | learning(0.5, 0.9)[1]
    values["figures"]["loss"] = [1.0] * 3
    Journal(CellDir(folder / "one" / "federico-0").path).append(Record(**values))
    page.get_by_text("unfinished, round 3 of 9").wait_for(timeout=10_000)

    # Compare two runs.
    for name in ("one", "two"):
        page.get_by_label(f"Compare {name}").check()
    page.get_by_role("link", name="Compare 2 runs").click()
    page.get_by_role("heading", name="Settings that differ").wait_for()
    picture(page, "compare")

    # Slider, click on a client, and a link that leads to the same place.
    page.goto(f"{home}#/trust?run=one")
    page.get_by_label("Round", exact=True).fill("0")
    page.get_by_text("round 1 of 3").wait_for()
    page.get_by_role("button", name="a, distribution 0").click()
    page.locator("#sentence").wait_for()
    picture(page, "trust")
    shared = page.url
    page.goto(f"{home}#/runs")
    page.get_by_role("heading", name="Runs").wait_for()
    page.goto(shared)
    page.locator("#sentence").wait_for()
    assert page.get_by_text("round 1 of 3").is_visible()

    # Names that hold HTML are text, in every view.
    for view in ("worth", "cost", "data"):
        page.goto(f"{home}#/{view}?run=one")
        page.wait_for_function("document.querySelectorAll('main h1').length == 1")
    assert page.title() != "broken"
    assert page.locator("main img").count() == 0
