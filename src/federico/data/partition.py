"""Which client gets which samples: pure functions of the labels (or owners) and the seed."""

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

MOST_DRAWS = 100
"""How often a random partition is drawn again before its options are refused."""

LEAST_SAMPLES = 2
"""Samples that every client needs: one to train on, one to test on."""


@dataclass(frozen=True, eq=False)
class Partition:
    """The positions of each client's samples in the dataset."""

    ids: tuple[ClientId, ...]
    indices: tuple[IntArray, ...]
    """The positions of each client's samples, ascending; no position occurs twice."""
    distribution: tuple[int, ...] | None = None
    """The true group of each client, where the partition has groups: for reports only."""
    quarter_turns: tuple[int, ...] | None = None
    """How often each client's images are turned by 90 degrees; None where nobody's are."""

    def __post_init__(self) -> None:
        refuse_duplicate_ids(self.ids)

    @property
    def hash(self) -> str:
        """Equal for two partitions exactly if they give the same samples to the same names."""
        return hash_of_positions(self.ids, self.indices)


def refuse_duplicate_ids(ids: Iterable[ClientId]) -> None:
    """Refuse two clients of one name: everybody else would take them for the same peer."""
    for name, count in Counter(ids).items():
        if count > 1:
            raise DataError(
                f"{count} clients are named '{name}': give every client a name of its own"
            )


def hash_of_positions(ids: Iterable[ClientId], *positions: Iterable[IntArray]) -> str:
    """SHA-256 over the clients' names and one or more arrays of positions for each of them."""
    result = hashlib.sha256()
    for name, *arrays in zip(ids, *positions, strict=True):
        # Positions are hashed in one byte order, so that the hash is the same on every machine.
        items = [name.encode()]
        items += [array.astype("<i8").tobytes() for array in arrays]

        # The length before each item keeps two different divisions of the same bytes apart.
        for item in items:
            result.update(len(item).to_bytes(8, "little") + item)
    return result.hexdigest()


def numbered_ids(count: int, start: int = 0) -> tuple[ClientId, ...]:
    """Consecutive numbers as names of equal width, so that sorting the names sorts the numbers."""
    width = len(str(start + count - 1))
    return tuple(f"{number:0{width}}" for number in range(start, start + count))


def subsample(dataset: Dataset, count: int, seed: int) -> Dataset:
    """A dataset of `count` of the samples, drawn at random and kept in their order."""
    if count > len(dataset):
        raise ConfigError(
            f"samples = {count}: the data holds {len(dataset)}: ask for no more than that"
        )
    draw = rng.stream(seed, "subsample")
    index = np.sort(draw.choice(len(dataset), count, replace=False))
    return dataset.take(index)


class PartitionOptions(Options, ABC):
    """How the samples are divided among clients."""

    @abstractmethod
    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """Every client's samples; always the same for the same labels, owners and seed."""

    @property
    def draws_clients(self) -> bool:
        """Whether another seed gives other clients, though they have the same names."""
        return True


class _PartitionIntoClients(PartitionOptions):
    clients: int = Field(default=8, ge=1)
    """Number of clients."""

    def _refuse_too_few(self, samples: int) -> None:
        if self.clients > samples:
            raise ConfigError(
                f"clients = {self.clients}: there are only {samples} samples: ask for fewer clients"
            )


class LabelGroups(_PartitionIntoClients):
    """The labels are divided into groups, and each client sees the labels of one group only."""

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
        """Each client draws a group at random; the samples of a group are divided evenly."""
        self._refuse_too_few(len(labels))
        draw = rng.stream(seed, "partition", self.kind)
        labels_of_group = _divide_labels(labels, self.groups, "groups", draw)
        group_of_client = self._draw_groups(draw)

        samples_of_client: dict[int, IntArray] = {}
        for group, group_labels in enumerate(labels_of_group):
            samples = np.flatnonzero(np.isin(labels, group_labels))
            clients = np.flatnonzero(group_of_client == group)
            parts = _divide_evenly(samples, len(clients), draw)
            samples_of_client.update(zip(clients.tolist(), parts, strict=True))

        indices = tuple(samples_of_client[client] for client in range(self.clients))
        distribution = tuple(int(group) for group in group_of_client)
        return Partition(numbered_ids(self.clients), indices, distribution)

    def _draw_groups(self, draw: np.random.Generator) -> IntArray:
        """The group of each client, every group at least once."""
        once_each = np.arange(self.groups)
        free = draw.integers(self.groups, size=self.clients - self.groups)
        return draw.permutation(np.concatenate([once_each, free]))


