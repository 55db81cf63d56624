"""From a partition to clients: each share split for training and testing, tables made ready by their owner."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from federico import rng
from federico.data.dataset import Client, Dataset, Samples, Schema, Standardizer
from federico.data.files import read_npz
from federico.data.partition import LEAST, Partition, digest, refuse_twins
from federico.errors import DataError
from federico.types import Array, ClientId, IntArray


@dataclass(frozen=True, eq=False)
class Shares:
    """The positions each client trains and tests on, in order of the clients' names."""

    ids: tuple[ClientId, ...]
    train: tuple[IntArray, ...]
    test: tuple[IntArray, ...]
    distribution: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        refuse_twins(self.ids)

    @property
    def hash(self) -> str:
        """The same for two experiments if and only if all clients train and test on the same samples."""
        return digest(self.ids, self.train, self.test)

    def save(self, path: Path) -> None:
        """Write to an npz file that needs no pickle to be read."""
        arrays = {
            "ids": np.array(self.ids),
            "distribution": np.array(self.distribution or (), dtype=np.int64),
        }
        for name, parts in (("train", self.train), ("test", self.test)):
            arrays |= {
                name: np.concatenate(parts),
                f"{name}_sizes": np.array([len(part) for part in parts]),
            }
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path) -> "Shares":
        """Read what `save` has written."""
        ids, groups = read_npz(path, "ids", "distribution")
        train, train_sizes, test, test_sizes = read_npz(
            path, "train", "train_sizes", "test", "test_sizes"
        )
        return cls(
            tuple(map(str, ids)),
            tuple(np.split(train, np.cumsum(train_sizes)[:-1])),
            tuple(np.split(test, np.cumsum(test_sizes)[:-1])),
            tuple(map(int, groups)) or None,
        )


def share_out(
    partition: Partition,
    *,
    test_fraction: float = 0.2,
    max_train: int | None = None,
    validation_fraction: float = 0.0,
    seed: int,
) -> Shares:
    """Split each client's samples at random; each has at least one to train and one to test on.

    `max_train` keeps that many training samples at most, the test part stays whole. With a `validation_fraction` that
    part of the training samples takes the place of the test part.
    """
    order = sorted(range(len(partition.ids)), key=lambda client: partition.ids[client])
    ids = tuple(partition.ids[client] for client in order)
    splits = [
        _split(partition.ids[client], partition.indices[client], test_fraction, seed)
        for client in order
    ]
    splits = [(train[:max_train], test) for train, test in splits]
    if validation_fraction:
        splits = [
            _hold_out(name, train, validation_fraction)
            for name, (train, _) in zip(ids, splits, strict=True)
        ]
    return Shares(
        ids,
        tuple(np.sort(train) for train, _ in splits),
        tuple(np.sort(test) for _, test in splits),
        None
        if partition.distribution is None
        else tuple(partition.distribution[client] for client in order),
    )


def _split(
    name: ClientId, samples: IntArray, test_fraction: float, seed: int
) -> tuple[IntArray, IntArray]:
    if len(samples) < LEAST:
        raise DataError(
            f"client '{name}' has {len(samples)} samples: it needs at least {LEAST}, one to train and one to test on"
        )
    shuffled = rng.stream(seed, "split", name).permutation(samples)
    return _cut(shuffled, test_fraction)


def _hold_out(name: ClientId, train: IntArray, fraction: float) -> tuple[IntArray, IntArray]:
    if len(train) < LEAST:
        raise DataError(
            f"client '{name}' has one training sample: to hold a part out for validation it needs at least {LEAST}; "
            "share the data out among fewer clients, or more evenly"
        )
    return _cut(train, fraction)


def _cut(shuffled: IntArray, fraction: float) -> tuple[IntArray, IntArray]:
    """All but a part, and that part, none of them empty."""
    count = int(np.clip(round(fraction * len(shuffled)), 1, len(shuffled) - 1))
    return shuffled[count:], shuffled[:count]


def clients(dataset: Dataset, shares: Shares) -> list[Client]:
    """Each client with its own samples; a table is filled and scaled by what its owner's training part shows."""
    groups = shares.distribution or (None,) * len(shares.ids)
    result = []
    for name, train, test, group in zip(shares.ids, shares.train, shares.test, groups, strict=True):
        if max(train.max(), test.max()) >= len(dataset):
            raise DataError(
                f"client '{name}' has samples beyond the {len(dataset)} of the data: it has changed since"
            )
        client = Client(name, dataset.samples.take(train), dataset.samples.take(test), group)
        result.append(_standardized(client) if dataset.schema.columns else client)
    return result


def _standardized(client: Client) -> Client:
    standardizer = fit_standardizer(client.train.x)
    train, test = (Samples(standardizer(part.x), part.y) for part in (client.train, client.test))
    return Client(client.id, train, test, client.distribution, standardizer)


def fit_standardizer(x: Array) -> Standardizer:
    """What fills the gaps of these inputs and gives each of them mean 0 and spread 1.

    An input that is never there is filled with 0; one that never changes is centred and not scaled.
    """
    never = np.isnan(x).all(axis=0)
    median = np.nanmedian(np.where(never, 0.0, x), axis=0)
    filled = np.where(np.isnan(x), median, x)
    # Compared by range: rounding can give a constant a tiny spread, which would blow up a new value.
    scale = np.where(np.ptp(filled, axis=0) == 0, 1.0, filled.std(axis=0))
    return Standardizer(median, filled.mean(axis=0), scale)


def warnings_for(clients: list[Client], schema: Schema) -> list[str]:
    """What is allowed but may surprise: clients with fewer training samples than there are classes."""
    if schema.task == "regression":
        return []
    return [
        f"client '{client.id}' has {len(client.train)} training samples for {schema.outputs} classes"
        for client in clients
        if len(client.train) < schema.outputs
    ]
