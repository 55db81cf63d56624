"""What the pages of methods say was measured, written from `results/digits-methods`.

A page has a line `<!-- measured: NAME -->`, a sentence or a table, and a line `<!-- end -->`; what
stands between the two is written by `docs/generate.py`.
"""

import re
from pathlib import Path

from federico.report.details import summarize
from federico.report.entry import Difference, Entry
from federico.report.table_summary import Summary

BLOCK = re.compile(r"(<!-- measured: ([a-z_]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
TABLE = "table"
"""The block that holds all methods side by side; others hold a sentence about one method."""
RESULTS = "digits-methods"
OURS = "federico"
ALONE = "local"


def with_measured_figures(page: Path, results: Path) -> str:
    """The text of a page, its figures as they are in the results."""
    text = page.read_text(encoding="utf-8")
    if not BLOCK.search(text):
        return text

    summary = summarize(results / RESULTS)

    def written(block: re.Match[str]) -> str:
        first_line, name, _, last_line = block.groups()
        content = _table(summary) if name == TABLE else _sentence(summary, name)
        return f"{first_line}{content}\n{last_line}"

    return BLOCK.sub(written, text)


def _sentence(summary: Summary, method: str) -> str:
    entry = _entry(summary, method)
    if method == ALONE:
        return f"{entry.title} {_figure(entry)}, {_megabytes(entry)} MB moved."

    alone = _entry(summary, ALONE)
    versus = _against_alone(entry)
    told = (
        f"{entry.title} {_figure(entry)}, training alone {_figure(alone)}: "
        f"better in {versus.better} of {versus.runs} runs, {_megabytes(entry)} MB moved"
    )
    if method == OURS:
        return f"{told}."
    ours = _entry(summary, OURS)
    return f"{told} ({ours.title} {_figure(ours)}, {_megabytes(ours)} MB)."


def _table(summary: Summary) -> str:
    lines = [
        "| | accuracy | against training alone | better in | MB moved |",
        "|---|---|---|---|---|",
    ]
    for entry in sorted(summary.entries, key=summary.rank, reverse=True):
        method = entry.row.method
        title = entry.title
        if method != OURS:
            title = f"[{title}](explanation-method-{method}.md)"

        figure = _figure(entry)
        if entry is summary.best(entry.column, entry.rate_kind):
            figure = f"**{figure}**"

        points, better = "", ""
        if method != ALONE:
            versus = _against_alone(entry)
            points = f"{100 * versus.mean:+.1f}".replace("-", "\N{MINUS SIGN}")
            better = f"{versus.better} of {versus.runs}"
        lines.append(f"| {title} | {figure} | {points} | {better} | {_megabytes(entry)} |")
    return "\n".join(lines)


def _entry(summary: Summary, method: str) -> Entry:
    for entry in summary.entries:
        if entry.row.method == method:
            return entry
    raise ValueError(f"results/{RESULTS} has no {method}")


def _against_alone(entry: Entry) -> Difference:
    if entry.versus is None:
        raise ValueError(f"results/{RESULTS}: {entry.title} is not compared with training alone")
    return entry.versus


def _figure(entry: Entry) -> str:
    """The mean accuracy in %, and its standard deviation over seeds."""
    spread = entry.sd("seeds")
    if spread is None:
        raise ValueError(f"results/{RESULTS}: {entry.title} has one seed only")
    mean_percent = 100 * entry.mean
    spread_percent = 100 * spread
    return f"{mean_percent:.1f} ± {spread_percent:.1f}"


def _megabytes(entry: Entry) -> str:
    megabytes = entry.bytes_moved[-1] / 1e6
    if megabytes == 0:
        return "0"
    return f"{megabytes:.1f}"