class Dirichlet(_PartitionIntoClients):
    """The labels are divided into clusters, and each cluster is divided unevenly, as in FedEM."""

    kind: Literal["dirichlet"] = "dirichlet"
    """Each cluster of labels is divided unevenly among all clients."""
    clusters: int = Field(default=4, ge=1)
    """Number of clusters that the labels are divided into."""
    alpha: float = Field(default=0.4, gt=0)
    """How even the division is: small is uneven, large tends to equal parts."""

    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """Drawn again as long as some client has too few samples to train and to test on."""
        self._refuse_too_few(len(labels))
        draw = rng.stream(seed, "partition", self.kind)
        for _ in range(MOST_DRAWS):
            indices = self._draw(labels, draw)
            fewest = min(len(index) for index in indices)
            if fewest >= LEAST_SAMPLES:
                return Partition(numbered_ids(self.clients), tuple(indices))
        raise ConfigError(
            f"alpha = {self.alpha:g} left a client with fewer than {LEAST_SAMPLES} samples "
            f"in each of {MOST_DRAWS} draws: raise alpha, or ask for fewer clients"
        )

    def _draw(self, labels: IntArray, draw: np.random.Generator) -> list[IntArray]:
        """One random division: the positions of each client's samples."""
        parts_by_cluster: list[list[IntArray]] = []
        for cluster_labels in _divide_labels(labels, self.clusters, "clusters", draw):
            cluster = np.flatnonzero(np.isin(labels, cluster_labels))
            samples = draw.permutation(cluster)
            proportions = draw.dirichlet(np.full(self.clients, self.alpha))
            counts = draw.multinomial(len(samples), proportions)
            ends = np.cumsum(counts)
            parts_by_cluster.append(np.split(samples, ends[:-1]))

        # A client has one part of every cluster.
        parts_by_client = zip(*parts_by_cluster, strict=True)
        return [np.sort(np.concatenate(parts)) for parts in parts_by_client]


class Iid(_PartitionIntoClients):
    """Every client draws from the same distribution: samples are divided at random and evenly."""

    kind: Literal["iid"] = "iid"
    """Samples are divided at random into equal parts."""

    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """The numbers of samples of two clients differ by one at most."""
        self._refuse_too_few(len(labels))
        draw = rng.stream(seed, "partition", self.kind)
        everything = np.arange(len(labels))
        parts = _divide_evenly(everything, self.clients, draw)
        return Partition(numbered_ids(self.clients), tuple(parts))


class Rotated(_PartitionIntoClients):
    """Everybody draws from the same images, but clients see them turned by different angles.

    The labels of all clients are alike and their inputs are not, which is what label groups and
    Dirichlet divisions do not have.
    """

    kind: Literal["rotated"] = "rotated"
    """Samples are divided at random into equal parts, and each client's images are turned."""
    rotations: int = Field(default=4, ge=2, le=4)
    """Number of different angles, which is the number of distributions: client i sees its images
    turned by 90 degrees x (i mod rotations). Images must be square; inputs without axes of their
    own, such as the 64 pixels of a digit, are taken for one square image."""

    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """Divided as `iid` does; the number of quarter turns is also the client's distribution."""
        self._refuse_too_few(len(labels))
        draw = rng.stream(seed, "partition", self.kind)
        everything = np.arange(len(labels))
        parts = _divide_evenly(everything, self.clients, draw)
        turns: list[int] = []
        for client in range(self.clients):
            turns.append(client % self.rotations)
        return Partition(
            ids=numbered_ids(self.clients),
            indices=tuple(parts),
            distribution=tuple(turns),
            quarter_turns=tuple(turns),
        )


