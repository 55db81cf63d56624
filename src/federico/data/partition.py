"""Who gets which samples: pure functions of the labels (or owners) and the seed."""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from federico import rng
from federico.data.dataset import Dataset
from federico.errors import ConfigError, DataError
from federico.options import Options
from federico.types import Array, ClientId, IntArray

TRIES = 100
"""How often a random cut is drawn again before it is refused."""
LEAST = 2
"""Samples a client needs: one to train on, one to test on."""


@dataclass(frozen=True, eq=False)
class Partition:
    """The positions of each client's samples, ascending, no position twice."""

    ids: tuple[ClientId, ...]
    indices: tuple[IntArray, ...]
    distribution: tuple[int, ...] | None = None
    """The true group of each client, where the partition has groups."""

    def __post_init__(self) -> None:
        refuse_twins(self.ids)

    @property
    def hash(self) -> str:
        """The same for two partitions if and only if they give the same samples to the same names."""
        return digest(self.ids, self.indices)


def refuse_twins(ids: Iterable[ClientId]) -> None:
    """Two clients of one name would be one peer to everybody else."""
    for name, count in Counter(ids).items():
        if count > 1:
            raise DataError(
                f"{count} clients are named '{name}': give every client a name of its own"
            )


def digest(ids: Iterable[ClientId], *shares: Iterable[IntArray]) -> str:
    """SHA-256 over names and positions, lengths included so that no two layouts read alike."""
    result = hashlib.sha256()
    for name, *parts in zip(ids, *shares, strict=True):
        for item in (name.encode(), *(part.astype("<i8").tobytes() for part in parts)):
            result.update(len(item).to_bytes(8, "little") + item)
    return result.hexdigest()


def numbered(count: int, start: int = 0) -> tuple[ClientId, ...]:
    """Numbers as names of equal width, so that sorting the names sorts the numbers."""
    width = len(str(start + count - 1))
    return tuple(f"{number:0{width}}" for number in range(start, start + count))


def subsample(dataset: Dataset, count: int, seed: int) -> Dataset:
    """Draw this many of the samples at random, in their old order."""
    if count > len(dataset):
        raise ConfigError(
            f"samples = {count}: the data holds {len(dataset)}: ask for no more than that"
        )
    index = np.sort(rng.stream(seed, "subsample").choice(len(dataset), count, replace=False))
    owners = None if dataset.owners is None else dataset.owners[index]
    return Dataset(dataset.samples.take(index), dataset.schema, owners)


class PartitionOptions(Options, ABC):
    """How the samples are shared out among clients."""

    @abstractmethod
    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """Every client's share; the same for the same labels, owners and seed."""


class _Counted(PartitionOptions):
    clients: int = Field(default=8, ge=1)
    """Number of clients."""

    def _refuse_too_few(self, samples: int) -> None:
        if self.clients > samples:
            raise ConfigError(
                f"clients = {self.clients}: there are only {samples} samples: ask for fewer clients"
            )


class LabelGroups(_Counted):
    """Labels are dealt into groups, and each client sees the labels of one group only."""

    kind: Literal["label-groups"] = "label-groups"
    """Each client sees the labels of one group only."""
    groups: int = Field(default=2, ge=1)
    """Number of label groups, which is the number of different distributions among the clients."""

    @model_validator(mode="after")
    def _every_group_has_a_client(self) -> Self:
        if self.groups > self.clients:
            raise ValueError(
                f"groups = {self.groups} is more than clients = {self.clients}: lower it"
            )
        return self

    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """Each client draws a group at random, each group at least once; a group's samples are split evenly."""
        self._refuse_too_few(len(labels))
        draw = rng.stream(seed, "partition", self.kind)
        groups = _label_sets(labels, self.groups, "groups", draw)
        group_of = self._draw_groups(draw)
        shares: dict[int, IntArray] = {}
        for group, members in enumerate(groups):
            mine = np.flatnonzero(group_of == group)
            shares |= zip(
                mine, _deal(np.flatnonzero(np.isin(labels, members)), len(mine), draw), strict=True
            )
        indices = tuple(shares[client] for client in range(self.clients))
        return Partition(numbered(self.clients), indices, tuple(map(int, group_of)))

    def _draw_groups(self, draw: np.random.Generator) -> IntArray:
        """The group of each client, every group at least once."""
        free = draw.integers(self.groups, size=self.clients - self.groups)
        return draw.permutation(np.concatenate([np.arange(self.groups), free]))


