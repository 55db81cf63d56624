import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from federico.data.dataset import Dataset, Samples, Schema
from federico.data.partition import (
    Dirichlet,
    Iid,
    LabelGroups,
    Natural,
    Partition,
    Partitioning,
    PartitionOptions,
    Rotated,
    Shards,
    numbered_ids,
    subsample,
)
from federico.errors import ConfigError, DataError
from federico.types import IntArray

GOLDEN = "451a3d8bb1fa47854648ef854b6142ee62fa823fce14b5e50c165947bf034364"
LABELS = np.random.default_rng(0).integers(10, size=600)
OWNERS = np.array(["north", "south", "west"])[LABELS % 3]

seeds = st.integers(0, 2**32)
counts = st.integers(1, 12)
cutters = st.one_of(
    st.builds(
        lambda clients, groups: LabelGroups(clients=clients, groups=min(clients, groups)),
        counts,
        counts.filter(lambda g: g <= 10),
    ),
    st.builds(lambda clients: Dirichlet(clients=clients, alpha=5), counts),
    st.builds(lambda clients: Iid(clients=clients), counts),
    st.builds(lambda clients: Rotated(clients=clients), counts),
    st.builds(
        lambda clients, shards: Shards(clients=clients, shards_per_client=shards),
        counts,
        st.integers(1, 4),
    ),
    st.builds(lambda clients: Natural(clients_per_group=clients), counts),
)


def labels_seen(partition: Partition, labels: IntArray) -> list[set[int]]:
    return [set(labels[index].tolist()) for index in partition.indices]


@given(cutters, seeds)
def test_each_sample_goes_to_exactly_one_client(cutter: PartitionOptions, seed: int) -> None:
    partition = cutter.cut(LABELS, OWNERS, seed)
    dealt = np.concatenate(partition.indices)
    assert sorted(dealt) == list(range(len(LABELS)))
    assert min(map(len, partition.indices)) > 0
    assert all((np.diff(index) > 0).all() for index in partition.indices)


@given(cutters, seeds)
def test_a_cut_is_pure_and_its_names_are_sorted(cutter: PartitionOptions, seed: int) -> None:
    partition = cutter.cut(LABELS, OWNERS, seed)
    assert partition.hash == cutter.cut(LABELS.copy(), OWNERS.copy(), seed).hash
    assert list(partition.ids) == sorted(partition.ids)


@pytest.mark.parametrize(
    "cutter", [LabelGroups(), Dirichlet(), Iid(), Shards(), Natural(clients_per_group=2)]
)
def test_another_seed_cuts_otherwise(cutter: PartitionOptions) -> None:
    assert cutter.cut(LABELS, OWNERS, 1).hash != cutter.cut(LABELS, OWNERS, 2).hash


@given(st.integers(1, 8), seeds)
def test_every_group_has_a_client_and_its_own_labels(groups: int, seed: int) -> None:
    partition = LabelGroups(clients=8, groups=groups).cut(LABELS, None, seed)
    assert partition.distribution is not None
    assert set(partition.distribution) == set(range(groups))
    labels_of: dict[int, set[int]] = {group: set() for group in range(groups)}
    for seen, group in zip(labels_seen(partition, LABELS), partition.distribution, strict=True):
        labels_of[group] |= seen
    assert sorted(label for labels in labels_of.values() for label in labels) == list(range(10))


def test_groups_have_near_equal_numbers_of_labels_and_even_shares() -> None:
    partition = LabelGroups(clients=8, groups=4).cut(LABELS, None, 3)
    assert partition.distribution is not None
    by_group: dict[int, list[int]] = {group: [] for group in range(4)}
    for index, group in zip(partition.indices, partition.distribution, strict=True):
        by_group[group].append(len(index))
    assert {len(labels) for labels in labels_seen(partition, LABELS)} == {2, 3}
    assert all(max(sizes) - min(sizes) <= 1 for sizes in by_group.values())


def test_small_alpha_is_more_uneven_than_large() -> None:
    small, large = (Dirichlet(clients=4, alpha=alpha).cut(LABELS, None, 0) for alpha in (0.5, 500))
    assert np.std([len(index) for index in small.indices]) > 5 * np.std(
        [len(index) for index in large.indices]
    )


def test_samples_of_one_cluster_keep_its_proportions() -> None:
    """With one cluster for all labels, a client has the same share of every label."""
    common = Dirichlet(clients=4, clusters=1, alpha=1).cut(np.sort(LABELS), None, 1)
    shares = np.array(
        [np.bincount(np.sort(LABELS)[index], minlength=10) for index in common.indices]
    )
    proportions = shares / shares.sum(axis=0)
    assert proportions.std(axis=1).max() < 0.15


def test_hopeless_dirichlet_gives_up_with_a_remedy() -> None:
    with pytest.raises(ConfigError, match=r"alpha = 0\.001 left a client .* raise alpha"):
        Dirichlet(clients=12, alpha=0.001).cut(LABELS, None, 0)


def test_redrawing_leaves_enough_to_train_and_test() -> None:
    smallest = [
        min(map(len, Dirichlet(clients=10, alpha=0.1).cut(LABELS, None, seed).indices))
        for seed in range(20)
    ]
    assert min(smallest) >= 2


def test_shards_bound_the_labels_of_a_client() -> None:
    even = np.repeat(np.arange(10), 20)
    partition = Shards(clients=5, shards_per_client=2).cut(even, None, 0)
    assert all(len(seen) <= 2 for seen in labels_seen(partition, even))


