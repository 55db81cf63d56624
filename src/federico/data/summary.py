"""What data looks like, in a few lines: shown before anything trains, so that faults are seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from federico.data.dataset import Dataset, Schema
from federico.data.split import TrainTestSplit
from federico.types import Array, BoolArray

MOST_LISTED = 6
"""Clients, classes or columns that a line names."""
LIKE_GAPS = frozenset({"n/a", "#n/a", "na", "n.a.", "nan", "null", "?", "-", "--"})
"""Names, in small letters, that most tables have for a missing value and not for a category."""


@dataclass(frozen=True)
class DataSummary:
    """Rows, clients, classes, columns and gaps of the data of an experiment, and what is odd."""

    facts: dict[str, str]
    """A line for each of: clients, target, inputs, and gaps where there are any."""
    odd: tuple[str, ...]
    """What is allowed, but likely a slip: `Home` beside `home`, a column without any value."""
    notes: tuple[str, ...] = ()
    """How it was read: spaces that were removed, an encoding that may be another."""

    @property
    def lines(self) -> list[str]:
        """All of it, line by line."""
        lines: list[str] = []
        for name, text in self.facts.items():
            lines.append(f"{name}: {text}")
        for text in self.notes:
            lines.append(f"note: {text}")
        for text in self.odd:
            lines.append(f"odd: {text}")
        return lines

    @property
    def short(self) -> list[str]:
        """How much data there is, and what somebody may want to look at."""
        return [self.lines[0], *self.lines[len(self.facts) :]]


def summarize_data(dataset: Dataset, shares: TrainTestSplit) -> DataSummary:
    """The summary of data that is shared out among clients."""
    facts = {
        "data": _clients(dataset, shares),
        "target": _target(dataset, shares),
        "inputs": _inputs(dataset.schema),
    }
    odd = [*_odd_names("classes", dataset.schema.label_names), *_rare_classes(dataset)]
    if dataset.schema.columns:
        missing = _missing(dataset)
        gaps = _gaps(dataset.schema, missing)
        if gaps:
            facts["gaps"] = gaps
        odd += _odd_columns(dataset, missing, shares)
        odd += _columns_without_values(dataset.schema, missing, shares)
    return DataSummary(facts, tuple(odd), dataset.notes)


def _clients(dataset: Dataset, shares: TrainTestSplit) -> str:
    """How many samples there are, who has how many, and what they are for."""
    train = [len(part) for part in shares.train]
    test = [len(part) for part in shares.test]
    sizes = {}
    for name, to_train, to_test in zip(shares.ids, train, test, strict=True):
        sizes[name] = to_train + to_test
    by_size = sorted(sizes, key=lambda name: -sizes[name])
    noun = "rows" if dataset.schema.columns else "samples"

    if len(by_size) <= MOST_LISTED:
        each = ", ".join(f"{name}: {sizes[name]}" for name in by_size)
    else:
        largest = by_size[0]
        smallest = by_size[-1]
        each = (
            f"the smallest, {smallest}, has {sizes[smallest]}; "
            f"the largest, {largest}, has {sizes[largest]}"
        )
    return (
        f"{sum(sizes.values())} {noun} of {_counted(len(by_size))} ({each}); "
        f"{sum(train)} to train on, {sum(test)} to test on"
    )


def _counted(number: int) -> str:
    return "1 client" if number == 1 else f"{number} clients"


def _target(dataset: Dataset, shares: TrainTestSplit) -> str:
    """What is to be predicted: the range of the values, or the most frequent classes."""
    used = np.concatenate([*shares.train, *shares.test])
    if dataset.schema.task == "regression":
        values = dataset.samples.y[used]
        mean = values.mean()
        text = f"values from {values.min():.4g} to {values.max():.4g}, mean {mean:.4g}"
        if dataset.schema.outputs > 1:
            text += f" ({dataset.schema.outputs} of each sample)"
        return text

    counts = np.bincount(dataset.labels[used], minlength=dataset.schema.outputs)
    by_count = np.argsort(-counts, kind="stable")
    total = counts.sum()
    shown: list[str] = []
    for number in by_count[:MOST_LISTED]:
        name = dataset.schema.label_names[number]
        share = _percent(counts[number] / total)
        shown.append(f"{name} ({share})")
    return f"{len(counts)} classes: {_and_more(shown, len(counts))}"


def _inputs(schema: Schema) -> str:
    """What a sample consists of."""
    if schema.columns:
        categorical = [column.name for column in schema.columns if column.categories is not None]
        text = f"{len(schema.columns)} columns"
        if categorical:
            listed = _and_more(categorical[:MOST_LISTED], len(categorical))
            text += f", {len(categorical)} of them categories ({listed})"
        return text
    if len(schema.input_shape) == 1:
        return f"{schema.input_shape[0]} numbers"
    return " x ".join(str(size) for size in schema.input_shape) + " numbers"


def _missing(dataset: Dataset) -> BoolArray:
    """Which values of a table are missing [rows, columns]."""
    # A category that is missing is missing in all inputs of its column: the first tells.
    first_inputs = []
    place = 0
    for column in dataset.schema.columns:
        first_inputs.append(place)
        place += column.width
    return np.isnan(dataset.samples.x[:, first_inputs])


def _gaps(schema: Schema, missing: BoolArray) -> str:
    """The columns with the largest shares of missing values."""
    shares = missing.mean(axis=0)
    largest_first = np.argsort(-shares, kind="stable")
    incomplete = [place for place in largest_first if shares[place] > 0]

    shown = []
    for place in incomplete[:MOST_LISTED]:
        column = schema.columns[place]
        share = _percent(shares[place])
        shown.append(f"{column.name} ({share})")
    return _and_more(shown, len(incomplete))


def _odd_names(what: str, names: Sequence[str]) -> list[str]:
    """Names that differ only in capitals or in spaces around them, or look like gaps."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.strip().casefold(), []).append(name)
    odd = []
    for same in alike.values():
        if len(same) > 1:
            listed = ", ".join(repr(name) for name in same)
            odd.append(f"{what} that differ only in capitals or spaces: {listed}")
        elif same[0] != same[0].strip():
            odd.append(f"{what}: {same[0]!r} has spaces around it")
    gaps = [repr(name) for name in names if name.strip().casefold() in LIKE_GAPS]
    if gaps:
        listed = ", ".join(gaps)
        odd.append(
            f"{what} that look like a missing value: {listed}: if so, name them in 'missing'"
        )
    return odd


