from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from federico.data.partition import Natural
from federico.data.sources import Sine


def test_each_client_owns_one_interval_of_the_wave() -> None:
    dataset = Sine(clients=12, samples_per_client=10).load(Path(), 0)
    partition = Natural().cut(dataset.labels, dataset.owners, 0)
    assert (partition.ids[0], partition.ids[-1]) == ("00", "11")
    edges = [
        (dataset.samples.x[index].min(), dataset.samples.x[index].max())
        for index in partition.indices
    ]
    assert edges[0][0] == 0
    assert edges[-1][1] == pytest.approx(2 * np.pi)
    assert all(left[1] < right[0] for left, right in pairwise(edges))


def test_without_noise_it_is_the_sine() -> None:
    samples = Sine(noise=0, cycles=2).load(Path(), 0).samples
    np.testing.assert_array_equal(samples.y, np.sin(samples.x))
    assert samples.x.max() == pytest.approx(4 * np.pi)


def test_noise_has_the_spread_asked_and_follows_the_seed() -> None:
    one, two = (
        Sine(samples_per_client=1000, noise=0.3).load(Path(), seed).samples for seed in (1, 2)
    )
    assert (one.y - np.sin(one.x)).std() == pytest.approx(0.3, rel=0.05)
    assert not np.array_equal(one.y, two.y)
