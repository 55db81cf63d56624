"""What the page says of a site: alive or gone, what it refuses and why, what has to be done."""

from pathlib import Path

from federico.ui.network_view import SIGN_OF_LIFE, site_view
from tests.support.sites import DAY, NOW, member, write_site


def test_a_site_that_works(tmp_path: Path) -> None:
    shown = site_view("north", write_site(tmp_path, "north", {"south": member()}))

    assert shown["well"]
    assert (shown["phase"], shown["round"], shown["rounds"]) == ("training", 3, 9)
    assert shown["score"] == "accuracy 80.0 %"
    assert shown["worth"].startswith("alone 70.0 %, with collaborators 80.0 %")
    assert not shown["renew"]


def test_a_peer_that_was_killed_could_not_say_so(tmp_path: Path) -> None:
    old = NOW - 600 - SIGN_OF_LIFE - 60
    killed = site_view("north", write_site(tmp_path, "north", {}, updated=old))
    ended = site_view("south", write_site(tmp_path, "south", {}, updated=old, phase="finished"))

    assert not killed["well"]
    assert killed["phase"] == "no sign of life (was training)"
    assert ended["well"]


def test_what_is_refused_and_why(tmp_path: Path) -> None:
    members = {
        "east": member(reputation="paused", strikes=3, reason="an update that is not finite"),
        "south": member(twice=True),
        "west": member(clock_ahead=-86400.0),
    }
    east, south, west = site_view("north", write_site(tmp_path, "north", members))["members"]

    assert (east["reputation"], east["strikes"]) == ("paused", 3)
    assert east["reason"] == "an update that is not finite"
    assert south["twice"]
    assert (south["clock"], west["clock"]) == ("", "24.0 h behind")


def test_a_site_whose_own_clock_is_wrong_says_so(tmp_path: Path) -> None:
    north = write_site(tmp_path, "north", {}, clock_ahead=3600.0)
    assert site_view("north", north)["clock"] == "1.0 h ahead"
    assert site_view("south", write_site(tmp_path, "south", {}))["clock"] == ""


def test_a_certificate_that_ends_soon_asks_to_be_renewed(tmp_path: Path) -> None:
    shown = site_view("north", write_site(tmp_path, "north", {}, certificate_ends=NOW + 3 * DAY))

    assert shown["renew"]
    assert "federico pki renew" in shown["certificate"]
