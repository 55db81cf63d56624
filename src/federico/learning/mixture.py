"""One client's personal model: a few models under its posterior."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from federico.learning.batches import to_input
from federico.learning.calibration import Calibration
from federico.learning.layout import ModelLayout
from federico.learning.objectives import mixable
from federico.types import Array, FloatArray, Task


class MixturePredictor:
    """Predicts with sum_j w_ij p_j(y|x): probabilities are mixed, not logits.

    Values for regression.
    """

    def __init__(
        self,
        layout: ModelLayout,
        rows: Sequence[Tensor],
        weights: FloatArray,
        task: Task,
        calibration: Calibration | None = None,
    ) -> None:
        """`weights[k]` is the client's trust in the model of `rows[k]`.

        `calibration` says how the outputs of each model are read.
        """
        self.task = task
        self.weights = weights
        self.calibration = calibration
        self._dtype = layout.dtype
        self._modules: list[nn.Module] = []
        for row in rows:
            module = layout.bind(row, layout.initial_counters())
            self._modules.append(module.eval())

    @torch.no_grad()
    def __call__(self, x: Array, batch_size: int = 512) -> FloatArray:
        """Class probabilities [n, classes], or values [n, outputs]."""
        predictions: list[FloatArray] = []
        for first in range(0, len(x), batch_size):
            # Copied batch by batch: a caller's array may be read-only or a reversed view.
            batch = np.array(x[first : first + batch_size])
            mixed = self._mix(torch.from_numpy(batch))
            predictions.append(mixed)
        return np.concatenate(predictions)

    def _mix(self, x: Tensor) -> FloatArray:
        """The mixed predictions for one batch."""
        inputs = to_input(x, self._dtype)
        mixed: FloatArray = np.zeros(())
        for k, module in enumerate(self._modules):
            outputs = module(inputs).double()[None]  # [1, samples, outputs]
            calibration = None
            if self.calibration is not None:
                calibration = self.calibration.take(np.array([k]))
            predictions = mixable(outputs, self.task, calibration)[0].numpy()
            mixed = mixed + self.weights[k] * predictions
        return mixed
