"""Every view on every kind of screen: nothing too wide, nothing axe objects to, names as text."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from federico.report import summarize
from federico.ui.frozen import write_report
from federico.ui.site_report import write_site_report
from tests.support.browser import WIDTHS, OpenPage, Serve, picture, show
from tests.support.large_runs import write_large_run
from tests.support.run_folders import EVIL, going_on
from tests.support.sites import AHEAD, DAY, NOW, member, write_rounds, write_site

if TYPE_CHECKING:
    from playwright.sync_api import Page

REFUSED = {f"an update that is not finite {EVIL}": 3, "no room for it": 12}
TO_REACH = """[...document.querySelectorAll(
  "a[href], button, input, select, summary, [tabindex='0']"
)].filter((each) => each.checkVisibility())"""
TOO_SMALL = """[...document.querySelectorAll("button, select, input, summary, nav a, .hit")]
  .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 24)
  .map((each) => each.outerHTML)"""
TWO_LINES = 80
"""The height of two lines of the head."""
NOTE_FOCUS = """() => {
  const focused = document.activeElement;
  if (getComputedStyle(focused).outlineStyle !== "none") window.reached.add(focused.outerHTML);
}"""
SCREENS = [(device, scheme) for device in WIDTHS for scheme in ("light", "dark")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that go on, one of many clients, a broken one, and a network with every trouble."""
    runs = tmp_path_factory.mktemp("runs")
    going_on(runs / "one", 0.9)
    going_on(runs / "two", 0.8)
    write_large_run(runs / "many", 200, 3)
    (runs / "broken").mkdir()
    (runs / "broken" / "table.json").write_text("{")

    hostile = member(reputation="paused", strikes=3, refused=REFUSED)
    twice = member(twice=True)
    away = member(here=False, last_seen=NOW - AHEAD - 60)
    other_file = member(same_file=False)
    ends = {"certificate_ends": NOW + 3 * DAY}
    north = {"south": hostile, "west": away, "east": twice}
    write_rounds(write_site(runs / "sites", "north", north, **ends), place=0, rounds=3)
    east = {"north": member(), "south": member(), "west": away}
    write_rounds(write_site(runs / "sites", "east", east), place=1, rounds=3)
    write_site(runs / "sites", "south", {"north": other_file, "east": member()}, round=2)
    write_site(runs / "sites", "west", {}, updated=NOW - AHEAD - 3600, posterior={"west": 1.0})
    state = write_site(runs / "sites", "torn", {})
    (state / "status.json").write_text('{"updated": ')
    return runs


VIEWS = {
    "runs": "runs",
    "network": "network",
    "compare": "compare?run=one&run=two",
    "worth": "worth?run=one",
    "trust": "trust?run=one&client=a",
    "trust-of-many": "trust?run=many&client=client+3",
    "cost": "cost?run=one",
    "data": "data?run=one",
    "data-of-many": "data?run=many",
    "broken": "worth?run=broken",
    "no-view": "nothing",
}


@pytest.mark.parametrize(("device", "scheme"), SCREENS)
def test_everybody_can_read_every_view(
    folder: Path, serve: Serve, open_page: OpenPage, device: str, scheme: str
) -> None:
    link = serve(folder)
    page = open_page(link, WIDTHS[device], scheme)
    for name, view in VIEWS.items():
        show(page, link, view)
        picture(page, f"{name}-{device}-{scheme}")
        is_readable(page, WIDTHS[device])


@pytest.mark.parametrize(("device", "scheme"), [("phone", "dark"), ("desk", "light")])
def test_everybody_can_read_the_report(
    folder: Path, open_page: OpenPage, device: str, scheme: str
) -> None:
    of_run = write_report(folder / "one", summarize(folder / "one"))
    of_site = write_site_report(folder / "sites" / "north" / "state").page
    page = open_page(of_run.as_uri(), WIDTHS[device], scheme, offline=True)
    views = [(of_run, name) for name in ("worth", "trust", "cost", "data")]
    views += [(of_site, name) for name in ("site", "network")]
    for report, name in views:
        page.goto("about:blank")
        page.goto(f"{report.as_uri()}#/{name}")
        page.locator("main h1").wait_for()
        page.get_by_text("Reading the rounds").wait_for(state="detached")
        picture(page, f"report-{name}-{device}-{scheme}")
        is_readable(page, WIDTHS[device])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_empty_folder_says_what_to_do(
    tmp_path: Path, serve: Serve, open_page: OpenPage, scheme: str
) -> None:
    link = serve(tmp_path)
    page = open_page(link, WIDTHS["phone"], scheme)
    for view in ("runs", "network"):
        show(page, link, view)
        assert view == "network" or page.get_by_text(str(tmp_path)).is_visible()
        picture(page, f"empty-{view}-phone-{scheme}")
        is_readable(page, WIDTHS["phone"])


@pytest.mark.parametrize("view", ["runs", "network", "worth", "trust", "cost", "data", "compare"])
def test_everything_is_reached_with_the_keyboard_and_seen_to_be(
    folder: Path, serve: Serve, open_page: OpenPage, view: str
) -> None:
    link = serve(folder)
    page = open_page(link)
    show(page, link, VIEWS[view])
    page.get_by_text("Following").wait_for()
    count = page.evaluate(f"{TO_REACH}.length")
    page.evaluate("window.reached = new Set()")
    for _ in range(count + 2):
        page.keyboard.press("Tab")
        page.evaluate(NOTE_FOCUS)
    # By their text: where a view is drawn anew meanwhile, other elements are in their places.
    every = page.evaluate(f"{TO_REACH}.map((each) => each.outerHTML)")
    assert set(every) - set(page.evaluate("[...window.reached]")) == set()


def is_readable(page: "Page", width: int) -> None:
    """Nothing is wider than the screen, axe finds nothing serious, and names are text.

    On a phone the head leaves room for the page, and a finger hits what can be pressed.
    """
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if width == WIDTHS["phone"]:
        assert page.evaluate("document.querySelector('header').offsetHeight") <= TWO_LINES
        assert page.evaluate(TOO_SMALL) == []
    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == []
    assert page.title() != "broken"
    assert page.locator("main img").count() == 0
