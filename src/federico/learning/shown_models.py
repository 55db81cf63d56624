"""Which model a visitor is shown when it visits somebody: the owner's, in all honesty."""

import numpy as np
from torch import Tensor

from federico.learning.visits import Visits
from federico.types import BoolArray, IntArray


class ShownModels:
    """Every visitor is shown the model of the owner that it visits, and the same for all samples.

    Hostile members of a simulation show something else: see `federico.attacks.shown_models`.
    """

    def owners_met(self, visits: Visits) -> IntArray:
        """Whose model each visit meets, [visits]."""
        return visits.owners

    def are_nan_elsewhere(self, visits: Visits) -> BoolArray:
        """Which visits meet a model that is no number for samples it was not measured on."""
        return np.zeros(len(visits), dtype=bool)

    def are_disguised(self, visits: Visits) -> BoolArray:
        """Which visits meet a model in other numbers than those that it has."""
        return np.zeros(len(visits), dtype=bool)

    def disguise(self, visits: Visits, rows: Tensor) -> None:
        """Turn the rows [visits, size] that these visits meet into the numbers that they see."""

    def undo_disguise(self, visits: Visits, rows: Tensor) -> None:
        """Turn rows that were trained from such numbers back, [visits, size]."""
