"""The page of the documentation on the claim that nobody is worse off than alone.

`python -m benchmarks.page` writes it from what `benchmarks/made_data.py` has measured.
"""

from collections.abc import Sequence

from benchmarks.made_data import BATCH_SIZE, Kept, Outcome, Summary, summaries
from benchmarks.made_settings import SETTINGS
from benchmarks.tables import Table
from federico.runs.metric import MINUS, metric_of
from federico.types import Task

NAME = "explanation-never-worse.md"
ACCEPTED = 0.05
"""The share of clients that may be clearly worse: one of twenty."""
MOST_LISTED = 12
"""How many of the clients that lose most are listed."""

HEAD = """# Explanation: never worse than alone

<!-- Written by benchmarks/page.py from benchmarks/made_data.json; change the words in benchmarks/made_data_page.py. -->

FedeRiCo's one claim is that, by default, a client ends up no worse than if it had trained alone, whatever its data
is. A site that gets a worse model than it had leaves, and is right. This page says what the claim means, how we try to
refute it, and where it does not hold.

## What it means

- **Alone** is the method [`local`](explanation-method-local.md): the same model, the same samples, the same number of
  epochs, nobody else. FedeRiCo trains such a model too, in private, as control and floor
  ([how](explanation-open-points.md#never-worse-than-alone)).
- **A federation holds the claim** if its clients gain over alone in the mean, each client counting the same; or lose no more than
  half a point of accuracy (0.005 of R2), or no more than two standard errors over seeds.
- **A client is clearly worse** if it loses more than that, and more than two standard errors of its own test set. For classes
  this is the standard error of an accuracy, as in [the studies](how-to-compare.md#how-to-read-the-gains). For values it is that of the
  difference of the squared errors, sample by sample, which is much smaller: small losses are seen that the studies cannot see (a
  column of their own has what they would count). By chance alone a few per cent of the clients are clearly worse. At most one in
  twenty may be.
- **By default** means that nothing is tuned: {rounds} rounds, Adam at 0.01, batches of {batch_size}, and no option of
  `[federico]` set.

## How it is measured

*On studies.* Twelve studies on natural data and on common divisions of data ask what a federation is worth to its
members: [the table in the README](../README.md#what-is-it-worth-to-a-member), [all results](results.md), and
[how to run them](how-to-compare.md#a-study). Rules were compared on some of these data, if on other splits.

*On made data.* {count} settings that are in no study, below: small public data divided in ways that occur, and data made
so that collaboration is of little use, harmful for some, or useful until a client has learned enough by itself. Some
settings were used when the rule was mended, on seeds 0 to 7. The figures here are of other seeds, {seeds}, and the settings
marked with ° were made after the rule and tried with no other. A seed makes new samples and new rules
throughout; of public data it makes another split.

```
python -m benchmarks.made_data                     # measures what is not stored yet in benchmarks/made_data.json
python -m benchmarks.made_data --only rings --seeds 300 301 --save FILE
python -m benchmarks.page                          # writes this page
```

Measured with the code of commit {commits} (torch {torch}). In every run the private model of each client had exactly the
figure that `local` had{apart}.
"""
READING = """*Alone* is the mean over clients, *gain* what FedeRiCo adds to it, ± the standard error over seeds. *Worst
client* is the lowest gain of a client, mean over seeds: with few test samples it is low whatever the method.
"""
FOOT = """## What this does not say

Models are small, federations have two to eight members, and nobody is hostile ([hostile members](explanation-hostile-members.md)).
What speaks for or against collaborators are held-out samples, one of five: eight for a client with forty samples, twenty for one
with a hundred. So few can be wrong, and a client with fewer than forty samples stays near its prior for the collaborators. The claim is about the
mean over clients; a single client is protected as far as its samples can tell.

A kind of data that we have not thought of can still be worse. If yours is, `client.comparison` and the report's section
[Is it worth it?](how-to-compare.md#is-it-worth-it) tell you, and the model that you trained alone is there to be used.
"""


def text(kept: Kept) -> str:
    """The page."""
    outcomes = kept.outcomes
    found = summaries(outcomes)
    plain = [each for each in found if each.batch_size == BATCH_SIZE]
    other = [each for each in found if each.batch_size != BATCH_SIZE]
    parts = [_head(kept), "## Classes\n", READING, _table(plain, "classification")]
    parts += ["## Values to predict\n", _table(plain, "regression")]
    if other:
        parts += ["## Smaller batches\n", _about_steps(other)]
        parts += [_table(other, "classification"), _table(other, "regression")]
    parts += ["## Where it does not hold\n", _verdict(found)]
    parts += [_clients(outcomes, "classification"), _clients(outcomes, "regression"), FOOT]
    return "\n".join(part for part in parts if part)