class Shards(_PartitionIntoClients):
    """Samples sorted by label are cut into shards, and each client gets a few of them.

    This is the pathological split of the first papers on federated learning.
    """

    kind: Literal["shards"] = "shards"
    """Each client gets a few shards of the samples sorted by label."""
    shards_per_client: int = Field(default=2, ge=1)
    """Number of shards each client gets, which bounds the number of labels it sees."""

    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """Shards differ by one sample at most; which samples of a label they hold is random."""
        shard_count = self.clients * self.shards_per_client
        if shard_count > len(labels):
            raise ConfigError(
                f"clients x shards_per_client = {shard_count}: "
                f"there are only {len(labels)} samples: lower one"
            )
        draw = rng.stream(seed, "partition", self.kind)

        # Shuffling before the stable sort makes the order within a label random.
        shuffled = draw.permutation(len(labels))
        order = np.argsort(labels[shuffled], kind="stable")
        by_label = shuffled[order]
        shards = np.array_split(by_label, shard_count)

        dealt = draw.permutation(shard_count)
        indices: list[IntArray] = []
        for numbers in dealt.reshape(self.clients, self.shards_per_client):
            own_shards = [shards[number] for number in numbers]
            indices.append(np.sort(np.concatenate(own_shards)))
        return Partition(numbered_ids(self.clients), tuple(indices))


class Natural(PartitionOptions):
    """The data says who owns each sample: a hospital, a person, a file."""

    kind: Literal["natural"] = "natural"
    """Each owner named by the data becomes a client."""
    clients_per_group: int = Field(default=1, ge=1)
    """Number of clients that each owner's samples are divided among."""
    min_samples: int = Field(default=1, ge=1)
    """Owners with fewer samples than this are left out."""

    def cut(self, labels: IntArray, owners: Array | None, seed: int) -> Partition:
        """Clients in the order of their owners' names, with the owner's number as distribution."""
        if owners is None:
            raise ConfigError(
                "kind = natural: the data does not say who owns each sample: "
                "set its 'client' option"
            )
        names, owner_of_sample, counts = np.unique(owners, return_inverse=True, return_counts=True)

        # One sort instead of a search per owner: there may be ten thousand of them. It is stable,
        # so that the samples of an owner stay in ascending order.
        by_owner = np.argsort(owner_of_sample, kind="stable")
        samples_of_owner = np.split(by_owner, np.cumsum(counts)[:-1])

        ids: list[ClientId] = []
        indices: list[IntArray] = []
        distribution: list[int] = []
        for owner, name in enumerate(map(str, names)):
            if counts[owner] < self.min_samples:
                continue
            ids += self._ids(name)
            indices += self._divide(samples_of_owner[owner], name, seed)
            distribution += [owner] * self.clients_per_group
        if not ids:
            raise ConfigError(
                f"min_samples = {self.min_samples}: no owner has as many samples: lower it"
            )
        return Partition(tuple(ids), tuple(indices), tuple(distribution))

    @property
    def draws_clients(self) -> bool:
        """An owner stays the same; only the parts of a divided one are drawn."""
        return self.clients_per_group > 1

    def _ids(self, name: str) -> list[ClientId]:
        if self.clients_per_group == 1:
            return [name]
        return [f"{name}-{number}" for number in numbered_ids(self.clients_per_group, start=1)]

    def _divide(self, samples: IntArray, name: str, seed: int) -> list[IntArray]:
        """One owner's samples divided among its clients; other owners have no part in the draw."""
        if self.clients_per_group > len(samples):
            raise ConfigError(
                f"clients_per_group = {self.clients_per_group}: "
                f"'{name}' has only {len(samples)} samples: lower it"
            )
        draw = rng.stream(seed, "partition", self.kind, name)
        return _divide_evenly(samples, self.clients_per_group, draw)


Partitioning: TypeAlias = Annotated[
    LabelGroups | Dirichlet | Iid | Rotated | Shards | Natural, Field(discriminator="kind")
]
"""The partition of an experiment; `kind` says which options go with it."""


def _divide_evenly(samples: IntArray, count: int, draw: np.random.Generator) -> list[IntArray]:
    """The samples divided at random into parts whose sizes differ by one at most."""
    parts = np.array_split(draw.permutation(samples), count)
    return [np.sort(part) for part in parts]


def _divide_labels(
    labels: IntArray, count: int, option: str, draw: np.random.Generator
) -> list[IntArray]:
    """The different labels divided at random into sets of nearly equal size."""
    present = np.unique(labels)
    if count > len(present):
        raise ConfigError(
            f"{option} = {count}: the data has only {len(present)} different labels: lower it"
        )
    return np.array_split(draw.permutation(present), count)
