"""Results in sentences: the main result, how much was run, who learns with whom."""

from collections.abc import Iterator, Mapping, Sequence

from federico.report.aggregate import Command, Entry, Pending, ResultSource, Summary
from federico.runs.table import ReportedValues, ShownRate

COLLABORATOR = 0.01
"""Posterior weight from which a peer is named as a collaborator."""
MOST_NAMED = 5
MOST_CLIENTS = 100
NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
COST = (
    "Megabytes and processor seconds are for one run: all messages that training needs, each "
    "counted once, and the seconds of all cores together, without evaluation; checkpoints that are "
    "written in the background are included."
)


def headline(summary: Summary, *, short: bool = False) -> str:
    """The main result in one sentence; `short` for the title of a picture."""
    if not summary.entries:
        return "Nothing has been evaluated yet."
    winners = _winners(summary)
    if not winners:
        return "Rows were run for different numbers of rounds, so none is called best."
    if len(winners) == 1:
        return _winner(summary, winners[0], short=short)

    # Several columns: the row that wins most of them, of equals the first.
    wins: dict[str, int] = {}
    for winner in winners:
        wins[winner.title] = wins.get(winner.title, 0) + 1
    title = max(wins, key=lambda name: wins[name])
    sentence = f"{title} is best in {wins[title]} of {count(len(winners), 'column')}"

    own = [
        entry
        for column in summary.table.columns
        for entry in summary.column(column, summary.shown_rate)
        if entry.title == title and entry.versus is not None
    ]
    if own:
        sentence += f": {_against_reference(summary, own)}"
    return f"{sentence}."


def _winners(summary: Summary) -> list[Entry]:
    """The best row of every column that has one."""
    found = [summary.best(column, summary.shown_rate) for column in summary.table.columns]
    return [entry for entry in found if entry is not None]


def _winner(summary: Summary, best: Entry, *, short: bool) -> str:
    """The best row of a single column, and how far it is above the reference."""
    metric = summary.metric
    reached = f"a {metric.name} of {metric.bare(best.mean)}"
    if metric.higher_is_better:
        reached = f"{metric.text(best.mean)} accuracy"
    if not short:
        reached += " on the clients' own test data"

    alone = len(summary.column(best.column, best.rate_kind)) == 1
    sentence = f"{best.title} reaches {reached}" if alone else f"{best.title} is best: {reached}"
    if len(summary.table.columns) > 1:
        sentence += f" ({best.column})"
    if best.versus is not None:
        sentence += f", {_against_reference(summary, [best])}"
    return f"{sentence}."


def _against_reference(summary: Summary, entries: Sequence[Entry]) -> str:
    """How far above or below the reference these entries are, and how often better."""
    means = []
    better = 0
    runs = 0
    for entry in entries:
        if entry.versus is not None:
            means.append(entry.versus.mean)
            better += entry.versus.better
            runs += entry.versus.runs

    metric = summary.metric
    reference = summary.reference_title
    often = f"better in {better} of {count(runs, 'run')}"
    if len(means) > 1:
        sizes = listed([metric.signed(mean) for mean in means])
        unit = " points" if metric.higher_is_better else ""
        return f"{sizes}{unit} against {reference} ({often})"

    (mean,) = means
    if mean == 0:
        return f"the same as {reference} ({often})"
    side = "above" if mean > 0 else "below"
    return f"{metric.distance(mean)} {side} {reference} ({often})"


def trust(summary: Summary) -> str:
    """Where the posteriors lie; empty where no row of the first column has any."""
    column = summary.table.columns[0]
    weighed = [
        entry
        for entry in summary.column(column, summary.shown_rate)
        if entry.effective_collaborators is not None
    ]
    if not weighed:
        return ""
    weighed.sort(key=lambda entry: entry.row.method != "federico")
    shown = weighed[0]
    sentence = (
        f"With {shown.title}, a client predicts with {shown.effective_collaborators:.1f} models "
        "on average"
    )
    if shown.on_own_distribution is not None:
        share = percent(shown.on_own_distribution)
        sentence += f", and {share} of its trust lies on clients of its own distribution"
    return f"{sentence}."


def progress(summary: Summary) -> str:
    """What is still going on; empty where nothing is."""
    if not summary.pending:
        return ""
    named = []
    for cell in summary.pending[:MOST_NAMED]:
        named.append(_progress_of(summary, cell))
    more = len(summary.pending) - MOST_NAMED
    if more > 0:
        named.append(f"{more} more")
    return f"Still running: {listed(named)}."


def _progress_of(summary: Summary, cell: Pending) -> str:
    name = cell.row.title
    if cell.column:
        name += f", {cell.column}"
    done = f"is at round {cell.round_index} of {summary.table.rounds}"
    if cell.rate_kind == "tuning":
        done = f"has tuned for {count(cell.round_index, 'round')}"
    return f"{name} with seed {cell.seed} {done}"


