"""The benchmark pages of the documentation, made from what is stored.

Usage: python -m benchmarks.page
"""

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from benchmarks import made_data, made_data_page, pictures, tables, ten_thousand
from benchmarks.machine import SIZE
from benchmarks.rows import ROWS
from benchmarks.store import ROOT, Results
from benchmarks.tables import Measured, Table
from benchmarks.workloads import WORKLOADS
from federico.report.section import picture
from federico.report.writing import publish_picture

DOCS = ROOT / "docs"
NAME = "reference-benchmarks.md"
HEAD = """# Reference: benchmarks

<!-- Written by benchmarks/page.py from benchmarks/results; change it there. -->

`make bench` measures all rows and writes this page; `make bench-check` measures again and fails where a ratio got worse
than the stored one by more than its spread; `python -m benchmarks.run ROW` measures one row alone.

{measured}
"""
MEASURED = """Measured on: {machine}.
Every figure is the median over fresh processes ({repeats} a row) with the range in brackets; the rows took turns.
Seconds are of one machine; ratios, taken within one process and minute, are what carries over."""
NOTHING = "**Nothing is stored yet.**"
WHO = """## What is compared

- **federico**: whole rounds as `federico run` plays them, from sampling to the checkpoint, with evaluation of every
  client every round, and with the copy for a checkpoint, which a run makes every ten seconds or so; the checkpoint
  before it is on the disk (what writing takes from a round, in the background, is left out). What is no phase is in
  "whole round" all the same.
- **The limit**: the rate of plain float32 matrix products of {size} x {size} on the same threads, the median of bursts
  before, between and after the measured rounds. Only the useful arithmetic of E-step and M-step counts.
- **The bare loop**: E-step and M-step of the same visits, with data preloaded in channels-last memory, one model and
  one fused Adam; no model is loaded, kept or sent.
- **The plain twin**: the same round as the field writes it, one client, one model and one batch after the other, with a
  DataLoader and copies of state dicts, in a process of its own. Its losses agree with federico's to rounding, which
  every measurement checks; after training a little less, because Adam makes steps of rounding too.

| row | size |
|---|---|
{sizes}
"""


TEN_THOUSAND = """## Ten thousand clients

One run of FedeRiCo with its default settings: {clients} clients of the sine curve with a linear model, {rounds} rounds to
the end, and its report (`python -m benchmarks.ten_thousand --rounds {rounds} --store`; {machine}).
The goals are those of 100 rounds. A round leaves {record_megabytes:.2f} MB of records on average, and whether these reach their goal
is said of 100 rounds. The cores were shared with other work: that makes seconds by the clock several times as long, and
those of the processor somewhat longer than on a machine of its own.
"""


@dataclass(frozen=True)
class Section:
    """A part of the page; left out where nothing of it was measured."""

    title: str
    tables: list[Table]
    picture: str = ""
    draw: Callable[[Measured], Figure] | None = None

    def markdown(self) -> str:
        """Picture first."""
        image = [picture(self.picture.removesuffix(".png"), self.title)] if self.picture else []
        captions = len(self.tables) > 1
        found = [f"{table.title}:\n\n" * captions + table.markdown() for table in self.tables]
        return "\n".join([f"## {self.title}\n", *image, *found])


def sections(measured: Measured) -> list[Section]:
    """Those that have something to show."""
    every = [
        Section("Goals", [tables.goals(measured)], "benchmarks-goals.png", pictures.goals),
        Section(
            "Where the time goes",
            [tables.phases(measured)],
            "benchmarks-phases.png",
            pictures.phases,
        ),
        Section("Against the others", [tables.others(measured), tables.ratios(measured)]),
        Section("Growth", [tables.growth(measured)], "benchmarks-growth.png", pictures.growth),
    ]
    return [section for section in every if section.tables[0].rows]


def text(measured: Measured, results: Results) -> str:
    """The page."""
    parts = [section.markdown() for section in sections(measured)]
    return "\n".join(
        [_head(measured, results), *parts[:1], _who(), *parts[1:], *_ten_thousand(results)]
    )


def stored() -> tuple[Measured, Results]:
    """All rows that were measured, in the order of the suite."""
    results = Results()
    return {row: results.measurements(row) for row in ROWS if row in results}, results


def write() -> None:
    """The pages and their pictures."""
    kept = made_data.Kept.read(made_data.STORED)
    (DOCS / made_data_page.NAME).write_text(made_data_page.text(kept), encoding="utf-8")
    measured, results = stored()
    (DOCS / NAME).write_text(text(measured, results), encoding="utf-8")
    for section in sections(measured):
        if section.draw is not None:
            publish_picture(DOCS, section.picture.removesuffix(".png"), section.draw(measured))


def _ten_thousand(results: Results) -> list[str]:
    """The section about one large run, if it was measured."""
    if ten_thousand.ROW not in results:
        return []
    figures = results.measurements(ten_thousand.ROW)[0]
    machine = ", ".join(
        f"{key} {value}" for key, value in results.machine(ten_thousand.ROW).items()
    )
    text = TEN_THOUSAND.format(
        clients=f"{figures['clients']:,}",
        rounds=figures["rounds"],
        machine=machine,
        record_megabytes=figures["record_bytes"] / figures["rounds"] / 1e6,
    )
    return [text, ten_thousand.table(figures).markdown()]


def _head(measured: Measured, results: Results) -> str:
    if not measured:
        return HEAD.format(measured=NOTHING)
    machines = {
        ", ".join(f"{key} {value}" for key, value in results.machine(row).items())
        for row in measured
    }
    repeats = sorted({len(runs) for runs in measured.values()})
    said = MEASURED.format(
        machine="; ".join(sorted(machines)), repeats=" or ".join(map(str, repeats))
    )
    return HEAD.format(measured=said)


def _who() -> str:
    return WHO.format(
        size=SIZE, sizes="\n".join(f"| {work.title} | {work.note} |" for work in WORKLOADS.values())
    )


if __name__ == "__main__":
    write()
