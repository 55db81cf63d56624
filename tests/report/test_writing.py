import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from federico.errors import RunError
from federico.report.details import summarize
from federico.report.writing import draw_kept, write_report
from federico.runs.table import write_table
from tests.support.results import make_table
from tests.support.run_folders import learning, write_cell


class Balance(HTMLParser):
    """Finds tags that are not closed in order, and all that is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.shown = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "img", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.shown += data


def read(page: Path) -> str:
    parser = Balance()
    parser.feed(page.read_text(encoding="utf-8"))
    assert parser.open == []
    return " ".join(parser.shown.split())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_table(tmp_path, make_table(rounds=2, title="Tiny <digits>"))
    write_cell(tmp_path, "federico", *learning(0.5, 0.9))
    write_cell(
        tmp_path,
        "local",
        {"figures": {"accuracy": [0.4] * 3}},
        {"figures": {"accuracy": [0.5] * 3}},
    )
    return tmp_path


def test_a_report_is_a_page_with_everything_in_it(run: Path) -> None:
    page = write_report(run, summarize(run))

    shown = read(page)
    assert page == run / "report.html"
    assert "In a single run FedeRiCo is ahead: 90.0 % accuracy" in shown
    assert "Against training alone" in shown
    assert "a learns with b (40 %) and keeps 60 % for its own model." in shown
    assert "federico run made-up.toml" in shown
    assert "optimizer.kind" in shown
    assert page.read_text().count("data:image/png;base64,") == 6


def test_what_a_user_named_cannot_break_the_page(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    write_table(tmp_path, make_table("federico", rounds=1, title=evil))
    write_cell(
        tmp_path,
        "federico",
        {"figures": {"accuracy": [0.5] * 3}},
        clients=[evil, "b", "$x_$"],
        command=f"federico run {evil}",
        label_names=[evil, "yes"],
    )

    page = write_report(tmp_path, summarize(tmp_path))

    assert "<script" not in page.read_text()
    assert evil in read(page)


def test_tables_and_pictures_are_files_too(run: Path) -> None:
    write_report(run, summarize(run))

    assert {file.stem for file in (run / "figures").iterdir()} == {
        "overview", "rounds", "cost", "clients", "collaboration", "partition",
    }  # fmt: skip
    assert "| FedeRiCo | **90.0** | +40.0 (1 of 1) |" in (run / "table.md").read_text()
    assert r"FedeRiCo & \textbf{90.0} & +40.0 (1 of 1)" in (run / "table.tex").read_text()
    assert "federico,federico,,given,0.01,2,0,0.9" in (run / "runs.csv").read_text()


def test_a_run_that_is_going_on_says_so(tmp_path: Path) -> None:
    write_table(tmp_path, make_table(rounds=30))
    write_cell(tmp_path, "federico", *learning(0.5, 0.6), finished=False)

    shown = read(write_report(tmp_path, summarize(tmp_path)))

    assert "Still running: FedeRiCo with seed 0 is at round 2 of 30." in shown
    assert "60.0 (round 2)" in shown


def test_results_without_cells_have_a_report_too(run: Path, tmp_path_factory: object) -> None:
    kept = run.parent / "kept"
    kept.mkdir()
    for name in ("table.json", "results.jsonl"):
        (kept / name).write_bytes((run / name).read_bytes())
    (kept / "figure.png").write_bytes(b"\x89PNG drawn before")

    page = write_report(kept, summarize(kept))

    shown = read(page)
    assert "A figure in the manner of the paper" in shown
    assert "Who learns with whom" not in shown
    assert "Settings" not in shown


def test_kept_results_have_their_overview_and_cost(run: Path, tmp_path: Path) -> None:
    kept = run.parent / "kept-pictures"
    kept.mkdir()
    for name in ("table.json", "results.jsonl"):
        (kept / name).write_bytes((run / name).read_bytes())
    (run / "figure.png").write_bytes(b"\x89PNG drawn from cells")

    draw_kept(kept, run)

    assert {file.name for file in kept.glob("*.png")} == {"overview.png", "cost.png", "figure.png"}


def test_a_disk_that_cannot_be_written_is_named(run: Path) -> None:
    (run / "figures").write_text("in the way")

    with pytest.raises(RunError, match="figures: cannot be written"):
        write_report(run, summarize(run))


def test_a_report_needs_no_torch(run: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from federico.report import summarize, write_report;"
        f"run = Path({str(run)!r}); write_report(run, summarize(run));"
        "sys.exit('torch' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
