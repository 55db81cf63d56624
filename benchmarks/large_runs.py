"""What large runs cost the page: seconds of the server and of the browser, and bytes of the report.

Usage: python -m benchmarks.large_runs [CLIENTSxROUNDS ...] [--write]

The runs are made up, so that it takes minutes. Everything is cold: each view is the first that a
fresh server and a fresh page show. Seconds of the server are those of its processor; seconds of
the browser are those in which its page was busy, and by the clock until the view is there, which
have the server in them and whatever else the machine does. With --write the figures are stored
beside this file, with how busy the machine was before.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.machine import facts
from federico.report import summarize
from federico.runs.layout import CellDir
from federico.runs.records import Journal, read_last_record
from federico.ui.answers import Answers
from federico.ui.frozen import write_report
from tests.support.browser import FLAGS, home_of
from tests.support.large_runs import write_large_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

STORED = Path(__file__).with_suffix(".json")
SIZES = ("64x400", "1000x40", "1000x400")
RUN = "large"
CELL = "federico-0"
CLIENT = "client 3"
VIEWS = {
    "Runs": "runs",
    "Is it worth it?": f"worth?run={RUN}",
    "Who learns with whom?": f"trust?run={RUN}",
    "one client": f"trust?run={RUN}&client=client+3",
    "What does it cost?": f"cost?run={RUN}",
    "Data": f"data?run={RUN}",
}
# Resolves when the view has been drawn, with the milliseconds since the page was asked for.
WHEN_SHOWN = """() => new Promise((done) => {
  const look = () => {
    const main = document.getElementById("main");
    const isThere = main.querySelector("h1") && !main.innerText.includes("Reading");
    if (isThere) requestAnimationFrame(() => done(performance.now()));
    else requestAnimationFrame(look);
  };
  look();
})"""
# Moves the slider over all rounds, a step in every frame; resolves with the worst frame.
SLIDE = """() => new Promise((done) => {
  const slider = document.getElementById("round");
  const step = Math.max(1, Math.floor(slider.max / 60));
  let worst = 0;
  let before = null;
  slider.value = 0;
  const frame = (now) => {
    if (before !== null) worst = Math.max(worst, now - before);
    before = now;
    if (Number(slider.value) >= Number(slider.max)) { done(worst); return; }
    slider.value = Number(slider.value) + step;
    slider.dispatchEvent(new Event("input"));
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})"""


def measure(clients: int, rounds: int) -> dict[str, Any]:
    """All figures of a run of this size."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        write_large_run(runs / RUN, clients, rounds)
        return {
            "clients": clients,
            "rounds": rounds,
            "load before": os.getloadavg()[0],
            "server": of_the_server(runs),
            "browser": of_the_browser(runs),
            "report": of_the_report(runs),
        }


def of_the_server(runs: Path) -> dict[str, float]:
    """Processor seconds of every question, each of them asked first, and after a new round."""
    answers = Answers(runs)
    found = {
        "runs": _busy(answers.runs),
        "run": _busy(lambda: answers.run(RUN)),
        "cell": _busy(lambda: answers.cell(RUN, CELL)),
        "client": _busy(lambda: answers.client(RUN, CELL, CLIENT)),
    }
    cell = CellDir(runs / RUN / CELL)
    last = read_last_record(cell.path)
    if last is None:
        raise ValueError("the run has no rounds")
    records = cell.path / "records.jsonl"
    size = records.stat().st_size
    Journal(cell.path).append(last)
    found["cell after a new round"] = _busy(lambda: answers.cell(RUN, CELL))
    with records.open("ab") as file:
        file.truncate(size)
    return found


def of_the_browser(runs: Path) -> dict[str, dict[str, float]]:
    """Seconds of every view on a page and a server of its own, and the slider's worst frame."""
    found = {}
    with browser() as chromium:
        for view, address in VIEWS.items():
            with served(runs) as link:
                page = chromium.new_page()
                page.goto(link)
                page.evaluate(WHEN_SHOWN)
                found[view] = first_view(page, f"{home_of(link)}#/{address}")
                if view == "Who learns with whom?":
                    found[view]["worst frame of the slider"] = page.evaluate(SLIDE) / 1000
                page.close()
    return found


def of_the_report(runs: Path) -> dict[str, float]:
    """Seconds to write the page of the report, its bytes, and seconds to open it."""
    run = runs / RUN
    summary = summarize(run)
    began = time.perf_counter()
    path = write_report(run, summary)
    seconds = time.perf_counter() - began
    with browser() as chromium:
        page = chromium.new_page()
        opened = first_view(page, path.as_uri())
    return {"bytes": path.stat().st_size, "seconds to write": seconds} | opened


def first_view(page: "Page", address: str) -> dict[str, float]:
    """Seconds in which the page was busy until the view was there, and by the clock."""
    page.goto("about:blank")
    taken: dict[str, float] = {}

    def show() -> None:
        page.goto(address)
        taken["by the clock"] = page.evaluate(WHEN_SHOWN) / 1000

    return {"busy": busy_seconds(page, show)} | taken


def busy_seconds(page: "Page", work: Callable[[], object]) -> float:
    """Seconds of this work in which the page was busy."""
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable")
    before = _metric(tools.send("Performance.getMetrics"), "TaskDuration")
    work()
    return _metric(tools.send("Performance.getMetrics"), "TaskDuration") - before


def _metric(answer: dict[str, Any], name: str) -> float:
    (value,) = (each["value"] for each in answer["metrics"] if each["name"] == name)
    return float(value)


def _busy(work: Callable[[], object]) -> float:
    """Processor seconds that this takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


@contextmanager
def browser() -> "Iterator[Browser]":
    """A fresh Chromium without a window."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@contextmanager
def served(runs: Path) -> Iterator[str]:
    """The link of a fresh server."""
    command = [sys.executable, "-m", "federico", "ui", str(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None:
            raise ValueError("the server prints no link")
        yield server.stdout.readline().strip()
        server.terminate()
        server.stdout.read()


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_runs")
    parser.add_argument("sizes", nargs="*", default=SIZES)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()

    found = []
    for size in given.sizes:
        clients, rounds = size.split("x")
        figures = measure(int(clients), int(rounds))
        print(json.dumps(_rounded(figures), indent=1), flush=True)
        found.append(figures)
    if given.write:
        _store(found)


def _store(found: list[dict[str, Any]]) -> None:
    """Keep these figures in the place of earlier ones of the same sizes."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    sizes = [(run["clients"], run["rounds"]) for run in found]
    kept = [run for run in stored["runs"] if (run["clients"], run["rounds"]) not in sizes]
    runs = sorted(kept + found, key=lambda run: (run["clients"], run["rounds"]))
    stored |= {"machine": facts(), "runs": runs}
    text = json.dumps(_rounded(stored), indent=1)
    STORED.write_text(text + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    """Three digits are more than such a measurement is good for."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.3g}")
    return value


if __name__ == "__main__":
    main()
