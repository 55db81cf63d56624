"""Results in sentences: the main result, how much was run, who learns with whom."""

from collections import Counter
from collections.abc import Sequence

from federico.report.differences import compare, compare_after
from federico.report.entry import Difference, Entry
from federico.report.gains import Interval, mean_interval
from federico.report.means import mean
from federico.report.seed_result import Command
from federico.report.table_summary import Pending, ResultSource, Summary
from federico.report.worth_it import worth_to_all
from federico.runs.table import OURS, ReportedValues, ShownRate

COLLABORATOR = 0.01
"""Posterior weight from which a peer is named as a collaborator."""
MOST_NAMED = 5
MOST_CLIENTS = 100
NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
INTERVAL = "95 % interval"
ONE_RUN = "one run does not tell how sure that is"
ENOUGH_RUNS = 6
"""Fewer runs cannot give a p below 0.05 in the paired test: they do not show that rows are even."""
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
        return _at_equal_rounds(summary, short=short)
    if len(winners) == 1:
        return _single_column(summary, short=short)
    return _winner_of_most(summary, winners)


def _at_equal_rounds(summary: Summary, *, short: bool) -> str:
    """What is known where rows have got to different rounds: one row as far as both have got.

    It is FedeRiCo's row if there is one, or else the first that is compared with another, in the
    first column that has both. None is called best: that is for runs that are over.
    """
    reference = summary.table.reference
    for column in summary.table.columns:
        entries = summary.column(column, summary.shown_rate)
        of_reference = [entry for entry in entries if entry.row.name == reference]
        others = [entry for entry in entries if entry.row.name != reference]
        if not (of_reference and others):
            continue
        ours = min(others, key=lambda entry: entry.row.method != OURS)
        in_common = set(ours.evaluated) & set(of_reference[0].evaluated)
        if not in_common:
            continue
        after = max(in_common)
        versus = compare_after(after, ours, of_reference[0], summary.metric)
        if versus is None:
            continue
        where = f" ({column})" if column else ""
        reached = _reached_with(summary, mean(list(ours.after(after).values())), short=short)
        distance = _distance(summary, versus, summary.reference_title)
        if versus.runs == 1:
            distance += f" ({ONE_RUN})"
        return f"After round {after:,}, {ours.title} reaches {reached}{where}, {distance}."
    return "Rows were run for different numbers of rounds, so none is called best."


def _winners(summary: Summary) -> list[Entry]:
    """The best row of every column that has one."""
    found = []
    for column in summary.table.columns:
        best = summary.best(column, summary.shown_rate)
        if best is not None:
            found.append(best)
    return found


def _winner_of_most(summary: Summary, winners: Sequence[Entry]) -> str:
    """The row that is highest in most of several columns, and how it compares in all of them."""
    wins = Counter(winner.title for winner in winners)
    ((title, most),) = wins.most_common(1)
    if 2 * most <= len(winners):
        named = [f"{row} in {in_words(columns)}" for row, columns in wins.most_common()]
        return (
            f"No row has the best mean in most of {count(len(winners), 'column')}: {listed(named)}."
        )

    sentence = f"{title} has the best mean in {most} of {count(len(winners), 'column')}"

    compared = []
    for column in summary.table.columns:
        for entry in summary.column(column, summary.shown_rate):
            if entry.title == title and entry.versus is not None:
                compared.append(entry.versus)
    if compared:
        sentence += f": {_against_in_columns(summary, compared)}"
    return f"{sentence}."


def _against_in_columns(summary: Summary, differences: Sequence[Difference]) -> str:
    """How far the row is from the reference in each column, and how sure that is."""
    metric = summary.metric
    sizes = []
    for difference in differences:
        size = metric.signed(difference.mean)
        if difference.interval is not None:
            size += f" ({_interval(summary, difference.interval)})"
        sizes.append(size)
    unit = ""
    if metric.in_percent:
        unit = " points"

    runs = {difference.runs for difference in differences}
    extent = " or ".join(str(number) for number in sorted(runs)) + " runs each"
    if runs == {1}:
        extent = ONE_RUN
    elif 1 in runs:
        extent = f"{extent}; {ONE_RUN}"
    elif all(difference.interval is not None for difference in differences):
        extent = f"{INTERVAL}s over {extent}"
    return f"{listed(sizes)}{unit} against {summary.reference_title} ({extent})"


