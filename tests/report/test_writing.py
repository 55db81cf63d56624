from pathlib import Path

import pytest
from PIL import Image

from federico.errors import RunError
from federico.report.details import summarize
from federico.report.writing import draw_kept, write_tables_and_pictures
from federico.runs.table import write_table
from tests.support.results import make_table
from tests.support.run_folders import learning, write_cell


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


def test_tables_and_pictures_are_files_too(run: Path) -> None:
    write_tables_and_pictures(run, summarize(run))

    names = {"overview", "rounds", "cost", "clients", "collaboration", "partition"}
    for_dark_pages = {f"{name}-dark" for name in names}
    assert {file.stem for file in (run / "figures").iterdir()} == names | for_dark_pages
    for_papers = {file.stem for file in (run / "figures").glob("*.pdf")}
    assert for_papers == names
    for name in for_papers:
        paper = (run / "figures" / f"{name}.pdf").read_bytes()
        assert paper.startswith(b"%PDF")
        assert b"/Type3" not in paper  # fonts that journals refuse
    assert "| FedeRiCo | **90.0** | +40.0 (1 of 1) |" in (run / "table.md").read_text()
    assert r"FedeRiCo & \textbf{90.0} & +40.0 (1 of 1)" in (run / "table.tex").read_text()
    assert "federico,federico,,given,0.01,2,0,0.9" in (run / "runs.csv").read_text()


def test_kept_results_have_their_overview_and_cost(run: Path, tmp_path: Path) -> None:
    kept = run.parent / "kept-pictures"
    kept.mkdir()
    for name in ("table.json", "results.jsonl"):
        (kept / name).write_bytes((run / name).read_bytes())
    Image.new("RGB", (4, 4), "white").save(run / "figure.png")

    draw_kept(kept, run)

    drawn = {"overview", "overview-dark", "cost", "cost-dark", "figure", "figure-dark"}
    assert {file.stem for file in kept.glob("*.png")} == drawn


def test_a_disk_that_cannot_be_written_is_named(run: Path) -> None:
    (run / "figures").write_text("in the way")

    with pytest.raises(RunError, match="figures: cannot be written"):
        write_tables_and_pictures(run, summarize(run))
