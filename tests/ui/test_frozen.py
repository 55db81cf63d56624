"""The report: the views of a run in one file."""

import base64
import gzip
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

from federico.report import summarize
from federico.runs.table import write_table
from federico.ui.frozen import frozen_page, write_report
from tests.support.large_runs import write_large_run
from tests.support.reports import held_by
from tests.support.results import make_table
from tests.support.run_folders import learning, write_cell

EVIL = "</script><script>alert(1)</script>"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_table(tmp_path, make_table(rounds=2, title="Tiny <digits>"))
    write_cell(tmp_path, "federico", *learning(0.5, 0.9))
    write_cell(tmp_path, "local", *[{"figures": {"accuracy": [value] * 3}} for value in (0.4, 0.5)])
    return tmp_path


def packed_size(shown: dict[str, Any]) -> int:
    """Bytes of a part of a report as it is packed."""
    text = json.dumps(shown, separators=(",", ":"))
    return len(base64.b64encode(gzip.compress(text.encode(), mtime=0)))


def test_a_report_is_a_page_with_everything_in_it(run: Path) -> None:
    page = write_report(run, summarize(run))

    held = held_by(page)
    shown = held[f"run\n{run.name}"]
    client = held[f"client\n{run.name}\nfederico-0\na"]
    assert page == run / "report.html"
    assert shown["headline"].startswith("In a single run FedeRiCo is ahead: 90.0 % accuracy")
    assert [cell["cell"] for cell in shown["cells"]] == ["federico-0", "local-0"]
    assert shown["sources"][0]["command"] == "federico run made-up.toml"
    assert shown["settings"]["training.optimizer.kind"] == "sgd"
    assert client["sentence"].startswith("a learns with b (40 %) and keeps 60 % for its own model.")


def test_what_clients_gain_is_in_words_and_by_client(tmp_path: Path) -> None:
    write_table(tmp_path, make_table("federico"))
    evaluated = {
        "figures": {"accuracy": [0.8, 0.7, 0.6]},
        "alone": {"accuracy": [0.5] * 3, "loss": [1.0] * 3},
        "together": {"accuracy": [0.9] * 3, "loss": [1.0] * 3},
        "together_share": [0.9] * 3,
    }
    write_cell(tmp_path, "federico", evaluated)

    shown = held_by(write_report(tmp_path, summarize(tmp_path)))[f"run\n{tmp_path.name}"]

    assert "All 3 clients are better off than alone" in shown["worth"][0]
    (row,) = shown["rows"]
    assert [line["client"] for line in row["clients"]] == ["a", "b", "c"]
    assert row["clients"][0]["gain"] == pytest.approx(0.3)


def test_the_same_run_gives_the_same_report(run: Path) -> None:
    first = write_report(run, summarize(run)).read_bytes()

    assert write_report(run, summarize(run)).read_bytes() == first


def test_what_a_user_named_cannot_break_the_page(tmp_path: Path) -> None:
    write_table(tmp_path, make_table("federico", rounds=1, title=EVIL))
    rounds = {"figures": {"accuracy": [0.5] * 3}}
    write_cell(tmp_path, "federico", rounds, clients=[EVIL, "b", "c"], label_names=[EVIL, "yes"])

    page = write_report(tmp_path, summarize(tmp_path))

    assert EVIL not in page.read_text(encoding="utf-8")
    assert EVIL in held_by(page)[f"cell\n{tmp_path.name}\nfederico-0"]["clients"]


def test_a_summary_that_is_known_is_not_made_again(run: Path) -> None:
    known = summarize(run)
    (run / "results.jsonl").unlink()
    page = run / "page.html"

    page.write_text(frozen_page(run, summary=known), encoding="utf-8")

    rows = held_by(page)[f"run\n{run.name}"]["rows"]
    assert [row["name"] for row in rows] == [entry.title for entry in known.entries]