def _head(kept: Kept) -> str:
    outcomes = kept.outcomes
    seeds = sorted({outcome.seed for outcome in outcomes})
    commits = sorted({outcome.commit for outcome in outcomes})
    apart = max(outcome.alone_apart for outcome in outcomes)
    return HEAD.format(
        rounds=kept.rounds,
        batch_size=BATCH_SIZE,
        count=len({outcome.setting for outcome in outcomes}),
        seeds=f"{seeds[0]} to {seeds[-1]}",
        commits=" and ".join(commits),
        torch=kept.versions["torch"],
        apart="" if apart == 0 else f", to {apart:g}",
    )


def _about_steps(other: Sequence[Summary]) -> str:
    sizes = " and ".join(str(size) for size in sorted({each.batch_size for each in other}))
    return (
        f"With batches of {sizes} a client takes more steps in as many rounds. Alone it learns more of\n"
        "its samples, or learns them by heart.\n"
    )


def _table(found: Sequence[Summary], task: Task) -> str:
    """A line for each setting of this task; nothing without any."""
    metric = metric_of(task)
    heads = ["data", "clients", "alone", "gain", "worst client", "clearly worse"]
    if task == "regression":
        heads.append("as studies count")
    rows: list[list[str]] = []
    for each in found:
        setting = SETTINGS[each.setting]
        if setting.task != task:
            continue
        name = f"`{setting.name}`"
        if setting.is_new:
            name += "°"
        gain = f"{metric.signed(each.gain)}{metric.spread(each.error)}"
        cells = [
            f"{name}: {setting.about}",
            f"{each.clients / each.seeds:.0f}",
            metric.bare(each.alone),
            f"**{gain}**" if each.is_worse else gain,
            metric.signed(each.worst),
            f"{each.clearly_worse} of {each.clients}",
        ]
        if task == "regression":
            cells.append(f"{each.worse_as_studies_count} of {each.clients}")
        rows.append(cells)
    if not rows:
        return ""
    unit = "Accuracy in %" if metric.in_percent else f"R2 (no client counts below {MINUS}1)"
    return f"{unit}:\n\n{Table('', heads, rows).markdown()}"


def _verdict(found: Sequence[Summary]) -> str:
    """How many settings hold the claim, and how many clients."""
    worse = [each for each in found if each.is_worse]
    federations = f"*Federations.* None of the {len(found)} lines above is worse than alone."
    if worse:
        lines_of_all = f"{len(worse)} of the {len(found)} lines above"
        federations = f"*Federations.* Worse than alone, {lines_of_all}: {_names(worse)}."
    lines = [federations]
    for task, what in (("classification", "classes"), ("regression", "values")):
        of_task = [each for each in found if SETTINGS[each.setting].task == task]
        if of_task:
            lines.append(_verdict_on_clients(of_task, what))
    return "\n\n".join(lines) + "\n"


def _verdict_on_clients(found: Sequence[Summary], what: str) -> str:
    """How many clients are clearly worse, and where they are too many."""
    clearly_worse = sum(each.clearly_worse for each in found)
    as_studies = sum(each.worse_as_studies_count for each in found)
    clients = sum(each.clients for each in found)
    many = [each for each in found if each.clearly_worse > ACCEPTED * each.clients]

    share = f"{100 * clearly_worse / clients:.1f} %"
    words = f"*Clients, {what}.* {clearly_worse} of {clients} are clearly worse ({share}"
    if as_studies != clearly_worse:
        words += f"; {100 * as_studies / clients:.1f} % as the studies count"
    words += ")."
    if many:
        words += f" They are more than one in twenty in {_names(many)}."
    return words


def _names(found: Sequence[Summary]) -> str:
    """The settings with their gain and the share of clients that are clearly worse."""
    names = []
    for each in found:
        metric = metric_of(SETTINGS[each.setting].task)
        batches = "" if each.batch_size == BATCH_SIZE else f" with batches of {each.batch_size}"
        share = f"{100 * each.clearly_worse / each.clients:.0f} % of the clients"
        names.append(f"`{each.setting}`{batches} (gain {metric.signed(each.gain)}; {share})")
    return ", ".join(names)


def _clients(outcomes: Sequence[Outcome], task: Task) -> str:
    """The clients of this task that lose most, of those clearly worse; nothing if there are none."""
    losing: list[tuple[float, Outcome, int]] = []
    for run in outcomes:
        if SETTINGS[run.setting].task == task:
            losing += [(run.gain[place], run, place) for place in run.clearly_worse]
    if not losing:
        return ""

    metric = metric_of(task)
    losing.sort(key=lambda each: each[0])
    lines = []
    for gain, run, place in losing[:MOST_LISTED]:
        lines.append(
            [
                f"`{run.setting}`",
                str(run.batch_size),
                f"{run.seed}, {run.clients[place]}",
                str(run.trained[place]),
                metric.bare(run.alone[place]),
                f"{metric.signed(gain)}{metric.spread(run.error[place])}",
                f"{100 * run.together_share[place]:.0f} %",
            ]
        )
    heads = [
        "data",
        "batches of",
        "seed, client",
        "samples",
        "alone",
        "gain",
        "share of the others",
    ]
    title = f"The clients that lose most, {metric.axis}; the share is that of the collaborators in what they predict with"
    return f"{title}:\n\n{Table('', heads, lines).markdown()}"