def _single_column(summary: Summary, *, short: bool) -> str:
    """What the runs of a single column tell, and no more than that."""
    best = _winners(summary)[0]
    others = []
    for entry in summary.column(best.column, best.rate_kind):
        if entry is not best:
            others.append(entry)
    where = ""
    if len(summary.table.columns) > 1:
        where = f" ({best.column})"
    reached = _reached(summary, best, short=short) + where
    if not others:
        return f"{best.title} reaches {reached}{_above_alone(summary, best)}."

    second = max(others, key=summary.rank)
    apart = compare(best, second, summary.metric)
    if best.versus is None:
        return _reference_or_none_is_best(summary, best, second, apart, reached, short=short)

    distance = _distance(summary, best.versus, summary.reference_title)
    if best.versus.runs == 1:
        return f"In a single run {best.title} is ahead: {reached}, {distance} ({ONE_RUN})."
    if not best.versus.is_clear:
        even = _even(best.title, summary.reference_title, best.versus.runs)
        return f"{even}: {reached}, {distance}."
    if apart is not None and apart.is_clear:
        return f"{best.title} is best: {reached}, {distance}."
    return f"{best.title} has the best mean, {_beside(second, apart)}: {reached}, {distance}."


def _reference_or_none_is_best(
    summary: Summary,
    best: Entry,
    second: Entry,
    apart: Difference | None,
    reached: str,
    *,
    short: bool,
) -> str:
    """The headline where the best row is the reference, or where there is no reference."""
    is_reference = best.row.name == summary.table.reference
    if apart is None:
        return f"{best.title} has the best mean: {reached}."
    if apart.runs == 1:
        return f"In a single run {best.title} is ahead: {reached} ({ONE_RUN})."
    if apart.is_clear:
        return f"{best.title} is best: {reached}."
    if is_reference and second.versus is not None:
        # The news is about the row that is compared, not about the one it is compared with.
        reached = _reached(summary, second, short=short)
        distance = _distance(summary, second.versus, summary.reference_title)
        even = _even(second.title, best.title, second.versus.runs)
        return f"{even}: {reached}, {distance}."
    return f"{best.title} has the best mean, {_beside(second, apart)}: {reached}."


def _even(title: str, other: str, runs: int) -> str:
    """Says that two rows are even, or that there are too few runs to tell."""
    if runs < ENOUGH_RUNS:
        return f"{in_words(runs).capitalize()} runs do not tell {title} and {other} apart"
    return f"{title} is about even with {other}"


def _beside(second: Entry, apart: Difference | None) -> str:
    """How the second best row stands beside the best, where that is not clear."""
    if apart is None or apart.runs < ENOUGH_RUNS:
        return f"not clearly above {second.title}"
    return f"about even with {second.title}"


def _reached(summary: Summary, entry: Entry, *, short: bool) -> str:
    """The figure of a row in words."""
    return _reached_with(summary, entry.mean, short=short)


def _reached_with(summary: Summary, value: float, *, short: bool) -> str:
    metric = summary.metric
    reached = f"{metric.with_article} of {metric.bare(value)}"
    if metric.in_percent:
        reached = f"{metric.text(value)} {metric.name}"
    if not short:
        reached += " on the clients' own test data"
    return reached


def _above_alone(summary: Summary, entry: Entry) -> str:
    """How far a row is above the private models of its clients; empty where it has none."""
    differences = []
    for seed in entry.seeds:
        if seed.alone is not None:
            differences.append(entry.by_seed[seed.seed] - seed.alone)
    if not differences:
        return ""
    better = 0
    for difference in differences:
        if summary.metric.gain(difference) > 0:
            better += 1
    interval = mean_interval(differences)
    versus = Difference(mean(differences), better, len(differences), interval)
    distance = _distance(summary, versus, "training alone")
    if versus.runs == 1:
        distance += " (one seed)"
    return f", {distance}"


def _distance(summary: Summary, versus: Difference, reference: str) -> str:
    """How far a row is from another, and where the mean over runs lies."""
    metric = summary.metric
    distance = f"the same as {reference}"
    if versus.mean != 0:
        side = "below"
        if versus.mean > 0:
            side = "above"
        distance = f"{metric.distance(versus.mean)} {side} {reference}"
    if versus.interval is not None:
        sure = _interval(summary, versus.interval)
        distance += f" ({INTERVAL} {sure}, {count(versus.runs, 'run')})"
    return distance


