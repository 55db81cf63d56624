"""From a partition to clients: each client's samples split into those to train and to test on."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from federico import rng
from federico.data.dataset import Client, Dataset, Samples, Schema
from federico.data.files import read_npz
from federico.data.partition import (
    LEAST_SAMPLES,
    Partition,
    hash_of_positions,
    refuse_duplicate_ids,
)
from federico.data.standardizer import Standardizer, TargetScale
from federico.errors import DataError
from federico.types import Array, BoolArray, ClientId, IntArray

MOST_NAMED = 5
"""Clients that a warning names."""


@dataclass(frozen=True, eq=False)
class TrainTestSplit:
    """The positions of the samples that each client trains and tests on."""

    ids: tuple[ClientId, ...]
    """The clients, in the order of their names."""
    train: tuple[IntArray, ...]
    test: tuple[IntArray, ...]
    distribution: tuple[int, ...] | None = None
    """The true group of each client, where the partition has groups: for reports only."""

    def __post_init__(self) -> None:
        refuse_duplicate_ids(self.ids)

    @property
    def hash(self) -> str:
        """Equal for two splits exactly if all clients train and test on the same samples."""
        return hash_of_positions(self.ids, self.train, self.test)

    def save(self, path: Path) -> None:
        """Write the split to an npz file that can be read without pickle."""
        arrays: dict[str, Array] = {
            "ids": np.array(self.ids),
            "distribution": np.array(self.distribution or (), dtype=np.int64),
            "train": np.concatenate(self.train),
            "train_sizes": np.array([len(part) for part in self.train]),
            "test": np.concatenate(self.test),
            "test_sizes": np.array([len(part) for part in self.test]),
        }
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path) -> "TrainTestSplit":
        """The split that `save` has written."""
        ids, groups = read_npz(path, "ids", "distribution")
        train, train_sizes = read_npz(path, "train", "train_sizes")
        test, test_sizes = read_npz(path, "test", "test_sizes")
        return cls(
            ids=tuple(str(name) for name in ids),
            train=_split_by_sizes(train, train_sizes),
            test=_split_by_sizes(test, test_sizes),
            distribution=tuple(int(group) for group in groups) or None,
        )


def train_test_split(
    partition: Partition,
    *,
    test_fraction: float = 0.2,
    max_train: int | None = None,
    validation_fraction: float = 0.0,
    is_test: BoolArray | None = None,
    seed: int,
) -> TrainTestSplit:
    """Split each client's samples at random, with at least one to train and one to test on.

    With `is_test`, a mark for every sample of the dataset, the marked ones are those to test on.
    `max_train` is the most training samples a client keeps; its test samples all stay. With a
    `validation_fraction`, that part of the training samples takes the place of the test samples.
    """
    order = sorted(range(len(partition.ids)), key=lambda client: partition.ids[client])

    ids: list[ClientId] = []
    train_parts: list[IntArray] = []
    test_parts: list[IntArray] = []
    for client in order:
        name = partition.ids[client]
        samples = partition.indices[client]
        if is_test is None:
            train, test = _split(name, samples, test_fraction, seed)
        else:
            train, test = _split_as_marked(name, samples, is_test[samples], seed)
        train = train[:max_train]
        if validation_fraction:
            train, test = _hold_out(name, train, validation_fraction)
        ids.append(name)
        train_parts.append(np.sort(train))
        test_parts.append(np.sort(test))

    distribution = None
    if partition.distribution is not None:
        distribution = tuple(partition.distribution[client] for client in order)
    return TrainTestSplit(tuple(ids), tuple(train_parts), tuple(test_parts), distribution)


def make_clients(dataset: Dataset, split: TrainTestSplit) -> list[Client]:
    """Each client with its own samples.

    The columns of a table are filled and scaled by what the client's own training samples show.
    """
    is_table = bool(dataset.schema.columns)
    clients: list[Client] = []
    for position, name in enumerate(split.ids):
        train = split.train[position]
        test = split.test[position]
        if max(train.max(), test.max()) >= len(dataset):
            raise DataError(
                f"client '{name}' has samples beyond the {len(dataset)} of the data: "
                "the data has changed since it was split"
            )

        distribution = None
        if split.distribution is not None:
            distribution = split.distribution[position]
        client = Client(name, dataset.samples.take(train), dataset.samples.take(test), distribution)
        if is_table:
            client = _standardized(client)
        if dataset.schema.task == "regression":
            client = replace(client, target_scale=TargetScale.fit(client.train.y))
        clients.append(client)
    return clients


def warnings_for(clients: list[Client], schema: Schema) -> list[str]:
    """What is allowed but may surprise: clients with fewer training samples than classes."""
    if schema.task == "regression":
        return []
    small = [client for client in clients if len(client.train) < schema.outputs]
    if not small:
        return []
    if len(small) == 1:
        (client,) = small
        return [
            f"client '{client.id}' has {len(client.train)} training samples "
            f"for {schema.outputs} classes"
        ]

    sizes = [len(client.train) for client in small]
    named = ", ".join(f"'{client.id}'" for client in small[:MOST_NAMED])
    if len(small) > MOST_NAMED:
        named += ", ..."
    amount = f"{min(sizes)} to {max(sizes)}"
    if min(sizes) == max(sizes):
        amount = str(min(sizes))
    return [
        f"{len(small)} of {len(clients)} clients have only {amount} training samples for "
        f"{schema.outputs} classes: {named}"
    ]


def _split_by_sizes(joined: IntArray, sizes: IntArray) -> tuple[IntArray, ...]:
    """The parts of these sizes that were joined into one array."""
    ends = np.cumsum(sizes)
    return tuple(np.split(joined, ends[:-1]))


def _split(
    name: ClientId, samples: IntArray, test_fraction: float, seed: int
) -> tuple[IntArray, IntArray]:
    """One client's samples for training and for testing, shuffled."""
    if len(samples) < LEAST_SAMPLES:
        raise DataError(
            f"client '{name}' has {len(samples)} samples: "
            f"it needs at least {LEAST_SAMPLES}, one to train and one to test on"
        )
    shuffled = rng.stream(seed, "split", name).permutation(samples)
    return _take_off(shuffled, test_fraction)


