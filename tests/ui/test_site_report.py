"""The report of a site is made from its state folder and holds nothing but text of others."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from federico.errors import RunError
from federico.runs.comparison import Comparison
from federico.runs.records import Journal, Record
from federico.site.status import MemberStatus, Status, write_status
from federico.ui.site_report import write_site_report
from tests.support.browser import WIDTHS, OpenPage, picture
from tests.support.reports import held_by

EVIL = "<script>alert(1)</script>"
STATUS = Status(
    federation="heart",
    name="Graz",
    pid=1,
    phase="serving",
    updated=1e9,
    round=2,
    rounds=2,
    figures={"accuracy": 0.757, "loss": 0.5},
    evaluated=2,
    comparison=Comparison(
        alone={"accuracy": 0.712, "loss": 0.6},
        together={"accuracy": 0.76, "loss": 0.5},
        used={"accuracy": 0.757, "loss": 0.5},
        together_share=0.86,
    ),
    posterior={"Graz": 0.0, "Linz": 0.6, "Wels": 0.4},
    members={
        "Linz": MemberStatus(True, None, True, "good", 0, ""),
        "Wels": MemberStatus(False, 1e9, True, "paused", 2, EVIL),
    },
    train_samples=24,
    test_samples=33,
    judged="held_out",
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    write_status(tmp_path, STATUS)
    journal = Journal(tmp_path)
    alone = [{"Graz": 1.0}]
    together = [{"Graz": 0.5, "Linz": 0.3, "Wels": 0.2}]
    for round_index, posterior in enumerate((alone, together), start=1):
        journal.append(
            Record(
                round=round_index,
                figures={"accuracy": [0.7], "loss": [0.5]},
                neighbors=[["Linz"]],
                posterior=posterior,
                sent=[1, 0, 0],
                received=[1, 0, 0],
                moved=1,
                evaluation_sent=[0, 0, 0],
                evaluation_received=[0, 0, 0],
                evaluation_moved=0,
                alone={"accuracy": [0.6], "loss": [0.7]},
                together={"accuracy": [0.7], "loss": [0.7]},
                together_share=[0.9],
                gains=[{"Linz": 2.5, "Graz": -0.5}],
            )
        )
    return tmp_path


def test_the_sentence_says_why_the_own_model_has_no_weight(state: Path) -> None:
    report = write_site_report(state)
    assert report.sentence.startswith(
        "Graz learns with Linz (60 %) and Wels (40 %) and gives its own model no weight because "
        "that model, trained on 24 samples of its own, does worse than a guess"
    )
    own = held_by(report.page)["own"]
    assert report.headline == "Graz in heart: not running (was serving), round 2 of 2"
    assert own["headline"] == report.headline
    assert own["figures"]["title"] == "On its own test data after round 2, 33 samples"
    assert [line[0]["text"] for line in own["members"]["lines"]] == [
        "Graz (this site)",
        "Linz",
        "Wels",
    ]


def test_it_has_the_views_of_a_client_and_of_a_network(state: Path) -> None:
    held = held_by(write_site_report(state).page)
    client = held["own"]["client"]
    assert client["rounds"] == [1, 2]
    assert [series["owner"] for series in client["series"]] == ["Graz", "Linz", "Wels"]
    (move,) = client["moves"]
    assert move["changes"][1] == {"owner": "Linz", "before": 0.0, "after": 0.3}
    assert move["judged"] == [{"owner": "Linz", "gain": 2.5}, {"owner": "Graz", "gain": -0.5}]
    assert client["traffic"][0] == [1, 1]
    (site,) = held["network"]
    assert (site["phase"], site["well"]) == ("not running (was serving)", False)
    assert held["site\nGraz"]["sent"] == [1, 1]


def test_what_others_sent_is_text_and_nothing_is_loaded(state: Path) -> None:
    report = write_site_report(state)
    page = report.page.read_text()
    assert "alert(1)" not in page
    assert EVIL in held_by(report.page)["own"]["members"]["lines"][2][3]["text"]
    assert "default-src 'none'" in page
    loaded = re.findall(r"https?://[^\s\"'`]*", page)
    assert set(loaded) <= {"http://www.w3.org/2000/svg"}


def test_a_person_reads_it_from_disk(state: Path, open_page: OpenPage) -> None:
    page = open_page(write_site_report(state).page.as_uri(), WIDTHS["phone"], "dark", offline=True)
    page.get_by_role("heading", name="Graz in heart: not running (was serving)").wait_for()
    page.get_by_text("After round 2: Graz learns with Linz").wait_for()
    page.get_by_text("that in the model of Linz rose from 0 % to 30 %").wait_for()
    page.get_by_label("Whose models Graz trusts").press("ArrowLeft")
    page.get_by_text("round 2: Graz (its own) 50 %, Linz 30 %, Wels 20 %").wait_for()
    assert page.title() == "This site - Graz - FedeRiCo report"
    assert page.evaluate("document.documentElement.scrollWidth") == WIDTHS["phone"]
    picture(page, "report-site-phone-dark")
    page.get_by_role("link", name="Is the network well?").click()
    page.get_by_role("heading", name="This site is not well").wait_for()
    page.get_by_label("Bytes in each round").wait_for()


def test_a_site_that_has_not_played_yet_has_a_report_without_claims(tmp_path: Path) -> None:
    begun = replace(
        STATUS, phase="joining", round=0, figures={}, evaluated=0, comparison=None, posterior={}
    )
    write_status(tmp_path, begun)
    report = write_site_report(tmp_path)
    own = held_by(report.page)["own"]
    assert report.sentence == ""
    assert own["client"] is None
    assert own["members"]["lines"][1][1]["text"] == "not met yet"


def test_a_folder_without_a_peer_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no peer has been started"):
        write_site_report(tmp_path)


def test_it_needs_no_torch(state: Path) -> None:
    program = (
        "import sys; from pathlib import Path; "
        "from federico.ui.site_report import write_site_report;"
        f"write_site_report(Path({str(state)!r})); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