def extent(summary: Summary) -> str:
    """How much was run."""
    seeds = {seed for entry in summary.entries for seed in entry.by_seed}
    parts = [count(summary.clients, "client")]
    if summary.entries:
        parts.append(_rounds(summary))
    parts.append(count(len(seeds), "seed"))
    parts.append(f"models of {summary.model_parameters:,} parameters")
    return ", ".join(parts)


def notes(summary: Summary) -> str:
    """How to read the tables."""
    parts = ["Each client is tested on its own test data and counts by the size of its data."]
    if any(entry.sd(summary.table.spread) for entry in summary.entries):
        over = "runs" if summary.table.spread == "seeds" else "clients"
        parts.append(f"Figures are means over runs; ± is the standard deviation over {over}.")
    if len(summary.table.rows) > 1:
        parts.append("The best is in bold.")
    if len({entry.rounds for entry in summary.entries}) > 1:
        parts.append(
            "Rows were run for different numbers of rounds: in a column where they differ, none "
            "is called best."
        )
    if summary.reference_title:
        parts.append(
            f"Against {summary.reference_title}: the difference seed by seed after equal rounds, "
            "and in how many runs the row is better."
        )
    if summary.tuned:
        parts.append(_how_tuned(summary))
    if summary.stored_as_means:
        parts.append(stored_as_means(summary))
    return " ".join([*parts, COST])


def stored_as_means(summary: Summary) -> str:
    """Says which figures were stored as means over seeds, from before results were kept by run."""
    which = "All figures here were"
    if len(summary.stored_as_means) < len(summary.entries):
        which = "Figures marked * were"
    return (
        f"{which} stored as a mean over runs, with each run's end result, before results were "
        "kept run by run; they stay marked until they are measured again."
    )


def _how_tuned(summary: Summary) -> str:
    lengths = {tuned.rounds for tuned in summary.tuned}
    after = listed([count(rounds, "round") for rounds in sorted(lengths)])
    rows = {tuned.row.name for tuned in summary.tuned}
    each = "row and column" if len(summary.tuned) > len(rows) else "row"
    return (
        f"Best learning rates were chosen after {after} on a validation part of the clients' "
        f"training data, for each {each}; no test data was looked at."
    )


def rate(summary: Summary, rate_kind: ShownRate) -> str:
    """Which learning rate a table is for."""
    if rate_kind == "best":
        return "each at its own best learning rate"
    used = {entry.rate for entry in summary.entries if entry.rate_kind == rate_kind}
    in_order = [f"{rate:g}" for rate in sorted(used)]
    return f"learning rate {listed(in_order)}"


def beside(summary: Summary) -> str:
    """What `differences` are differences to: an experiment of one's own is in no paper."""
    paper = summary.table.paper.model_copy(update={"differs": ()})
    if paper == ReportedValues():
        return "Not the whole experiment"
    return "Not as in the paper"


def differences(summary: Summary) -> list[str]:
    """Where this is not what the paper did, or not all that was asked for."""
    table = summary.table
    paper = table.paper
    found = list(paper.differs)

    if paper.rounds and {paper.rounds} != {entry.rounds for entry in summary.entries}:
        found.append(f"{_rounds(summary)}; the paper has {paper.rounds}.")

    runs = len(table.seeds)
    if paper.runs and paper.runs != runs:
        found.append(f"{count(runs, 'run')} (a seed and a split each); the paper has {paper.runs}.")

    given = {entry.rate for entry in summary.entries if entry.rate_kind == "given"}
    if paper.rate and given - {paper.rate}:
        used = rate(summary, "given").capitalize()
        found.append(f"{used}; the paper has {paper.rate:g}.")

    if summary.unfinished:
        verb = "is" if summary.unfinished == 1 else "are"
        found.append(f"{count(summary.unfinished, 'run')} of this table {verb} not finished.")
    return found


def _rounds(summary: Summary) -> str:
    """The rounds of all entries: some may have been run for longer than others."""
    lengths = {entry.rounds for entry in summary.entries}
    *fewer, most = sorted(lengths)
    named = [str(rounds) for rounds in fewer]
    named.append(count(most, "round"))
    return listed(named)


def part(summary: Summary, command: Command) -> str:
    """What comes from one command: rows, their columns if not all, at which learning rate."""
    parts = []
    for rate_kind in summary.table.rates:
        rows = _rows_from(summary, command, rate_kind)
        if rows:
            parts.append(f"{rows} at the {rate_kind} rate")

    tuned = [tuned.row.title for tuned in summary.tuned if command in tuned.commands]
    if tuned:
        parts.append(f"learning rates chosen for {listed(list(dict.fromkeys(tuned)))}")
    return "; ".join(parts)


