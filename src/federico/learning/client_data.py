"""What the learner needs to know about one client, and the units of what clients predict."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from federico.types import Array, FloatArray, IntArray


@dataclass(frozen=True)
class ClientData:
    """What the learner needs to know about one client: its name and its samples."""

    name: str
    train: tuple[Array, Array]
    test: tuple[Array, Array]
    target_mean: FloatArray | None = None
    """By what the targets were standardised, [outputs]; None where they are in their own units."""
    target_spread: FloatArray | None = None
    set_aside: tuple[Array, Array] | None = None
    """Samples that are not trained on, by which the round to keep is chosen; None: there are none.
    """


@dataclass(frozen=True)
class TargetUnits:
    """How the values that clients predict were standardised: a row for each client, or sample."""

    mean: Tensor
    spread: Tensor
    train_mean: Tensor
    """The mean of the client's training targets in their own units: what anybody could predict."""

    @classmethod
    def of(cls, clients: Sequence[ClientData], outputs: int) -> "TargetUnits":
        """The units of each client, [clients, outputs]."""
        mean = np.zeros((len(clients), outputs))
        spread = np.ones((len(clients), outputs))
        train_mean = np.zeros((len(clients), outputs))
        for place, client in enumerate(clients):
            if client.target_mean is not None:
                mean[place] = client.target_mean
            if client.target_spread is not None:
                spread[place] = client.target_spread
            _, targets = client.train
            if len(targets):
                standardized = targets.mean(axis=0)
                train_mean[place] = standardized * spread[place] + mean[place]
        return cls(torch.from_numpy(mean), torch.from_numpy(spread), torch.from_numpy(train_mean))

    def repeated(self, counts: IntArray) -> "TargetUnits":
        """The units of each sample, [samples, outputs]; `counts` are the samples of each client."""
        times = torch.from_numpy(counts)
        return TargetUnits(
            self.mean.repeat_interleave(times, 0),
            self.spread.repeat_interleave(times, 0),
            self.train_mean.repeat_interleave(times, 0),
        )

    def restored(self, values: Tensor) -> Tensor:
        """Standardised values of all samples in their own units."""
        return values.double() * self.spread + self.mean
