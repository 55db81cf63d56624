"""The page as a person uses it, in a real browser; skipped where there is none."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from federico.report import summarize
from federico.runs.table import write_table
from federico.ui.frozen import frozen_page, write_report
from tests.support.browser import OpenPage, Serve, picture, show
from tests.support.results import make_table
from tests.support.run_folders import EVIL, going_on, learning, next_round, write_cell
from tests.support.sites import member, write_site

LIVE = """
methods = ["federico"]
rounds = 100000

[data]
kind = "digits"

[partition]
kind = "label-groups"
clients = 4
groups = 2

[split]
samples = 1600

[training]
batch_size = 2  # a round takes long enough for a person to look at it

[system]
threads = 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs that go on, with names that hold HTML, and one that is broken."""
    runs = tmp_path / "runs"
    going_on(runs / "one", 0.9)
    going_on(runs / "two", 0.8)
    (runs / "broken").mkdir()
    (runs / "broken" / "table.json").write_text("{")
    return runs


def test_a_person_follows_an_experiment_until_it_is_deleted(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    (tmp_path / "live.toml").write_text(LIVE)
    command = [sys.executable, "-m", "federico", "run", "live.toml"]
    runs = tmp_path / "runs"
    runs.mkdir()
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as running:
        try:
            page = open_page(serve(runs))
            page.get_by_role("heading", name="No runs in this folder yet").wait_for()
            page.get_by_role("link", name="live").click()
            page.get_by_text("is at round").wait_for()
            seen = page.get_by_text("is at round").inner_text()
            # A new round arrives by itself.
            page.get_by_text(seen).wait_for(state="hidden")
            page.get_by_text("is at round").wait_for()
            page.get_by_text("It is running.").wait_for()
            picture(page, "live-desk-light")

            # Who learns with whom, while it goes on: an earlier round, a client, a link to share.
            page.get_by_role("link", name="Who learns with whom?").click()
            # Of one round only, the first is also the last: there the page follows the run.
            page.locator("#round:not([max='0'])").wait_for()
            page.get_by_label("Round", exact=True).fill("0")
            page.get_by_text("round 1 of").wait_for()
            page.locator("svg.graph .node").first.press("Enter")
            page.get_by_text("After round").wait_for()
            page.get_by_role("heading", name="Why its trust moved").wait_for()
            colleague = page.context.new_page()
            colleague.goto(page.url)
            colleague.get_by_text("After round").wait_for()
            colleague.get_by_text("round 1 of").wait_for()

            # It is compared with a copy that nobody works on.
            shutil.copytree(runs / "live", runs / "earlier")
            page.get_by_role("link", name="Runs", exact=True).click()
            page.get_by_label("Compare earlier").check()
            page.get_by_label("Compare live").check()
            page.get_by_role("link", name="Compare 2 runs").click()
            page.get_by_role("row", name="live: FedeRiCo").wait_for()
            picture(page, "live-compare-desk-light")
            page.go_back()
            page.get_by_role("link", name="live", exact=True).click()
            page.get_by_text("is at round").wait_for()
        finally:
            running.kill()

    shutil.rmtree(runs / "earlier")
    shutil.rmtree(runs / "live")
    page.get_by_text("There is no such run").wait_for()
    page.get_by_role("link", name="Back to all runs").click()
    page.get_by_role("heading", name="No runs in this folder yet").wait_for()


def test_a_person_looks_closer(folder: Path, serve: Serve, open_page: OpenPage) -> None:
    link = serve(folder)
    page = open_page(link)
    page.get_by_text("running, round 2 of 9").first.wait_for()
    page.get_by_text("broken cannot be read").wait_for()

    # A tick and the place on the page stay when a new round arrives.
    page.get_by_label("Compare one").check()
    next_round(folder / "one", 3)
    page.get_by_text("running, round 3 of 9").wait_for()
    assert page.get_by_label("Compare one").is_checked()

    # Two runs side by side.
    page.get_by_label("Compare two").check()
    page.get_by_role("link", name="Compare 2 runs").click()
    page.get_by_text("after round 2, one seed").wait_for()
    assert "10.0" in page.get_by_role("row", name="two: FedeRiCo").inner_text()
    assert page.get_by_role("row", name="momentum 0.9 0.8").is_visible()

    # The slider, a client, and a link that leads to the same place.
    show(page, link, "trust?run=one")
    page.get_by_label("Round", exact=True).fill("0")
    page.get_by_text("round 1 of 3").wait_for()
    assert page.locator("svg.graph path.edge").count() == 0
    page.get_by_label("Round", exact=True).fill("2")
    page.get_by_text("round 3 of 3").wait_for()
    assert page.locator("svg.graph path.edge").count() == 3
    page.get_by_label("Round", exact=True).fill("1")
    page.get_by_role("button", name="c, distribution 1").press("Enter")
    page.get_by_text("c learns with a (10 %) and keeps 90 % for its own model.").wait_for()
    # Beside the graph the sentence is about the round that is shown.
    page.get_by_text("In round 2, c trusts a (10 %) and keeps 90 % for its own model.").wait_for()
    page.get_by_label("Round", exact=True).fill("0")
    page.get_by_text("In round 1, c trusts nobody else").wait_for()
    page.get_by_label("Round", exact=True).fill("1")
    shared = page.url
    colleague = open_page(link)
    colleague.get_by_role("heading", name="Runs").wait_for()
    colleague.goto(shared)
    colleague.get_by_role("heading", name="Client c").wait_for()
    assert colleague.get_by_text("round 2 of 3").is_visible()

    # Play begins anew and stops at the last round.
    page.get_by_label("Round", exact=True).fill("2")
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Stop").wait_for()
    page.get_by_role("button", name="Play").wait_for()
    assert page.get_by_text("round 3 of 3").is_visible()


def test_a_chart_is_read_and_zoomed_with_the_keyboard(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    next_round(folder / "one", 3)
    link = serve(folder)
    page = open_page(link)
    show(page, link, "worth?run=one")
    # What goes on is said once.
    assert page.locator(".note").count() == 1
    chart = page.get_by_label("All methods: accuracy")
    chart.press("ArrowLeft")
    figure = page.locator("figure").filter(has=chart)
    assert "round 3: FedeRiCo 90" in figure.locator(".told").inner_text()
    chart.press("+")
    figure.get_by_role("button", name="Show all").click()
    assert figure.get_by_role("button", name="Show all").is_hidden()


def test_a_chart_is_read_and_zoomed_with_the_mouse(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    for number in (3, 4):
        next_round(folder / "one", number)
    link = serve(folder)
    page = open_page(link)
    show(page, link, "worth?run=one")
    chart = page.get_by_label("All methods: accuracy")
    figure = page.locator("figure").filter(has=chart)
    box = chart.bounding_box()
    assert box is not None
    left, right, middle = box["x"] + 60, box["x"] + box["width"] - 20, box["y"] + 100

    page.mouse.move(left, middle)
    assert "round 1: FedeRiCo 50" in figure.locator(".told").inner_text()
    page.mouse.down()
    page.mouse.move((left + right) / 2, middle)
    page.mouse.up()
    figure.get_by_role("button", name="Show all").wait_for()
    # Only rounds 1 and 2 are left: the right edge is before round 3.
    page.mouse.move(right, middle)
    assert "round 2: FedeRiCo 90" in figure.locator(".told").inner_text()

    # Another metric, and what each client would be with it alone.
    page.get_by_role("combobox", name="Metric").select_option("loss")
    page.get_by_label("FedeRiCo, seed 0: log loss over round").wait_for()


def test_a_square_of_the_weights_is_read_and_chosen(
    folder: Path, serve: Serve, open_page: OpenPage
) -> None:
    link = serve(folder)
    page = open_page(link)
    show(page, link, "trust?run=one")
    weights = page.locator("canvas")
    box = weights.bounding_box()
    assert box is not None

    # The last row is c, the first column a.
    weights.hover(position={"x": box["width"] / 6, "y": box["height"] * 5 / 6})
    page.get_by_text("c gives a 10 % of its weight").wait_for()
    page.get_by_label("Round", exact=True).fill("0")
    page.get_by_text("c gives a 0 % of its weight").wait_for()
    weights.click(position={"x": box["width"] / 6, "y": box["height"] * 5 / 6})
    page.get_by_role("heading", name="Client c").wait_for()


def test_pictures_and_tables_answer_the_question_of_their_view(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    finished_and_kept(tmp_path)
    link = serve(tmp_path)
    page = open_page(link)

    # Training alone sends nothing: its line ends where it begins, and all that it reached is told.
    show(page, link, "cost?run=run")
    page.get_by_text("FedeRiCo: 150 bytes and 4.5 s of processor time buy 40.0 points").wait_for()
    chart = page.get_by_label("What bytes buy")
    chart.press("ArrowLeft")
    told = page.locator("figure").filter(has=chart).locator(".told").inner_text()
    assert told == "150 bytes: FedeRiCo 90 %, Local 50 % (ends at 0 bytes)"

    # The bytes and seconds of one client.
    page.get_by_role("combobox", name="Of whom").select_option("b")
    page.get_by_label("Bytes in each round: bytes in messages of b over round").press("ArrowLeft")
    page.get_by_text("round 3: sent to train 20 bytes, received to train 0 bytes").wait_for()
    page.get_by_label("Seconds in each round").press("ArrowLeft")
    page.get_by_text("round 3: train 0.225 s, evaluate 75 ms").wait_for()
    page.get_by_text("by the samples that went through models for it").first.wait_for()
    seconds = page.get_by_role("table", name="Each client in all rounds")
    assert "time (s)" in seconds.inner_text()

    # Every client alone, with FedAvg and here.
    show(page, link, "worth?run=run")
    assert page.title() == "Is it worth it? - run - FedeRiCo"
    row = page.locator("svg g").filter(has_text="a: alone 50, this run 90; gain +40.0")
    assert row.count() == 1
    page.get_by_role("combobox", name="Method and seed").select_option("FedeRiCo, mean over seeds")
    page.get_by_label("FedeRiCo, mean over 2 seeds: accuracy").wait_for()

    # Of what was only kept there are no rounds, and no views of them.
    show(page, link, "worth?run=kept")
    page.get_by_text("Only results were kept").first.wait_for()
    views = page.get_by_role("navigation", name="Views")
    assert views.get_by_role("link", name="Data").count() == 0
    assert views.get_by_role("link", name="What does it cost?").count() == 1
    page.get_by_role("link", name="All runs").click()
    page.get_by_role("heading", name="Runs").wait_for()


def finished_and_kept(folder: Path) -> None:
    """A run with training alone and two seeds, and its results without rounds."""
    run = folder / "run"
    run.mkdir()
    write_table(run, make_table("federico", "local", rounds=3, seeds=(0, 1)))
    alone = {"accuracy": [0.5] * 3, "loss": [1.0] * 3}
    for seed in (0, 1):
        rounds = learning(0.5, 0.8, 0.9)
        for number, values in enumerate(rounds):
            values |= {"sent": [0, 10 * number, 0], "alone": alone, "together": alone}
            values["together_share"] = [1.0] * 3
        write_cell(run, "federico", *rounds, seed=seed)
        by_itself = [{"figures": {"accuracy": [0.5] * 3}} for _ in rounds]
        write_cell(run, "local", *by_itself, seed=seed)
    kept = folder / "kept"
    kept.mkdir()
    for name in ("table.json", "results.jsonl"):
        shutil.copy(run / name, kept / name)


def test_a_report_without_clients_says_so_and_shows_the_rest(
    tmp_path: Path, open_page: OpenPage
) -> None:
    finished_and_kept(tmp_path)
    whole = frozen_page(tmp_path / "run").split('id="frozen">')[1].split("</script>")[0]
    held = json.loads(whole)["held"]
    room = len(held["run\nrun"]) + len(held["cell\nrun\nfederico-0"]) + 20
    report = tmp_path / "small.html"
    report.write_text(frozen_page(tmp_path / "run", room), encoding="utf-8")

    page = open_page(f"{report.as_uri()}#/cost?run=run&peer=b", offline=True)
    page.get_by_text("This report does not hold that").wait_for()
    page.get_by_label("What bytes buy").wait_for()


def test_sites_of_two_federations_are_not_merged(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    write_site(tmp_path, "north", {"south": member()})
    write_site(tmp_path, "south", {"north": member(here=False)}, phase="finished")
    write_site(tmp_path, "bank", {"shop": member()}, federation="money")
    link = serve(tmp_path)
    page = open_page(link)
    page.get_by_role("heading", name="No runs in this folder, but 3 sites").wait_for()
    page.get_by_role("link", name="Are they well?").click()

    page.get_by_role("heading", name="All 3 sites of 2 federations are well; 1 of them").wait_for()
    seen = page.get_by_role("table", name="Each row: what this site sees in hospitals")
    assert "bank" not in seen.inner_text()
    # A site that has ended looks for nobody, and is not away.
    assert seen.get_by_role("row").count() == 2
    assert page.get_by_role("table", name="Sites in money").get_by_role("row").count() == 2

    # A copy of a folder is another federation of the same name.
    shutil.copytree(tmp_path / "north", tmp_path / "copy" / "north")
    page.get_by_role("table", name="Sites in hospitals in copy").wait_for()


def test_a_mailed_report_opens_without_server_and_network(
    folder: Path, tmp_path: Path, open_page: OpenPage
) -> None:
    mailed = tmp_path / "mailed.html"
    shutil.move(write_report(folder / "one", summarize(folder / "one")), mailed)
    shutil.rmtree(folder)

    page = open_page(mailed.as_uri(), offline=True)
    page.get_by_role("heading", name="Who gains?").wait_for()
    picture(page, "report-desk-light")
    page.get_by_role("link", name="Who learns with whom?").click()
    page.get_by_label("Round", exact=True).fill("0")
    page.get_by_text("round 1 of 2").wait_for()
    page.get_by_role("button", name="a, distribution 0").click()
    page.get_by_role("heading", name="Client a").wait_for()
    for view in ("What does it cost?", "Data"):
        page.get_by_role("link", name=view).click()
        page.get_by_role("heading", name=view).wait_for()
    assert page.title() == f"Data - {EVIL} - FedeRiCo report"
    assert page.locator("main img").count() == 0
