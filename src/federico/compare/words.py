"""A study in sentences: what came out, how much was run, and how that differs from the paper."""

from federico.compare.result import Entry, Result
from federico.compare.study import At, Paper
from federico.report.old.summary import FEDERICO, title_of
from federico.report.old.words import count, listed

COST = (
    "Megabytes and processor seconds are of one run: seconds of all cores together, whatever else the machine did, "
    "without evaluation; checkpoints that are written in the background are in them."
)


def headline(result: Result) -> str:
    """The main result in one sentence, at the fairest learning rate there is."""
    at = shown_at(result)
    best = [result.best(column, at) for column in result.columns]
    known = [entry for entry in best if entry is not None]
    if not known:
        return "Not everything was run for as many rounds, so none is called best."
    run = [entry for entry in known if result.entry(FEDERICO, entry.column, at)]
    if len(result.columns) == 1 or not run:
        return " ".join(_winner(result, entry) for entry in known)
    sentence = f"FedeRiCo is best in {sum(entry.row == FEDERICO for entry in run)} of {count(len(run), 'column')}"
    mine = [
        entry
        for column in result.columns
        if (entry := result.entry(FEDERICO, column, at)) and entry.versus
    ]
    if mine:
        sentence += f", {_above(result, mine)}"
    return f"{sentence}."


def shown_at(result: Result) -> At:
    """The best learning rates if they are known, else the given one."""
    return "best" if result.filled("best") else "given"


def extent(result: Result) -> str:
    """How much was run."""
    parts = [
        count(result.clients, "client"),
        _rounds(result),
        count(len(result.seeds), "seed"),
        f"models of {result.model_parameters:,} parameters",
    ]
    return ", ".join(parts)


def beside(result: Result) -> str:
    """What `differences` are differences to: a study of our own is in no paper."""
    ours = result.paper.model_copy(update={"differs": ()}) == Paper()
    return "Not the whole study" if ours else "Not as in the paper"


def differences(result: Result) -> list[str]:
    """Where this is not what the paper did."""
    paper, found = result.paper, list(result.paper.differs)
    if paper.rounds and {paper.rounds} != {entry.rounds for entry in result.entries}:
        found.append(f"{_rounds(result)}; the paper has {paper.rounds}.")
    if paper.runs and paper.runs != len(result.seeds):
        found.append(
            f"{count(len(result.seeds), 'run')} (a seed and a split each); the paper has {paper.runs}."
        )
    given = {entry.rate for entry in result.entries if entry.at == "given"}
    if paper.rate and given - {paper.rate}:
        found.append(f"{rate(result, 'given').capitalize()}; the paper has {paper.rate:g}.")
    if result.unfinished:
        found.append(
            f"{count(result.unfinished, 'run')} of this study {_is(result.unfinished)} not finished."
        )
    return found


def part(result: Result, save: int) -> str:
    """What comes from one save: rows, their columns if not all, at which learning rate."""
    found = {at: _rows(result, save, at) for at in result.at}
    parts = [f"{rows} at the {at} rate" for at, rows in found.items() if rows]
    tuned = [title_of(each.row) for each in result.tuned if each.save == save]
    parts += [f"learning rates chosen for {listed(list(dict.fromkeys(tuned)))}"] if tuned else []
    return "; ".join(parts)


def rate(result: Result, at: At) -> str:
    """Which learning rate a table is for."""
    if at == "best":
        return "each at its own best learning rate"
    used = sorted({entry.rate for entry in result.entries if entry.at == at})
    return f"learning rate {listed([f'{value:g}' for value in used])}"


def notes(result: Result) -> str:
    """How to read the tables."""
    over = "runs" if result.spread == "seeds" else "clients"
    parts = [f"Means over runs; ± is the standard deviation over {over}. The best is in bold."]
    if len({entry.rounds for entry in result.entries}) > 1:
        parts.append(
            "Not everything was run for as many rounds: in a column where rows differ, none is called best."
        )
    if result.reference:
        parts.append(
            f"Against {title_of(result.reference)}: the difference run by run, and in how many runs the row is better."
        )
    if result.tuned:
        after = listed(
            [count(rounds, "round") for rounds in sorted({each.rounds for each in result.tuned})]
        )
        chosen = {(each.row, each.settings) for each in result.tuned}
        each = "row" if len(result.tuned) > len(chosen) else "row and column"
        parts.append(
            f"Best learning rates were chosen after {after} on a validation part of the clients' training data, for "
            f"each {each}; no test data was looked at."
        )
    return " ".join([*parts, COST])


def _rounds(result: Result) -> str:
    """Of all entries: some may have been run for longer than others."""
    *fewer, most = sorted({entry.rounds for entry in result.entries})
    return listed([*map(str, fewer), count(most, "round")])


def _rows(result: Result, save: int, at: At) -> str:
    """The rows that have an entry from this save; those in the same columns are named together."""
    together: dict[tuple[str, ...], list[str]] = {}
    for row in result.rows:
        found = [
            entry
            for column in result.columns
            if (entry := result.entry(row, column, at)) is not None
        ]
        columns = tuple(entry.column for entry in found if save in entry.saves)
        together.setdefault(columns, []).append(title_of(row))
    parts = []
    for columns, rows in together.items():
        named = "all rows" if len(rows) == len(result.rows) else listed(rows)
        parts += (
            [named if len(columns) == len(result.columns) else f"{named} ({listed(columns)})"]
            if columns
            else []
        )
    return ", ".join(parts)


def _winner(result: Result, entry: Entry) -> str:
    metric = result.metric
    reached = (
        f"{metric.text(entry.mean)} accuracy"
        if metric.higher_is_better
        else f"{metric.name} {metric.bare(entry.mean)}"
    )
    sentence = f"{entry.title} is best{f' with {entry.column}' if len(result.columns) > 1 else ''}: {reached}"
    return (
        f"{sentence}, {_above(result, [entry])}."
        if entry.versus and result.reference
        else f"{sentence}."
    )


def _above(result: Result, entries: list[Entry]) -> str:
    """By how much better than the reference, and how often."""
    versus = [entry.versus for entry in entries if entry.versus is not None]
    sizes = listed([result.metric.signed(one.difference) for one in versus])
    better, runs = sum(one.better for one in versus), sum(one.runs for one in versus)
    unit = " points" if result.metric.higher_is_better else ""
    return f"{sizes}{unit} against {title_of(result.reference or '')} (better in {better} of {count(runs, 'run')})"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"
