"""The page of a federation that a person has launched: five peers, of which one is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from peers import PATIENCE, until

from federico.errors import RunError
from federico.site.status import read_status
from tests.support.browser import WIDTHS, OpenPage, Serve, home_of, picture

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PEERS = 5
KILLED = "3"
EXPERIMENT = """
rounds = 100000
split = { samples = 500 }
partition = { kind = "label-groups", groups = 2 }
model = { kind = "mlp", hidden = [16] }
training = { batch_size = 8 }
"""


def test_the_page_of_a_launch_shows_that_a_peer_was_killed(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    (tmp_path / "five.toml").write_text(EXPERIMENT)
    sites = tmp_path / "sites"
    with launched(tmp_path / "five.toml", sites):
        names = [str(number) for number in range(PEERS)]
        until("two rounds of each", lambda: all(round_of(sites / name) >= 2 for name in names))
        link = serve(sites)
        page = open_page(link)
        page.goto(f"{home_of(link)}#/network")
        page.get_by_role("heading", name="All 5 sites are well").wait_for()
        page.get_by_text("away since").wait_for(state="detached")
        for cost in ("Bytes in each round", "Seconds in each round"):
            page.get_by_label(cost).wait_for()
        page.get_by_role("table", name="Seconds by phase").wait_for()

        os.kill(read_status(sites / KILLED / "state").pid, signal.SIGKILL)

        # It is gone in its own line, and in what each of the others sees.
        page.get_by_text(f"{KILLED}: no sign of life (was training)").wait_for()
        page.get_by_role("heading", name="4 of 5 sites are well").wait_for()
        for name in names:
            if name != KILLED:
                row_of(page, "Each row: what this site sees", name).get_by_text("away").wait_for()
        # The others go on: the page itself comes to show a later round of each.
        stands = round_shown(page, KILLED)
        before = {name: round_shown(page, name) for name in names if name != KILLED}
        until(
            "later rounds of the others on the page",
            lambda: all(round_shown(page, name) > before[name] for name in before),
        )
        assert round_shown(page, KILLED) == stands

        picture(page, "peers-desk-light")
        page.set_viewport_size({"width": WIDTHS["phone"], "height": 900})
        picture(page, "peers-phone-light")


@contextmanager
def launched(file: Path, sites: Path) -> Iterator[None]:
    """`federico launch` while the block lasts; a peer that dies is not started again."""
    command = [sys.executable, "-m", "federico", "launch", str(PEERS), str(file)]
    command += ["--directory", str(sites), "--restarts", "0"]
    # In a group of its own, so that none of its peers is left behind, whatever happens.
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=PATIENCE)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
    assert f"{KILLED} was killed by signal 9; it stays away, the others go on" in said


def round_of(site: Path) -> int:
    try:
        return read_status(site / "state").round
    except RunError:
        return 0


def round_shown(page: "Page", name: str) -> int:
    """The last round of a site in the table of all sites."""
    played = row_of(page, "Sites", name).get_by_text(" of 100,000").inner_text()
    return int(played.split()[0].replace(",", ""))


def row_of(page: "Page", title: str, name: str) -> "Locator":
    """The row of a site in the table of this title."""
    table = page.get_by_role("table", name=title, exact=True)
    return table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