class Dirichlet(_Counted):
    """Labels are cut into clusters, and each cluster is shared out unevenly, as in FedEM."""

    kind: Literal["dirichlet"] = "dirichlet"
    """Each cluster of labels is shared out unevenly among all clients."""
    clusters: int = Field(default=4, ge=1)
    """Number of clusters the labels are cut into."""
    alpha: float = Field(default=0.4, gt=0)
    """How even the shares are: small is uneven, large tends to equal shares."""

    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """Drawn again as long as a client has too few samples to train and to test on."""
        self._refuse_too_few(len(labels))
        draw = rng.stream(seed, "partition", self.kind)
        for _ in range(TRIES):
            indices = self._draw(labels, draw)
            if min(map(len, indices)) >= LEAST:
                return Partition(numbered(self.clients), tuple(indices))
        raise ConfigError(
            f"alpha = {self.alpha:g} left a client with fewer than {LEAST} samples in each of {TRIES} draws: "
            "raise alpha, or ask for fewer clients"
        )

    def _draw(self, labels: IntArray, draw: np.random.Generator) -> list[IntArray]:
        shares: list[list[IntArray]] = []
        for members in _label_sets(labels, self.clusters, "clusters", draw):
            cluster = draw.permutation(np.flatnonzero(np.isin(labels, members)))
            counts = draw.multinomial(
                len(cluster), draw.dirichlet(np.full(self.clients, self.alpha))
            )
            shares.append(np.split(cluster, np.cumsum(counts)[:-1]))
        return [np.sort(np.concatenate(parts)) for parts in zip(*shares, strict=True)]


class Iid(_Counted):
    """Every client draws from the same distribution: samples are dealt at random in equal shares."""

    kind: Literal["iid"] = "iid"
    """Samples are dealt at random in equal shares."""

    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """Shares differ by one sample at most."""
        self._refuse_too_few(len(labels))
        draw = rng.stream(seed, "partition", self.kind)
        return Partition(
            numbered(self.clients), tuple(_deal(np.arange(len(labels)), self.clients, draw))
        )


class Shards(_Counted):
    """Samples sorted by label are cut into shards, and each client gets a few of them: the pathological split."""

    kind: Literal["shards"] = "shards"
    """Each client gets a few shards of the samples sorted by label."""
    shards_per_client: int = Field(default=2, ge=1)
    """Number of shards each client gets, which bounds the number of labels it sees."""

    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """Shards differ by one sample at most; samples of one label are shuffled before they are cut."""
        total = self.clients * self.shards_per_client
        if total > len(labels):
            raise ConfigError(
                f"clients x shards_per_client = {total}: there are only {len(labels)} samples: lower one"
            )
        draw = rng.stream(seed, "partition", self.kind)
        shuffled = draw.permutation(len(labels))
        shards = np.array_split(shuffled[np.argsort(labels[shuffled], kind="stable")], total)
        hands = draw.permutation(total).reshape(self.clients, self.shards_per_client)
        indices = tuple(
            np.sort(np.concatenate([shards[shard] for shard in hand])) for hand in hands
        )
        return Partition(numbered(self.clients), indices)


class Natural(PartitionOptions):
    """The data says whose each sample is: a hospital, a person, a file."""

    kind: Literal["natural"] = "natural"
    """Each owner named by the data becomes a client."""
    clients_per_group: int = Field(default=1, ge=1)
    """Number of clients each owner's samples are split into."""

    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """Owners in order of their names; the clients of one owner share its number as their distribution."""
        if owners is None:
            raise ConfigError(
                "kind = natural: the data does not say whose each sample is: set its 'client' option"
            )
        names, group_of = np.unique(owners, return_inverse=True)
        ids: list[ClientId] = []
        indices: list[IntArray] = []
        for group, name in enumerate(map(str, names)):
            draw = rng.stream(seed, "partition", self.kind, name)
            ids += self._ids(name)
            indices += self._split(np.flatnonzero(group_of == group), name, draw)
        distribution = np.repeat(np.arange(len(names)), self.clients_per_group)
        return Partition(tuple(ids), tuple(indices), tuple(map(int, distribution)))

    def _ids(self, name: str) -> list[ClientId]:
        if self.clients_per_group == 1:
            return [name]
        return [f"{name}-{number}" for number in numbered(self.clients_per_group, start=1)]

    def _split(self, mine: IntArray, name: str, draw: np.random.Generator) -> list[IntArray]:
        if self.clients_per_group > len(mine):
            raise ConfigError(
                f"clients_per_group = {self.clients_per_group}: '{name}' has only {len(mine)} samples: lower it"
            )
        return _deal(mine, self.clients_per_group, draw)


Partitioning: TypeAlias = Annotated[
    LabelGroups | Dirichlet | Iid | Shards | Natural, Field(discriminator="kind")
]
"""The partition of an experiment; `kind` says which options go with it."""


def _deal(samples: IntArray, hands: int, draw: np.random.Generator) -> list[IntArray]:
    """Random shares whose sizes differ by one at most."""
    return [np.sort(share) for share in np.array_split(draw.permutation(samples), hands)]


def _label_sets(
    labels: IntArray, count: int, option: str, draw: np.random.Generator
) -> list[IntArray]:
    """The labels shuffled and cut into sets of near-equal size."""
    present = np.unique(labels)
    if count > len(present):
        raise ConfigError(
            f"{option} = {count}: the data has only {len(present)} different labels: lower it"
        )
    return np.array_split(draw.permutation(present), count)
