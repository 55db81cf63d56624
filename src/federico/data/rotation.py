"""Turning the images of each client, as a partition asks for."""

import math
from dataclasses import replace

import numpy as np

from federico.data.dataset import Dataset, Samples
from federico.data.partition import Partition
from federico.errors import ConfigError


def turned(dataset: Dataset, partition: Partition) -> Dataset:
    """The dataset with the images of each client turned by its number of quarter turns.

    No sample belongs to two clients, so that each is turned once.
    """
    if partition.quarter_turns is None:
        return dataset
    side = _side_of_images(dataset)
    x = dataset.samples.x.copy()
    for samples, turns in zip(partition.indices, partition.quarter_turns, strict=True):
        own = x[samples]
        images = own.reshape(-1, side, side)
        turned_images = np.rot90(images, turns, axes=(1, 2))
        x[samples] = turned_images.reshape(own.shape)
    return replace(dataset, samples=Samples(x, dataset.samples.y))


def _side_of_images(dataset: Dataset) -> int:
    """Width and height of the images in pixels."""
    shape = dataset.schema.input_shape
    if dataset.schema.columns or not _is_square(shape):
        raise ConfigError(
            f"partition.kind = 'rotated': inputs of shape {shape} are not square images: "
            "choose another partition"
        )
    if len(shape) == 1:
        return math.isqrt(shape[0])
    return shape[-1]


def _is_square(shape: tuple[int, ...]) -> bool:
    if len(shape) == 1:
        return math.isqrt(shape[0]) ** 2 == shape[0]
    return shape[-1] == shape[-2]
