from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from federico.data.sources import Digits


def test_pixels_are_scaled_and_labels_named() -> None:
    dataset = Digits().load(Path(), 0)
    assert (dataset.samples.x.shape, dataset.samples.x.dtype) == ((1797, 64), np.float32)
    assert (dataset.samples.x.min(), dataset.samples.x.max()) == (0, 1)
    assert dataset.schema.label_names == tuple("0123456789")
    assert dataset.labels[:4].tolist() == [0, 1, 2, 3]


def test_noise_has_the_spread_asked_and_follows_the_seed() -> None:
    clean, noisy = Digits().load(Path(), 0).samples.x, Digits(noise=0.5).load(Path(), 0).samples.x
    assert (noisy - clean).std() == pytest.approx(0.5, rel=0.01)
    np.testing.assert_array_equal(noisy, Digits(noise=0.5).load(Path(), 0).samples.x)
    assert not np.array_equal(noisy, Digits(noise=0.5).load(Path(), 1).samples.x)


def test_negative_noise_is_refused() -> None:
    with pytest.raises(ValidationError, match="noise"):
        Digits(noise=-1)
