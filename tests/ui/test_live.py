"""The page while runs go on: it follows them, and takes nothing from under a person's hands."""

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from federico.runs.cell_result import cell_result
from federico.runs.layout import CellDir
from federico.runs.results import append_result
from tests.support.browser import OpenPage, Serve, picture, show
from tests.support.run_folders import going_on, next_round

if TYPE_CHECKING:
    from playwright.sync_api import Page

TABS = 8
"""More than the connections that a browser opens to one server."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    going_on(tmp_path / "runs" / "one", 0.9)
    return tmp_path / "runs"


def wait_for_update(page: "Page") -> None:
    """Until the page has heard that a file has changed; it looks every second."""
    page.evaluate("document.getElementById('live').textContent = ''")
    page.get_by_text("Updated").wait_for()


def test_a_slider_that_is_held_stays(folder: Path, serve: Serve, open_page: OpenPage) -> None:
    link = serve(folder)
    page = open_page(link)
    show(page, link, "trust?run=one")
    slider = page.get_by_label("Round", exact=True)
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.get_by_text("round 1 of 2").wait_for()

    next_round(folder / "one", 3)
    wait_for_update(page)
    page.wait_for_timeout(500)
    assert page.get_by_text("round 1 of 2").is_visible()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    assert page.get_by_text("round 2 of 2").is_visible()

    page.mouse.up()
    page.get_by_text("round 3 of 3").wait_for()


def test_what_is_read_and_chosen_stays(folder: Path, serve: Serve, open_page: OpenPage) -> None:
    link = serve(folder)
    page = open_page(link)
    show(page, link, "worth?run=one")
    chart = page.get_by_label("All methods: accuracy")
    told = page.locator("figure").filter(has=chart).locator(".told")
    chart.press("ArrowLeft")
    chart.press("+")
    reading = told.inner_text()
    assert "round" in reading
    cells = page.get_by_role("combobox", name="Metric")
    cells.evaluate("list => { list.focus(); list.isTheSame = true; }")
    cells.dispatch_event("pointerdown")

    # The list may be open: it is not replaced before something was chosen.
    next_round(folder / "one", 3)
    wait_for_update(page)
    page.wait_for_timeout(500)
    assert cells.evaluate("list => list.isTheSame") is True
    cells.select_option("loss")
    page.get_by_text("is at round 3 of 9").wait_for()

    assert told.inner_text() == reading
    assert page.get_by_role("button", name="Show all").first.is_visible()
    assert page.get_by_role("combobox", name="Metric").input_value() == "loss"


def test_an_open_table_shows_the_round_of_the_slider(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    link = serve(folder)
    page = open_page(link)
    show(page, link, "trust?run=one")
    page.get_by_text("Weights as a table").click()
    page.get_by_text("Weights after round 2").wait_for()
    page.get_by_label("Round", exact=True).fill("0")
    page.get_by_text("Weights after round 1").wait_for()

    next_round(folder / "one", 3)
    page.get_by_text("round 1 of 3").wait_for()
    assert page.get_by_text("Weights after round 1").is_visible()


def test_many_tabs_follow_and_one_may_be_closed(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    link = serve(folder)
    first = open_page(link)
    first.get_by_role("heading", name="Runs").wait_for()
    tabs = [first]
    for _ in range(TABS - 1):
        tab = first.context.new_page()
        tab.goto(first.url)
        tab.get_by_text("round 2 of 9").wait_for()
        tabs.append(tab)

    next_round(folder / "one", 3)
    for tab in tabs:
        tab.get_by_text("round 3 of 9").wait_for()
    first.close()
    next_round(folder / "one", 4)
    for tab in tabs[1:]:
        tab.get_by_text("round 4 of 9").wait_for()


def test_a_run_that_stops_goes_on_and_ends(folder: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(folder))
    cell = CellDir(folder / "one" / "federico-0")
    page.get_by_text("running, round 2 of 9").wait_for()

    hour_ago = time.time() - 3600
    os.utime(cell.path / "records.jsonl", (hour_ago, hour_ago))
    page.get_by_text("stopped, round 2 of 9; the last came 60 min ago").wait_for()
    picture(page, "stopped-desk-light")

    for number in range(3, 10):
        next_round(folder / "one", number)
    page.get_by_text("running, round 9 of 9").wait_for()
    cell.finish(9)
    append_result(folder / "one", cell_result(cell))
    page.get_by_text("finished, 9 rounds").wait_for()

    shutil.rmtree(folder / "one")
    page.get_by_role("heading", name="No runs in this folder yet").wait_for()
    going_on(folder / "one", 0.7)
    page.get_by_text("running, round 2 of 9").wait_for()


@pytest.mark.slow  # fails now and then where the machine is busy
def test_a_server_that_ended_is_said_to_have_ended(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(folder))
    page.get_by_text("Following").wait_for()

    serve.end()
    page.get_by_text("The server does not answer. Start federico ui again").wait_for()
    assert page.get_by_text("running, round 2 of 9").is_visible()

    again = open_page(serve(folder))
    again.get_by_text("running, round 2 of 9").wait_for()