def _split_as_marked(
    name: ClientId, samples: IntArray, is_test: BoolArray, seed: int
) -> tuple[IntArray, IntArray]:
    """One client's samples as the data divides them; those for training are shuffled."""
    train = samples[~is_test]
    test = samples[is_test]
    if len(train) == 0 or len(test) == 0:
        missing = "train" if len(train) == 0 else "test"
        raise DataError(
            f"client '{name}' has no sample marked to {missing} on: mark at least one, "
            "or take the option 'test' out of [data]"
        )
    return rng.stream(seed, "split", name).permutation(train), test


def _hold_out(name: ClientId, train: IntArray, fraction: float) -> tuple[IntArray, IntArray]:
    """One client's training samples without those for validation, and those for validation."""
    if len(train) < LEAST_SAMPLES:
        raise DataError(
            f"client '{name}' has one training sample: to hold a part out for validation it needs "
            f"at least {LEAST_SAMPLES}; divide the data among fewer clients, or more evenly"
        )
    return _take_off(train, fraction)


def _take_off(shuffled: IntArray, fraction: float) -> tuple[IntArray, IntArray]:
    """All samples but a fraction of them, and that fraction; neither is empty."""
    count = round(fraction * len(shuffled))
    count = int(np.clip(count, 1, len(shuffled) - 1))
    return shuffled[count:], shuffled[:count]


def _standardized(client: Client) -> Client:
    """The client with inputs in units of its own training data."""
    # Test data must not be looked at: it is scaled as the training data says.
    standardizer = Standardizer.fit(client.train.x)
    train_x = standardizer(client.train.x)
    test_x = standardizer(client.test.x)
    train = Samples(train_x, client.train.y)
    test = Samples(test_x, client.test.y)
    return replace(client, train=train, test=test, standardizer=standardizer)
