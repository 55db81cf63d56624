"""The page of a real federation: five peers, of which one is killed."""

from pathlib import Path

from peers import Federation, small, until

from tests.support.browser import WIDTHS, OpenPage, Serve, home_of, picture


def test_the_page_shows_that_a_peer_was_killed(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    # In lock-step the others wait for the one that is gone, and leave the machine to the browser.
    limits = {"deadline": 600.0}
    setup = small(5, groups=2, rounds=100_000)
    with Federation(tmp_path, setup, mode="lock-step", limits=limits) as federation:
        link = serve(tmp_path)
        federation.start()
        until("three rounds", lambda: all(site.round >= 3 for site in federation))
        page = open_page(link)
        page.goto(f"{home_of(link)}#/network")
        page.get_by_role("heading", name="All 5 sites are well").wait_for()
        seen = page.get_by_role("table", name="Each row").inner_text()
        assert seen.count("here") == 20
        for cost in ("Bytes in each round", "Seconds in each round"):
            page.get_by_label(cost).wait_for()
        page.get_by_role("table", name="Seconds by phase").wait_for()

        federation["3"].running.kill()
        page.get_by_text("away since").nth(3).wait_for()
        page.get_by_role("heading", name="4 of 5 sites are well").wait_for()
        assert page.get_by_text("3: no sign of life (was training)").is_visible()
        picture(page, "peers-desk-light")
        page.set_viewport_size({"width": WIDTHS["phone"], "height": 900})
        picture(page, "peers-phone-light")