def _interval(summary: Summary, interval: Interval) -> str:
    """Both ends with their signs: −0.9 to +1.5."""
    low, high = interval
    return f"{summary.metric.signed(low)} to {summary.metric.signed(high)}"


def worse_than_mean(summary: Summary) -> str:
    """Where clients would do better without a model; empty where all models are of use."""
    parts: list[str] = []
    verb = "has"
    for entry in summary.entries:
        clients = entry.worse_than_mean
        if entry.rate_kind != summary.shown_rate or not clients:
            continue
        with_what = entry.title
        if len(summary.table.columns) > 1:
            with_what += f", {entry.column}"
        many = f"{clients:.3g}"
        if not parts:
            # The first number says of how many, and what is counted.
            many += f" of {count(summary.clients, 'client')}"
        if parts or clients != 1:
            verb = "have"
        parts.append(f"{many} ({with_what})")
    if not parts:
        return ""

    told = f"{listed(parts)} {verb} a model worse than the mean of their own training targets."
    if len(summary.table.seeds) > 1:
        told = f"On average over runs, {told}"
    return told


def trust(summary: Summary) -> str:
    """Where the posteriors lie; empty where no row of the first column has any."""
    column = summary.table.columns[0]
    weighed = []
    for entry in summary.column(column, summary.shown_rate):
        if entry.effective_collaborators is not None:
            weighed.append(entry)
    if not weighed:
        return ""

    # FedeRiCo's first row if there is one, else the first of any method.
    shown = min(weighed, key=lambda entry: entry.row.method != OURS)
    models = f"{shown.effective_collaborators:.1f} models"
    sentence = f"With {shown.title}, a client predicts with {models} on average"
    if shown.on_own_distribution is not None:
        share = percent(shown.on_own_distribution)
        sentence += f", and {share} of its trust lies on clients of its own distribution"
    return f"{sentence}."


def worth(summary: Summary) -> list[str]:
    """How many clients are better off than alone, a sentence for each row and column that knows."""
    several_rows = len({entry.row.name for entry in summary.worth_known}) > 1
    found = []
    for entry in summary.worth_known:
        name = ""
        if several_rows:
            name = entry.title
        if entry.column:
            name = f"{name}, {entry.column}".removeprefix(", ")
        sentence = _worth_of(summary, entry)
        if name:
            sentence = f"{name}: {sentence}"
        found.append(sentence)
    return found


def _worth_of(summary: Summary, entry: Entry) -> str:
    """7 of 8 clients are better off than alone, 1 is worse off: median gain +6.9 points, ..."""
    metric = summary.metric
    all_clients = worth_to_all(entry.worth_over_runs)
    number = count(all_clients.clients, "client")
    if entry.clients_of_seed is not None:
        # Every run has other clients, and all of them count.
        number += f" of {len(entry.seeds)} runs"
    who_is = f"{all_clients.better:,} of {number} {_is_or_are(all_clients.better)}"
    if all_clients.better == all_clients.clients > 1:
        who_is = f"All {number} are"
    better = f"{who_is} better off than alone"

    rest = []
    if all_clients.as_good:
        rest.append(f"{all_clients.as_good:,} {_is_or_are(all_clients.as_good)} as well off")
    if all_clients.worse:
        rest.append(f"{all_clients.worse:,} {_is_or_are(all_clients.worse)} worse off")
    who = listed([better, *rest])

    unit = ""
    if metric.in_percent:
        unit = " points"
    median = metric.signed(all_clients.median)
    lowest = metric.signed(all_clients.lowest)
    highest = metric.signed(all_clients.highest)
    return f"{who}; the median gain is {median}{unit}, from {lowest} to {highest}."


def of_seed(entry: Entry) -> str:
    """Says of which seed the figures of single clients are, where they are no means: , seed 0."""
    if entry.clients_of_seed is None:
        return ""
    return f", seed {entry.clients_of_seed}"


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
    return f"Not finished: {listed(named)}."


def _progress_of(summary: Summary, cell: Pending) -> str:
    name = cell.row.title
    if cell.column:
        name += f", {cell.column}"
    done = f"is at round {cell.round_index:,} of {summary.table.rounds:,}"
    if cell.rate_kind == "tuning":
        done = f"has tuned for {count(cell.round_index, 'round')}"
    return f"{name} with seed {cell.seed} {done}"