def test_iid_shares_are_even() -> None:
    assert (
        sorted(len(index) for index in Iid(clients=7).cut(LABELS, None, 0).indices)
        == [85, 85] + [86] * 5
    )


def test_natural_clients_are_the_owners() -> None:
    partition = Natural().cut(LABELS, OWNERS, 0)
    assert partition.ids == ("north", "south", "west")
    assert partition.distribution == (0, 1, 2)
    assert all(
        set(OWNERS[index]) == {name}
        for name, index in zip(partition.ids, partition.indices, strict=True)
    )


def test_natural_owners_can_be_split() -> None:
    partition = Natural(clients_per_group=2).cut(LABELS, OWNERS, 0)
    assert partition.ids == ("north-1", "north-2", "south-1", "south-2", "west-1", "west-2")
    assert partition.distribution == (0, 0, 1, 1, 2, 2)


def test_one_owners_split_does_not_depend_on_the_others() -> None:
    without = np.where(OWNERS == "west", "east", OWNERS)
    one, other = (
        Natural(clients_per_group=2).cut(LABELS, owners, 0) for owners in (OWNERS, without)
    )
    np.testing.assert_array_equal(one.indices[0], other.indices[other.ids.index("north-1")])


@pytest.mark.parametrize(
    ("cutter", "message"),
    [
        (LabelGroups(clients=20, groups=11), "groups = 11: the data has only 10 different labels"),
        (Dirichlet(clusters=11), "clusters = 11: the data has only 10 different labels"),
        (LabelGroups(clients=601), "clients = 601: there are only 600 samples"),
        (Dirichlet(clients=601), "clients = 601: there are only 600 samples"),
        (Iid(clients=601), "clients = 601: there are only 600 samples"),
        (Shards(clients=301), "clients x shards_per_client = 602: there are only 600 samples"),
        (Natural(), "kind = natural: .* set its 'client' option"),
    ],
)
def test_options_the_data_cannot_meet_are_refused(cutter: PartitionOptions, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cutter.cut(LABELS, None, 0)


def test_an_owner_with_too_few_samples_is_named() -> None:
    owners = np.where(np.arange(600) == 0, "tiny", OWNERS)
    with pytest.raises(ConfigError, match="clients_per_group = 2: 'tiny' has only 1 samples"):
        Natural(clients_per_group=2).cut(LABELS, owners, 0)


def test_more_groups_than_clients_are_refused_when_written_down() -> None:
    with pytest.raises(ValidationError, match="groups = 3 is more than clients = 2"):
        LabelGroups(clients=2, groups=3)


def test_clients_of_one_name_are_refused() -> None:
    with pytest.raises(DataError, match="2 clients are named 'a'"):
        Partition(("a", "b", "a"), (np.array([0]), np.array([1]), np.array([2])))


def test_the_hash_sees_names_and_borders() -> None:
    a, b = np.array([0, 1]), np.array([2])
    hashes = {
        Partition(("x", "y"), (a, b)).hash,
        Partition(("y", "x"), (a, b)).hash,
        Partition(("x", "y"), (np.array([0]), np.array([1, 2]))).hash,
    }
    assert len(hashes) == 3


def test_the_hash_of_a_cut_stays_the_same_for_ever() -> None:
    assert LabelGroups().cut(np.arange(100) % 10, None, 7).hash == GOLDEN


def test_numbers_sort_as_names() -> None:
    assert numbered_ids(8)[-1] == "7"
    assert (numbered_ids(12)[0], numbered_ids(12)[-1]) == ("00", "11")
    assert numbered_ids(10, start=1)[0] == "01"


def test_kind_picks_the_options() -> None:
    adapter: TypeAdapter[PartitionOptions] = TypeAdapter(Partitioning)
    assert adapter.validate_python({"kind": "shards", "clients": 3}) == Shards(clients=3)


def test_subsamples_are_drawn_once_in_order_with_their_owners() -> None:
    x = np.arange(50.0)[:, None]
    dataset = Dataset(
        Samples(x, np.arange(50) % 5), Schema("classification", (1,), 5), np.arange(50).astype(str)
    )
    few = subsample(dataset, 20, 0)
    assert len(few) == 20
    assert (np.diff(few.samples.x[:, 0]) > 0).all()
    assert few.owners is not None
    np.testing.assert_array_equal(few.owners.astype(float), few.samples.x[:, 0])
    np.testing.assert_array_equal(few.samples.x, subsample(dataset, 20, 0).samples.x)
    assert not np.array_equal(few.samples.x, subsample(dataset, 20, 1).samples.x)


def test_no_more_samples_than_there_are() -> None:
    dataset = Dataset(
        Samples(np.zeros((3, 1)), np.zeros(3, dtype=int)), Schema("classification", (1,), 1)
    )
    with pytest.raises(ConfigError, match="samples = 4: the data holds 3"):
        subsample(dataset, 4, 0)


def test_owners_with_too_few_samples_are_left_out() -> None:
    owners = np.array(["north"] * 5 + ["south"] * 3 + ["west"] * 4)
    partition = Natural(min_samples=4).cut(np.zeros(12, int), owners, 0)
    assert partition.ids == ("north", "west")
    assert [len(index) for index in partition.indices] == [5, 4]

    with pytest.raises(ConfigError, match="min_samples = 6: no owner has as many samples"):
        Natural(min_samples=6).cut(np.zeros(12, int), owners, 0)
