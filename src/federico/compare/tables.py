"""The tables of a study: laid out once, written as Markdown, LaTeX or CSV."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from federico.compare import words
from federico.compare.result import Entry, Result
from federico.compare.study import At
from federico.compare.tuning import Tuned
from federico.report.old.summary import title_of
from federico.report.old.table import megabytes
from federico.report.old.words import count, percent

NOTHING = "-"
PAPER, MOVED, SECONDS = "paper", "MB moved", "processor s"


@dataclass(frozen=True)
class TableCell:
    """What stands in one place of a table."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Grid:
    """A table, the names of its rows first."""

    title: str
    headings: list[str]
    lines: list[list[TableCell]]


Show = Callable[[Entry], TableCell]


def grids(result: Result) -> list[Grid]:
    """For each learning rate the figures beside the paper's, the differences, and what it cost."""
    layout = _wide if len(result.columns) == 1 else _long
    return [grid for at in result.at if result.filled(at) for grid in layout(result, at)]


def tuning(result: Result) -> list[Grid]:
    """How the best learning rates were chosen, if they were: every rate's figure on the validation parts."""
    rates = list(dict.fromkeys(rate for each in result.tuned for rate in each.scores))
    columns = Counter((each.row, each.settings) for each in result.tuned)
    once = {(each.row, each.settings): each for each in result.tuned}
    lines = [
        [
            TableCell(
                title_of(each.row)
                + (f", {each.column}" if each.column and columns[of] == 1 else "")
            ),
            *(_tried(result, each, rate) for rate in rates),
        ]
        for of, each in once.items()
    ]
    heading = (
        f"How learning rates were chosen: {result.metric.axis} on the clients' validation parts"
    )
    return [Grid(heading, ["", *(f"{rate:g}" for rate in rates)], lines)] if lines else []


def markdown(grid: Grid) -> str:
    """For a page; the title is left to it."""
    lines = [grid.headings, ["---", *["---:"] * (len(grid.headings) - 1)]]
    lines += [[f"**{p.text}**" if p.bold else p.text for p in line] for line in grid.lines]
    return (
        "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
        + "\n"
    )


def latex(grid: Grid) -> str:
    """With the rules of the package booktabs."""
    lines = [
        [rf"\textbf{{{_tex(p.text)}}}" if p.bold else _tex(p.text) for p in line]
        for line in grid.lines
    ]
    body = [rf"{' & '.join(line)} \\" for line in lines]
    head = rf"{' & '.join(map(_tex, grid.headings))} \\"
    columns = "l" + "r" * (len(grid.headings) - 1)
    parts = [
        f"% {grid.title}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
    ]
    return "\n".join([*parts, r"\bottomrule", r"\end{tabular}"]) + "\n"


def as_csv(result: Result) -> str:
    """One line per run, for programs."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        [
            "row",
            "method",
            "column",
            "at",
            "learning_rate",
            "seed",
            result.metric.name.replace(" ", "_"),
        ]
    )
    for entry in result.entries:
        for seed, value in entry.by_seed.items():
            writer.writerow(
                [entry.row, entry.method, entry.column, entry.at, entry.rate, seed, value]
            )
    return buffer.getvalue()


def _wide(result: Result, at: At) -> list[Grid]:
    """A single column: everything about a row side by side."""
    column = result.columns[0]
    shown: dict[str, Show] = {result.metric.axis: lambda entry: _figure(result, entry)}
    if _paper_knows(result, column):
        shown[PAPER] = lambda entry: _paper(result, entry.row, column)
    if result.reference:
        shown[f"against {title_of(result.reference)}"] = lambda entry: _versus(result, entry)
    if any(entry.trust for entry in result.entries):
        shown["models used"] = _models
    if any(entry.trust and entry.trust.on_friends is not None for entry in result.entries):
        shown["on own distribution"] = _friends
    if at == "best":
        shown["learning rate"] = _rate
    shown |= {MOVED: lambda entry: _cost([entry])[0], SECONDS: lambda entry: _cost([entry])[1]}
    lines = [
        [
            _name(row),
            *(
                show(entry) if (entry := result.entry(row, column, at)) else TableCell(NOTHING)
                for show in shown.values()
            ),
        ]
        for row in result.rows
    ]
    heading = result.metric.name.capitalize()
    return [Grid(f"{heading}, {words.rate(result, at)}", ["", *shown], lines)]


def _long(result: Result, at: At) -> list[Grid]:
    heading, rate = result.metric.axis[0].upper() + result.metric.axis[1:], words.rate(result, at)
    return [_figures(result, at, f"{heading}, {rate}"), _more(result, at, f"Gain and cost, {rate}")]


def _figures(result: Result, at: At, title: str) -> Grid:
    """Ours, and the paper's beside it."""
    headings, lines = [""], [[_name(row)] for row in result.rows]
    for column in result.columns:
        headings.append(column)
        both = _paper_knows(result, column)
        headings += [PAPER] * both
        for line, row in zip(lines, result.rows, strict=True):
            entry = result.entry(row, column, at)
            line.append(_figure(result, entry) if entry else TableCell(NOTHING))
            if both:
                line.append(_paper(result, row, column))
    return Grid(title, headings, lines)