def extent(summary: Summary) -> str:
    """How much was run."""
    seeds: set[int] = set()
    for entry in summary.entries:
        seeds.update(entry.by_seed)

    parts = [count(summary.clients, "client")]
    if summary.entries:
        parts.append(_rounds(summary))
    parts.append(count(len(seeds), "seed"))
    parts.append(f"models of {summary.model_parameters:,} parameters")
    return ", ".join(parts)


def notes(summary: Summary) -> str:
    """How to read the tables."""
    parts = ["Each client is tested on its own test data and counts by the size of its data."]
    parts += _about_hostile_clients(summary)
    for title, (epsilon, delta) in summary.epsilon.items():
        parts.append(
            f"{title} is differentially private in each training sample: epsilon is at most "
            f"{epsilon:.3g} at delta {delta:g} for all that a client sends in a run."
        )
    if summary.metric.explains_variance:
        parts.append(
            f"{summary.metric.name} of all clients is the share of their variance that is "
            "explained: a client also counts by the variance of its own test targets."
        )
    spread = summary.table.spread
    if any(entry.sd(spread) for entry in summary.entries):
        over = "clients"
        if spread == "seeds":
            over = "runs"  # a seed is a run
        parts.append(f"Figures are means over runs; ± is the standard deviation over {over}.")
    if len(summary.table.rows) > 1:
        parts.append("The best is in bold.")
    if len(summary.lengths) > 1:
        parts.append(
            "Rows were run for different numbers of rounds: in a column where they differ, none "
            "is called best."
        )
    if summary.reference_title:
        parts.append(
            f"Against {summary.reference_title}: the difference seed by seed after equal rounds, "
            "and in how many runs the row is better."
        )
    if summary.worth_known:
        parts.append(
            "Alone: models that the same clients trained on their own data in the same run and "
            "showed to nobody."
        )
    if any(entry.versus and entry.versus.clients for entry in summary.entries):
        parts.append(_how_gains_are_counted(summary))
    if summary.tuned:
        parts.append(_how_tuned(summary))
    if summary.stored_as_means:
        parts.append(stored_as_means(summary))
    return " ".join([*parts, COST])


def _about_hostile_clients(summary: Summary) -> list[str]:
    """Who was hostile, and whether a backdoor has worked."""
    parts = []
    if summary.hostile:
        named = listed(summary.hostile)
        parts.append(f"Figures are those of honest clients; hostile in some run: {named}.")
    if summary.trigger_success:
        shares = []
        for place, share in summary.trigger_success.items():
            shares.append(f"{100 * share:.0f} % ({place})")
        parts.append(
            "Honest clients' samples with the mark of a backdoor that are taken for what it stands "
            f"for: {', '.join(shares)}."
        )
    return parts


def _how_gains_are_counted(summary: Summary) -> str:
    """How to read the table of gains."""
    alone = summary.reference_title
    if summary.reference_is_local:
        alone = "alone"
    return (
        f"Gains are counted client by client and run by run: better off than {alone}, not worse, "
        "and worse by more than two standard errors of the client's own test set (clearly worse). "
        "The worst client is the one with the lowest gain of a run, and spread is the standard "
        "deviation of the gain over clients; both are means over runs. The interval is Student's "
        "over runs, p is that of Wilcoxon's signed-rank test. Runs on splits of the same data are "
        "not independent: both say what another split would change, not other data."
    )


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
    lengths: set[int] = set()
    rows: set[str] = set()
    for tuned in summary.tuned:
        lengths.add(tuned.rounds)
        rows.add(tuned.row.name)

    after = listed([count(rounds, "round") for rounds in sorted(lengths)])
    each = "row"
    if len(summary.tuned) > len(rows):
        each = "row and column"
    return (
        f"Best learning rates were chosen after {after} on a validation part of the clients' "
        f"training data, for each {each}; no test data was looked at."
    )


def rate(summary: Summary, rate_kind: ShownRate) -> str:
    """Which learning rate a table is for."""
    if rate_kind == "best":
        return "each at its own best learning rate"
    used = summary.rates(rate_kind)
    in_order = [f"{rate:g}" for rate in sorted(used)]
    return f"learning rate {listed(in_order)}"


def beside(summary: Summary) -> str:
    """What `differences` are differences to: an experiment of one's own is in no paper."""
    paper = summary.table.paper.model_copy(update={"differs": ()})
    if paper == ReportedValues():
        return "Not the whole experiment"
    return "Not as in the paper"