def test_a_run_that_is_going_on_says_so(tmp_path: Path) -> None:
    write_table(tmp_path, make_table(rounds=30))
    write_cell(tmp_path, "federico", *learning(0.5, 0.6), finished=False)

    shown = held_by(write_report(tmp_path, summarize(tmp_path)))[f"run\n{tmp_path.name}"]

    assert shown["progress"] == "Not finished: FedeRiCo with seed 0 is at round 2 of 30."


def test_cells_that_fit_are_held_without_clients_that_do_not(run: Path) -> None:
    page = run / "small.html"
    page.write_text(frozen_page(run), encoding="utf-8")
    whole = held_by(page)
    fitting = packed_size(whole[f"run\n{run.name}"])
    fitting += packed_size(whole[f"cell\n{run.name}\nfederico-0"])

    page.write_text(frozen_page(run, fitting + 20), encoding="utf-8")
    held = held_by(page)

    assert f"client\n{run.name}\nfederico-0\na" in whole
    assert [key.partition("\n")[0] for key in held] == ["cell", "run"]
    assert held[f"run\n{run.name}"]["without_clients"] == 1
    assert held[f"run\n{run.name}"]["left_out"] == 1


def test_clients_that_do_not_fit_are_held_with_fewer_rounds(tmp_path: Path) -> None:
    run = tmp_path / "long"
    write_large_run(run, 8, 100)
    page = run / "small.html"
    page.write_text(frozen_page(run), encoding="utf-8")
    whole = held_by(page)
    name = f"client\n{run.name}\nfederico-0\nclient 3"
    clients = sum(packed_size(whole[key]) for key in whole if key.startswith("client\n"))
    assert whole[f"run\n{run.name}"]["thinned"] == 1
    assert whole[name]["rounds"] == list(range(1, 101))

    others = sum(packed_size(whole[key]) for key in whole if not key.startswith("client\n"))
    page.write_text(frozen_page(run, others + clients * 7 // 10), encoding="utf-8")
    held = held_by(page)
    assert held[f"run\n{run.name}"]["without_clients"] == 0
    assert held[f"run\n{run.name}"]["thinned"] == 2
    assert held[name]["rounds"] == [*range(1, 100, 2), 100]


def test_results_without_cells_have_a_report_too(run: Path) -> None:
    kept = run.parent / "kept"
    kept.mkdir()
    for name in ("table.json", "results.jsonl"):
        (kept / name).write_bytes((run / name).read_bytes())
    Image.new("RGB", (4, 4), "white").save(kept / "figure.png")

    held = held_by(write_report(kept, summarize(kept)))

    assert list(held) == ["run\nkept"]
    assert held["run\nkept"]["cells"] == []
    figure = held["run\nkept"]["figure"]
    assert "in the manner of the paper" in figure["caption"]
    assert figure["dark"] != figure["address"], "no white square in a dark page"


def test_a_picture_that_is_too_large_stays_beside_the_report(run: Path) -> None:
    noise = Image.frombytes("RGB", (300, 300), Random(0).randbytes(270_000))
    noise.save(run / "figure.png")
    page = run / "small.html"

    page.write_text(frozen_page(run, 1_000_000))
    assert held_by(page)[f"run\n{run.name}"]["figure"] is None
    page.write_text(frozen_page(run, 4_000_000))
    assert held_by(page)[f"run\n{run.name}"]["figure"] is not None


def test_a_damaged_picture_hides_nothing_else(run: Path) -> None:
    (run / "figure.png").write_bytes(b"\x89PNG cut off")

    page = run / "small.html"
    page.write_text(frozen_page(run))

    assert held_by(page)[f"run\n{run.name}"]["figure"] is None


def test_a_cell_that_has_only_begun_is_not_offered(run: Path) -> None:
    write_cell(run, "federico", seed=1, finished=False)

    shown = held_by(write_report(run, summarize(run)))[f"run\n{run.name}"]

    assert [cell["cell"] for cell in shown["cells"]] == ["federico-0", "local-0"]


def test_a_report_needs_no_torch(run: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from federico.report import summarize;"
        "from federico.ui.frozen import frozen_page, write_report;"
        f"run = Path({str(run)!r}); write_report(run, summarize(run));"
        "sys.exit('torch' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