def _more(result: Result, at: At, title: str) -> Grid:
    """Differences to the reference in every column, learning rates if they were chosen, and the cost of one run."""
    headings, lines = [""], [[_name(row)] for row in result.rows]
    if result.reference:
        headings += [f"{column}, against {title_of(result.reference)}" for column in result.columns]
    headings += [*(["learning rates"] if at == "best" else []), MOVED, SECONDS]
    for line, row in zip(lines, result.rows, strict=True):
        found = [result.entry(row, column, at) for column in result.columns]
        if result.reference:
            line.extend(_versus(result, entry) if entry else TableCell(NOTHING) for entry in found)
        if at == "best":
            rates = [f"{entry.rate:g}" if entry else NOTHING for entry in found]
            line.append(TableCell(", ".join(rates) if any(found) else NOTHING))
        line.extend(_cost([entry for entry in found if entry]))
    return Grid(title, headings, lines)


def _cost(entries: Sequence[Entry]) -> list[TableCell]:
    """Megabytes and processor seconds of one run, mean over columns."""
    if not entries:
        return [TableCell(NOTHING), TableCell(NOTHING)]
    moved, seconds = (
        float(np.mean([getattr(entry, what)[-1] for entry in entries]))
        for what in ("bytes_moved", "processor_seconds")
    )
    return [TableCell(megabytes(moved)), TableCell(f"{seconds:,.1f}")]


def _name(row: str) -> TableCell:
    return TableCell(title_of(row))


def _figure(result: Result, entry: Entry) -> TableCell:
    best = result.best(entry.column, entry.at)
    text = result.metric.bare(entry.mean) + result.metric.spread(entry.sd(result.spread))
    runs = (
        [f"{len(entry.by_seed)} of {len(result.seeds)}"]
        if len(entry.by_seed) < len(result.seeds)
        else []
    )
    rounds = [count(entry.rounds, "round")] if entry.rounds != result.rounds else []
    remarks = f" ({', '.join([*runs, *rounds])})" if runs or rounds else ""
    return TableCell(text + remarks, bold=entry is best)


def _tried(result: Result, tuned: Tuned, rate: float) -> TableCell:
    score = tuned.scores.get(rate)
    return TableCell(
        NOTHING if score is None else result.metric.bare(score), bold=rate == tuned.rate
    )


def _paper_knows(result: Result, column: str) -> bool:
    return any(column in values for values in result.paper.values.values())


def _paper(result: Result, row: str, column: str) -> TableCell:
    found = result.paper.values.get(row, {}).get(column)
    return TableCell(NOTHING if found is None else f"{found[0]:.1f} ± {found[1]:.1f}")


def _versus(result: Result, entry: Entry) -> TableCell:
    versus = entry.versus
    return TableCell(
        f"{result.metric.signed(versus.difference)} ({versus.better} of {versus.runs})"
        if versus
        else ""
    )


def _rate(entry: Entry) -> TableCell:
    return TableCell(f"{entry.rate:g}")


def _models(entry: Entry) -> TableCell:
    return TableCell(f"{entry.trust.collaborators:.1f}" if entry.trust else "")


def _friends(entry: Entry) -> TableCell:
    friends = entry.trust.on_friends if entry.trust else None
    return TableCell("" if friends is None else percent(friends))


def _tex(text: str) -> str:
    for plain, escaped in (
        ("\\", r"\textbackslash "), ("&", r"\&"), ("%", r"\%"), ("#", r"\#"), ("_", r"\_"), ("$", r"\$"),
        ("±", r"$\pm$"), ("\N{MINUS SIGN}", "$-$"),
    ):  # fmt: skip
        text = text.replace(plain, escaped)
    return text