def _rare_classes(dataset: Dataset) -> list[str]:
    """Classes with a single sample, which cannot be both trained and tested on."""
    if dataset.schema.task == "regression":
        return []
    counts = np.bincount(dataset.labels, minlength=dataset.schema.outputs)
    rare = np.flatnonzero(counts == 1)
    if len(rare) == 0:
        return []

    shown = [repr(dataset.schema.label_names[number]) for number in rare[:MOST_LISTED]]
    listed = _and_more(shown, len(rare))
    return [f"classes with a single sample: {listed}"]


def _odd_columns(dataset: Dataset, missing: BoolArray, shares: TrainTestSplit) -> list[str]:
    """Remarks on columns from which nothing can be learned; `missing` is [samples, columns]."""
    odd: list[str] = []
    place = 0
    for number, column in enumerate(dataset.schema.columns):
        if column.categories is not None:
            odd += _odd_names(f"categories of {column.name!r}", column.categories)

        # A category takes as many inputs as it has values.
        inputs = slice(place, place + column.width)
        place += column.width
        is_known = ~missing[:, number]
        values = dataset.samples.x[is_known, inputs]
        if len(values) == 0:
            odd.append(f"column {column.name!r} has no value at all: name it in 'ignore'")
        elif len(values) > 1 and (values == values[0]).all():
            odd.append(f"column {column.name!r} has the same value in every row")
        elif column.categories is not None:
            continue
        elif _counts_rows(values[:, 0]):
            odd.append(f"column {column.name!r} numbers the rows: name it in 'id'")
        elif _counts_rows_of_each(dataset.samples.x[:, inputs.start], shares):
            odd.append(f"column {column.name!r} numbers the rows of each client: name it in 'id'")
    return odd


def _counts_rows(values: Array) -> bool:
    """Whether a column is 1, 2, 3, ... or the like, in this order."""
    return len(values) > 2 and bool((np.diff(values) == 1).all())


def _counts_rows_of_each(values: Array, shares: TrainTestSplit) -> bool:
    """Whether a column counts the rows of every client anew."""
    for train, test in zip(shares.train, shares.test, strict=True):
        rows = np.sort(np.concatenate([train, test]))
        if not _counts_rows(values[rows]):
            return False
    return True


def _columns_without_values(
    schema: Schema, missing: BoolArray, shares: TrainTestSplit
) -> list[str]:
    """Columns of which a single client has no value to train on, while others have some."""
    clients_without: dict[str, list[str]] = {}
    empty_everywhere = missing.all(axis=0)
    for client, train in zip(shares.ids, shares.train, strict=True):
        without = missing[train].all(axis=0) & ~empty_everywhere
        for number in np.flatnonzero(without):
            clients_without.setdefault(schema.columns[number].name, []).append(client)
    odd = []
    for column, clients in clients_without.items():
        listed = _and_more(clients[:MOST_LISTED], len(clients))
        odd.append(f"column {column!r} has no value to train on at {listed}")
    return odd


def _and_more(shown: Sequence[str], of: int) -> str:
    text = ", ".join(shown)
    if of > len(shown):
        text += f" and {of - len(shown)} more"
    return text


def _percent(share: float) -> str:
    if 0 < share < 0.01:
        return "under 1 %"
    return f"{100 * share:.0f} %"