def origin(source: ResultSource) -> str:
    """How long the runs of a command took, with which code and where."""
    about = source.provenance
    code = f"commit {about.commit}"
    if not about.commit:
        code = f"federico {about.versions.get('federico', '')}".rstrip()
    parts = [f"{source.seconds:,.0f} seconds in all", code]
    if "torch" in about.versions:
        parts.append(f"torch {about.versions['torch']}")
    if about.machine:
        parts.append(about.machine)
    return ", ".join(parts)


def _rows_from(summary: Summary, command: Command, rate_kind: ShownRate) -> str:
    """The rows that have results of this command; those in the same columns are named together."""
    together: dict[tuple[str, ...], list[str]] = {}
    for row in summary.table.rows:
        found = [
            entry
            for column in summary.table.columns
            if (entry := summary.entry(row.name, column, rate_kind)) is not None
        ]
        columns = tuple(entry.column for entry in found if command in entry.commands)
        if len(columns) == len(summary.table.columns):
            columns = ("",)
        if columns:
            together.setdefault(columns, []).append(row.title)

    everything = [row.title for row in summary.table.rows]
    parts = []
    for columns, titles in together.items():
        where = "" if columns == ("",) else f" ({', '.join(columns)})"
        rows = "all rows" if titles == everything and len(titles) > 1 else listed(titles)
        parts.append(rows + where)
    return ", ".join(parts)


def collaborators(
    clients: Sequence[str],
    distribution: Sequence[int] | None,
    posterior: Sequence[Mapping[str, float]],
) -> Iterator[str]:
    """A sentence or two for each client, for the first hundred."""
    groups: dict[str, int] = {}
    if distribution is not None:
        groups = dict(zip(clients, distribution, strict=True))
    for client, row in list(zip(clients, posterior, strict=True))[:MOST_CLIENTS]:
        yield _about(client, row, groups)


def not_listed(clients: int) -> str:
    """Says that a list of clients was cut, where it was."""
    if clients <= MOST_CLIENTS:
        return ""
    return f"The first {MOST_CLIENTS} of {clients} clients are listed."


def called(client: str) -> str:
    """A client whose name is a number needs a noun before it."""
    return f"Client {client}" if client.isdecimal() else client


def percent(share: float) -> str:
    """Without decimals, and never rounded to all or nothing unless it is."""
    if 0 < share < 0.005:
        return "less than 1 %"
    if 0.995 <= share < 1 - 1e-3:
        return "more than 99 %"
    return f"{100 * share:.0f} %"


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 run, 3 runs."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(items: Sequence[str]) -> str:
    """Items as a sentence lists them: a, b and c."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def in_words(number: int) -> str:
    """Small numbers spelled out."""
    return NUMBERS[number] if number < len(NUMBERS) else str(number)


def _about(client: str, row: Mapping[str, float], groups: Mapping[str, int]) -> str:
    others = {peer: weight for peer, weight in row.items() if peer != client}
    peers = [peer for peer, weight in others.items() if weight >= COLLABORATOR]
    if not peers:
        return f"{called(client)} works alone."
    peers.sort(key=lambda peer: -others[peer])

    named = [f"{peer} ({percent(others[peer])})" for peer in peers]
    if len(peers) > MOST_NAMED + 1:
        rest = peers[MOST_NAMED:]
        together = sum(others[peer] for peer in rest)
        named = named[:MOST_NAMED]
        named.append(f"{len(rest)} others (together {percent(together)})")

    own = row.get(client, 0.0)
    kept = "gives its own model no weight"
    if own >= COLLABORATOR:
        kept = f"keeps {percent(own)} for its own model"
    sentence = f"{called(client)} learns with {listed(named)} and {kept}."
    return f"{sentence} {_right_ones(client, peers, groups)}".rstrip()


def _right_ones(client: str, peers: Sequence[str], groups: Mapping[str, int]) -> str:
    """How many collaborators are of the client's own distribution; empty where none is known."""
    if not groups:
        return ""
    right = sum(groups.get(peer) == groups[client] for peer in peers)
    total = len(peers)
    if total == 1:
        whose = "its own" if right else "another"
        return f"That peer is of {whose} distribution."
    if right == total:
        all_of_them = "Both" if total == 2 else f"All {in_words(total)}"
        return f"{all_of_them} are of its own distribution."
    if right == 0:
        none_of_them = "Neither" if total == 2 else "None of them"
        return f"{none_of_them} is of its own distribution."
    verb = "is" if right == 1 else "are"
    some = f"{in_words(right).capitalize()} of the {in_words(total)}"
    return f"{some} {verb} of its own distribution."
