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

OPEN_LIST = """list => {
  list.isTheSame = true;
  list.focus();
  list.dispatchEvent(new PointerEvent("pointerdown", { bubbles: true }));
}"""
"""At once, as a hand does it: a newer list may come before, but not from then on."""


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

    # The list may be open: it is not replaced before something was chosen.
    cells.evaluate(OPEN_LIST)
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


def test_what_is_shown_stays_when_newer_rounds_cannot_be_fetched(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    link = serve(folder)
    page = open_page(link)
    page.get_by_text("running, round 2 of 9").wait_for()

    # The stream still says that there is a newer round, and then the server is gone.
    page.route("**/api/runs*", lambda route: route.abort())
    with page.expect_request("**/api/runs*"):
        next_round(folder / "one", 3)
    page.wait_for_timeout(500)
    assert page.get_by_text("running, round 2 of 9").is_visible()

    # A view that was never there says what to do.
    page.route("**/api/run?*", lambda route: route.abort())
    page.get_by_role("link", name="one", exact=True).click()
    page.get_by_text("Start federico ui again and open its new link").wait_for()


def test_what_did_not_change_stays_the_same_element(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    """A hand may be about to press it, and rounds may come faster than the hand."""
    going_on(folder / "other", 0.8)
    page = open_page(serve(folder))
    page.get_by_text("running, round 2 of 9").first.wait_for()
    lasting = ["Compare one", "Compare other"]
    for label in lasting:
        page.get_by_label(label).evaluate("tick => { tick.isTheSame = true; }")
    page.get_by_label("Compare other").focus()

    next_round(folder / "one", 3)
    page.get_by_text("running, round 3 of 9").wait_for()
    for label in lasting:
        assert page.get_by_label(label).evaluate("tick => tick.isTheSame") is True
    assert page.get_by_label("Compare other").evaluate("tick => tick.matches(':focus')")

    # A tick that is older than the link below it still changes it; rows come and go around it.
    going_on(folder / "new", 0.7)
    page.get_by_label("Compare new").check()
    page.get_by_label("Compare other").check()
    page.get_by_role("link", name="Compare 2 runs").wait_for()
    shutil.rmtree(folder / "one")
    page.get_by_label("Compare one").wait_for(state="detached")
    assert page.get_by_label("Compare other").evaluate("tick => tick.isTheSame") is True
    rows = page.locator("tbody tr th").all_inner_texts()
    assert rows == ["new", "other"]


def test_another_cell_is_chosen_without_a_jump(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    going_on(folder / "two", 0.8, seeds=(0, 1))
    link = serve(folder)
    page = open_page(link)
    show(page, link, "worth?run=two")
    cells = page.get_by_role("combobox", name="Method and seed")
    cells.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    assert before > 0

    cells.select_option("federico-1")
    page.get_by_label("seed 1: accuracy").wait_for()
    assert page.evaluate("scrollY") == before
    assert "cell=federico-1" in page.url


def test_a_chart_of_the_same_figures_stays_and_one_of_newer_figures_is_drawn(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    link = serve(folder)
    page = open_page(link)
    show(page, link, "worth?run=one")
    chart = page.get_by_label("All methods: accuracy")
    chart.evaluate("chart => { chart.isTheSame = true; }")

    # The time of the last round is told anew, and nothing else is.
    for name in ("records.jsonl", "timings.jsonl"):
        (folder / "one" / "federico-0" / name).touch()
    wait_for_update(page)
    page.wait_for_timeout(500)
    assert chart.evaluate("chart => chart.isTheSame") is True

    next_round(folder / "one", 3)
    page.get_by_text("is at round 3 of 9").wait_for()
    chart.press("ArrowLeft")
    page.get_by_text("round 3: FedeRiCo").wait_for()


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


def test_a_server_that_ended_is_said_to_have_ended(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(folder))
    page.get_by_text("running, round 2 of 9").wait_for()

    serve.end()
    page.get_by_text("The server does not answer. Start federico ui again").wait_for()
    assert page.get_by_text("running, round 2 of 9").is_visible()

    again = open_page(serve(folder))
    again.get_by_text("running, round 2 of 9").wait_for()
