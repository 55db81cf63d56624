"""What the page says of a site: alive or gone, what it refuses and why, what has to be done."""

from pathlib import Path

from federico.ui.network_view import SIGN_OF_LIFE, site_rounds, site_view
from tests.support.sites import AHEAD, DAY, NOW, member, write_rounds, write_site


def test_a_site_that_works(tmp_path: Path) -> None:
    shown = site_view("north", write_site(tmp_path, "north", {"south": member()}))

    assert shown["well"]
    assert (shown["phase"], shown["round"], shown["rounds"]) == ("training", 3, 9)
    assert shown["score"] == "accuracy 80.0 %"
    assert shown["trusts"] == "north (60 %), south (40 %)"
    assert shown["worth"].startswith("alone 70.0 %, with collaborators 80.0 %")
    assert not shown["renew"]


def test_a_site_that_trusts_only_itself_has_no_collaborators(tmp_path: Path) -> None:
    lonely = write_site(tmp_path, "north", {"south": member()}, posterior={"north": 1.0})

    worth = site_view("north", lonely)["worth"]
    assert worth.startswith("alone 70.0 %, with the model it shares 80.0 % (it trusts no other's)")


def test_a_peer_that_was_killed_could_not_say_so(tmp_path: Path) -> None:
    old = NOW - AHEAD - SIGN_OF_LIFE - 60
    killed = site_view("north", write_site(tmp_path, "north", {}, updated=old))
    ended = site_view("south", write_site(tmp_path, "south", {}, updated=old, phase="finished"))

    assert not killed["well"]
    assert killed["phase"] == "no sign of life (was training)"
    assert ended["well"]
    assert (killed["ended"], ended["ended"]) == (False, True)


def test_what_is_refused_and_why(tmp_path: Path) -> None:
    members = {
        "east": member(
            reputation="paused",
            strikes=3,
            refused={"chunk \u2026 is not the announced one": 1, "no room for it": 1200},
        ),
        "south": member(twice=True, refusals=2, standing=0.25),
        "west": member(clock_ahead=-86400.0),
    }
    east, south, west = site_view("north", write_site(tmp_path, "north", members))["members"]

    assert (east["reputation"], east["strikes"]) == ("paused", 3)
    told = "no room for it (1,200 times); chunk \u2026 is not the announced one (once)"
    assert (east["refused"], east["refused_updates"]) == (told, "")
    counts = "2 updates refused, counts for 25 %"
    assert (south["refused"], south["refused_updates"]) == ("", counts)
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


def test_what_each_round_cost_a_site(tmp_path: Path) -> None:
    state = write_site(tmp_path, "north", {})
    assert site_rounds(state)["rounds"] == []

    write_rounds(state, place=1, rounds=3)
    cost = site_rounds(state)
    assert cost["rounds"] == [1, 2, 3]
    assert cost["sent"] == [4000, 8000, 12000]
    assert cost["received"] == [3000, 6000, 9000]
    assert cost["evaluation_sent"] == [2000, 4000, 6000]
    assert cost["evaluation_received"] == [1000, 2000, 3000]
    assert cost["phases"] == {"train": [0.5, 1.0, 1.5], "pull": [0.25, 0.25, 0.25]}

    # Seconds of which the first are lost are no seconds of these rounds.
    (state / "timings.jsonl").write_text("")
    assert site_rounds(state)["phases"] == {}
    assert site_rounds(state)["sent"] == [4000, 8000, 12000]
