"""Large runs stay quick to look at.

The bounds leave room for a busy machine; `benchmarks/large_runs.json` has what was measured.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.large_runs import SLIDE, WHEN_SHOWN, busy_seconds, first_view, of_the_server
from federico.ui.frozen import MOST_BYTES, frozen_page
from tests.support.browser import OpenPage, Serve, home_of
from tests.support.large_runs import write_large_run

if TYPE_CHECKING:
    from playwright.sync_api import Page


FIRST_VIEW = 1.5
"""Seconds in which the browser may be busy with the first look at a view."""
STEPS = 60
"""Steps that `SLIDE` takes at least."""
FRAME = 0.1
"""Seconds of work for a step of the slider: with more than that people see it stall."""


def seconds_until_shown(page: "Page", address: str) -> float:
    page.goto("about:blank")
    page.goto(address)
    return float(page.evaluate(WHEN_SHOWN)) / 1000


@pytest.mark.slow
@pytest.mark.parametrize(("clients", "rounds"), [(64, 400), (1000, 40)])
def test_a_large_run_is_shown_in_seconds(
    tmp_path: Path, serve: Serve, open_page: OpenPage, clients: int, rounds: int
) -> None:
    write_large_run(tmp_path / "large", clients, rounds)
    page = open_page(serve(tmp_path))
    home = home_of(page.url)
    for view in ("runs", "worth?run=large", "trust?run=large", "data?run=large"):
        assert seconds_until_shown(page, f"{home}#/{view}") < 15

    seconds_until_shown(page, f"{home}#/trust?run=large")
    assert page.evaluate(SLIDE) < 1000
    assert len(frozen_page(tmp_path / "large")) < MOST_BYTES + 200_000


def test_64_clients_over_400_rounds_take_the_browser_little_work(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    write_large_run(tmp_path / "large", 64, 400)
    page = open_page(serve(tmp_path))
    home = home_of(page.url)

    views = ["runs", "worth?run=large", "cost?run=large", "data?run=large", "trust?run=large"]
    busy = {view: first_view(page, f"{home}#/{view}")["busy"] for view in views}
    slider = busy_seconds(page, lambda: page.evaluate(SLIDE)) / STEPS

    assert [(view, seconds) for view, seconds in busy.items() if seconds > FIRST_VIEW] == []
    assert slider < FRAME


def test_a_new_round_costs_no_more_than_itself(tmp_path: Path) -> None:
    write_large_run(tmp_path / "large", 64, 60)

    found = of_the_server(tmp_path)

    assert found["cell"] < 3
    assert found["cell after a new round"] < found["cell"]
    assert found["client"] < 1


def test_many_clients_are_found_by_way_of_their_group(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    write_large_run(tmp_path / "large", 200, 2)
    page = open_page(serve(tmp_path))
    page.goto(f"{home_of(page.url)}#/trust?run=large")

    page.get_by_text("the records hold the 20 largest weights of each client").wait_for()
    assert page.locator("svg.graph .node").count() == 4
    assert page.get_by_text("% inside").count() == 4
    page.get_by_role("button", name="distribution 2, 50 clients").click()
    page.get_by_role("heading", name="distribution 2: 50 clients").wait_for()
    # The group is part of the link, so that it stays when a new round arrives.
    page.reload()
    page.get_by_role("heading", name="distribution 2: 50 clients").wait_for()
    page.get_by_role("button", name="client 6", exact=True).click()
    page.get_by_role("heading", name="client 6", exact=True).wait_for()
    page.get_by_text("After round 2: client 6 learns with").wait_for()
