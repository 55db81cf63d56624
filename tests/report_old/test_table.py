import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from federico.report.old.summary import Summary, summarize
from federico.report.old.table import as_json, megabytes, result_table
from federico.runs.layout import RunDir


def printed(summary: Summary) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(result_table(summary))
    return capture.get()


def test_the_table_has_a_row_per_method(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    moved = {"moved": 2_000_000}
    for seed, accuracy in ((0, 0.7), (1, 0.9)):
        write_cell(dict(accuracy=[accuracy] * 3, **moved), seed=seed)
        write_cell({"accuracy": [0.75] * 3}, seed=seed, method="local")
    lines = printed(summarize(RunDir(tmp_path))).splitlines()
    federico = next(line for line in lines if "FedeRiCo" in line and "│" in line)
    assert [cell.strip() for cell in federico.strip("│").split("│")] == [
        "FedeRiCo", "80.0 ± 14.1", "+5.0", "1 of 2", "2.0", "1.0",
    ]  # fmt: skip


def test_an_unfinished_run_says_so_below(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    write_cell(*[{}] * 4, finished=False)
    assert "FedeRiCo with seed 0 is at round 4" in printed(summarize(RunDir(tmp_path)))


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0.0"), (4_600, "0.0046"), (42_424_288, "42.4"), (2e9, "2,000.0")]
)
def test_megabytes(count: float, text: str) -> None:
    assert megabytes(count) == text


def test_json_holds_what_the_table_says(simulated: Path) -> None:
    summary = summarize(RunDir(simulated))
    found = json.loads(json.dumps(as_json(summary), allow_nan=False))
    federico = found["methods"]["federico"]
    assert found["finished"] is True
    assert found["seeds"] == [0, 1]
    assert federico["mean"] == summary.methods[0].mean
    assert federico["by_seed"].keys() == {"0", "1"}
    assert federico["versus_local"]["runs"] == 2
    assert 0 < federico["on_true_friends"] <= 1 + 1e-9
    assert found["methods"]["local"]["versus_local"] is None


def test_json_has_null_for_what_diverged(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    write_cell({"loss": [None] * 3}, task="regression", label_names=[], label_counts=[])
    found = as_json(summarize(RunDir(tmp_path)))
    assert found["methods"]["federico"]["mean"] is None
    json.dumps(found, allow_nan=False)
