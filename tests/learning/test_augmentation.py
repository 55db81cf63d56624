"""Augmented images: what is drawn, and that it does not depend on who else is in a batch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import federico
from federico.errors import ConfigError
from federico.experiment.build import prepare
from federico.experiment.config import validate
from federico.learning.augmentation import Augmentation
from federico.types import Array

SIZE = 8


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


@pytest.fixture
def images() -> Tensor:
    return torch.arange(2 * 4 * 3 * 5 * 5, dtype=torch.float32).view(2, 4, 3, 5, 5)


def test_half_of_the_images_are_mirrored(images: Tensor) -> None:
    flipped = Augmentation(flip=True).batch(images[:1].repeat(1, 50, 1, 1, 1), [generator()], 200)
    original = images[:1].repeat(1, 50, 1, 1, 1)
    same = (flipped == original).flatten(2).all(2)
    mirrored = (flipped == original.flip(-1)).flatten(2).all(2)
    assert (same ^ mirrored).all()
    assert 70 < int(mirrored.sum()) < 130


def test_a_shift_moves_all_channels_alike_and_repeats_edges(images: Tensor) -> None:
    shifted = Augmentation(shift=2).batch(images, [generator(), generator()], SIZE)
    difference = shifted - images
    assert torch.equal(difference[:, :, 0], difference[:, :, 1])
    assert shifted.min() >= images.min()
    assert not torch.equal(shifted, images)


def test_what_a_visit_draws_does_not_depend_on_the_others(images: Tensor) -> None:
    everything = Augmentation(flip=True, shift=1, noise=0.1)
    together = everything.batch(images, [generator(), generator()], SIZE)
    alone = everything.batch(images[:1, :3], [generator()], SIZE)
    assert torch.equal(together[:1, :3], alone)


def test_it_changes_training_and_resumes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    clients = {}
    for name in ("a", "b"):
        x = random.normal(size=(30, 1, 6, 6)).astype(np.float32)
        clients[name] = (x, np.arange(30) % 2)

    def outputs(folder: str, rounds: int, **training: object) -> Array:
        done = federico.run(
            clients=clients,
            model=lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 2)),
            directory=tmp_path / folder,
            rounds=rounds,
            methods=["local"],
            training=training,
        )
        return done.client("a", method="local").probabilities(clients["a"][0])

    augment = {"flip": True, "shift": 1, "noise": 0.1}
    whole = outputs("whole", 4, augment=augment)
    outputs("resumed", 2, augment=augment)
    resumed = outputs("resumed", 4, augment=augment)
    assert not np.array_equal(whole, outputs("plain", 4))
    np.testing.assert_array_equal(resumed, whole)


def test_tables_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"training\.augment: is for images"):
        prepare(validate({"training": {"augment": {"flip": True}}}), 0)