def differences(summary: Summary, *, beside_progress: bool = False) -> list[str]:
    """Where this is not what the paper did, or not all that was asked for.

    What goes on is left out where `progress` is shown beside it and says all of that.
    """
    table = summary.table
    paper = table.paper
    found = list(paper.differs)

    if paper.rounds and summary.lengths != {paper.rounds}:
        found.append(f"{_rounds(summary)}; the paper has {paper.rounds}.")

    runs = len(table.seeds)
    if paper.runs and paper.runs != runs:
        found.append(f"{count(runs, 'run')} (a seed and a split each); the paper has {paper.runs}.")

    if paper.rate and summary.rates("given") - {paper.rate}:
        used = rate(summary, "given").capitalize()
        found.append(f"{used}; the paper has {paper.rate:g}.")

    is_told = beside_progress and len(summary.pending) == summary.unfinished
    if summary.unfinished and not is_told:
        verb = _is_or_are(summary.unfinished)
        found.append(f"{count(summary.unfinished, 'run')} of this table {verb} not finished.")
    return found


def _rounds(summary: Summary) -> str:
    """The rounds of all entries: some may have been run for longer than others."""
    *fewer, most = sorted(summary.lengths)
    named = []
    for rounds in fewer:
        named.append(str(rounds))
    # Only the last has the noun: 50, 100 and 200 rounds.
    named.append(count(most, "round"))
    return listed(named)


def part(summary: Summary, command: Command) -> str:
    """What comes from one command: rows, their columns if not all, at which learning rate."""
    parts = []
    for rate_kind in summary.table.rates:
        rows = _rows_from(summary, command, rate_kind)
        if rows:
            parts.append(f"{rows} at the {rate_kind} rate")

    # A row is tuned in each column, and named once.
    chosen_for: list[str] = []
    for tuned in summary.tuned:
        title = tuned.row.title
        if command in tuned.commands and title not in chosen_for:
            chosen_for.append(title)
    if chosen_for:
        parts.append(f"learning rates chosen for {listed(chosen_for)}")
    return "; ".join(parts)


def origin(source: ResultSource) -> str:
    """How long the runs of a command took, with which code and where."""
    about = source.provenance
    parts = [f"{source.seconds:,.0f} seconds in all"]
    if about.commit:
        parts.append(f"commit {about.commit}")
    else:
        version = about.versions.get("federico", "")
        parts.append(f"federico {version}".rstrip())
    if "torch" in about.versions:
        parts.append(f"torch {about.versions['torch']}")
    if about.machine:
        parts.append(about.machine)
    return ", ".join(parts)


def _rows_from(summary: Summary, command: Command, rate_kind: ShownRate) -> str:
    """The rows that have results of this command; those in the same columns are named together."""
    together: dict[str, list[str]] = {}
    for row in summary.table.rows:
        columns = []
        for entry in summary.row(row.name, rate_kind):
            if command in entry.commands:
                columns.append(entry.column)
        if not columns:
            continue
        where = ""
        if len(columns) < len(summary.table.columns):
            where = f" ({', '.join(columns)})"
        together.setdefault(where, []).append(row.title)

    everything = [row.title for row in summary.table.rows]
    parts = []
    for where, titles in together.items():
        rows = listed(titles)
        if titles == everything and len(titles) > 1:
            rows = "all rows"
        parts.append(rows + where)
    return ", ".join(parts)


def not_listed(clients: int) -> str:
    """Says that a list of clients was cut, where it was."""
    if clients <= MOST_CLIENTS:
        return ""
    return f"The first {MOST_CLIENTS} of {clients} clients are listed."


def called(client: str) -> str:
    """A client whose name is a number needs a noun before it."""
    if client.isdecimal():
        return f"Client {client}"
    return client


def percent(share: float) -> str:
    """Without decimals, and never rounded to all or nothing unless it is."""
    if 0 < share < 0.005:
        return "less than 1 %"
    if 0.995 <= share < 1 - 1e-3:
        return "more than 99 %"
    return f"{100 * share:.0f} %"


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 run, 3 runs."""
    if number != 1:
        noun += "s"
    return f"{number:,} {noun}"


def listed(items: Sequence[str]) -> str:
    """Items as a sentence lists them: a, b and c."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def in_words(number: int) -> str:
    """Small numbers spelled out."""
    if number < len(NUMBERS):
        return NUMBERS[number]
    return str(number)


def _is_or_are(number: int) -> str:
    if number == 1:
        return "is"
    return "are"
