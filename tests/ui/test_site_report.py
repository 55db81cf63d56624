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
        "Wels": MemberStatus(False, 1e9, True, "paused", 2, "<script>alert(1)</script>"),
    },
    train_samples=24,
    test_samples=33,
    judged="held_out",
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    write_status(tmp_path, STATUS)
    journal = Journal(tmp_path)
    for round_index in (1, 2):
        journal.append(
            Record(
                round=round_index,
                figures={"accuracy": [0.7], "loss": [0.5]},
                neighbors=[["Linz"]],
                posterior=[{"Graz": 0.5, "Linz": 0.3, "Wels": 0.2}],
                sent=[1, 0, 0],
                received=[1, 0, 0],
                moved=1,
                evaluation_sent=[0, 0, 0],
                evaluation_received=[0, 0, 0],
                evaluation_moved=0,
                alone={"accuracy": [0.6], "loss": [0.7]},
                together={"accuracy": [0.7], "loss": [0.7]},
                together_share=[0.9],
            )
        )
    return tmp_path


def test_the_sentence_says_why_the_own_model_has_no_weight(state: Path) -> None:
    report = write_site_report(state)
    assert report.sentence.startswith(
        "Graz learns with Linz (60 %) and Wels (40 %) and gives its own model no weight because "
        "that model, trained on 24 samples of its own, does worse than a guess"
    )
    page = report.page.read_text()
    assert report.headline == "Graz in heart: not running (was serving), round 2 of 2"
    assert "gives its own model no weight because" in page
    assert "On its own test data after round 2, 33 samples" in page


def test_what_others_sent_is_text_and_nothing_is_loaded(state: Path) -> None:
    page = write_site_report(state).page.read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
    assert not re.search(r"https?://", page)


def test_on_a_phone_each_figure_has_its_heading_beside_it(state: Path) -> None:
    page = write_site_report(state).page.read_text()
    for heading in ("with collaborators", "presence", "reputation", "received"):
        assert f'<td data-heading="{heading}">' in page
    assert page.count('<table class="stacked">') == page.count("<table") == 3


def test_every_picture_has_one_for_a_dark_page(state: Path) -> None:
    page = write_site_report(state).page.read_text()
    light = re.findall(r'<img src="(data:image/png[^"]+)"', page)
    dark = re.findall(r'prefers-color-scheme: dark\)" srcset="(data:image/png[^"]+)"', page)
    assert len(light) == len(dark) == 2
    assert not set(light) & set(dark)


def test_a_site_that_has_not_played_yet_has_a_report_without_claims(tmp_path: Path) -> None:
    begun = replace(
        STATUS, phase="joining", round=0, figures={}, evaluated=0, comparison=None, posterior={}
    )
    write_status(tmp_path, begun)
    report = write_site_report(tmp_path)
    assert report.sentence == ""
    assert "not met yet" in report.page.read_text()


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
