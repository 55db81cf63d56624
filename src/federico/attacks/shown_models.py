"""What hostile members show to those who visit them, in place of their models."""

import numpy as np
import torch
from torch import Tensor

from federico.errors import ConfigError
from federico.learning.layout import ModelLayout
from federico.learning.shown_models import ShownModels
from federico.learning.visits import Visits
from federico.rng import stream
from federico.types import BoolArray, IntArray


class ShownEchoes(ShownModels):
    """The members show every visitor its own model."""

    def __init__(self, members: IntArray) -> None:
        self._members = members

    def owners_met(self, visits: Visits) -> IntArray:
        """Whose model each visit meets: visitors get their own back, members see what is true."""
        return np.where(self.meet_echoes(visits), visits.clients, visits.owners)

    def meet_echoes(self, visits: Visits) -> BoolArray:
        """Which visits meet an echo: all of others to a member."""
        by_others = ~np.isin(visits.clients, self._members)
        meets_echo: BoolArray = np.isin(visits.owners, self._members) & by_others
        return meets_echo


class ShownDisguisedEchoes(ShownEchoes):
    """The same in other numbers: to every model something is added that changes no answer."""

    def __init__(self, members: IntArray, added: Tensor) -> None:
        """`added` is what is added to a row, [size]."""
        super().__init__(members)
        self._added = added

    def are_disguised(self, visits: Visits) -> BoolArray:
        """Which visits meet a model in other numbers: those that meet an echo."""
        return self.meet_echoes(visits)

    def disguise(self, visits: Visits, rows: Tensor) -> None:
        """See `ShownModels.disguise`."""
        rows[self._positions(visits, rows)] += self._added.to(rows)

    def undo_disguise(self, visits: Visits, rows: Tensor) -> None:
        """See `ShownModels.undo_disguise`."""
        rows[self._positions(visits, rows)] -= self._added.to(rows)

    def _positions(self, visits: Visits, rows: Tensor) -> Tensor:
        return torch.from_numpy(np.flatnonzero(self.are_disguised(visits))).to(rows.device)


def without_effect(layout: ModelLayout, outputs: int, seed: int) -> Tensor:
    """What may be added to any model of this layout and changes no probability, [size].

    The last layer gets the same for each class: all scores rise by as much.
    """
    last = layout.parameter_slots[-2:]
    *_, bias = last
    has_bias = bias.shape == (outputs,)
    layer = last if has_bias else last[1:]
    if len(layer[0].shape) != 2 or layer[0].shape[0] != outputs:
        raise ConfigError(
            "attack.kind = 'echo-disguised': the model's last layer must be linear, with a row of "
            "weights for each class; choose another model, or kind = 'echo'"
        )
    random = stream(seed, "disguise")
    added = torch.zeros(layout.size, dtype=layout.dtype)
    for slot in layer:
        each = random.standard_normal(slot.shape[1:]) / np.sqrt(slot.size / outputs)
        slot.view(added).copy_(torch.as_tensor(each).expand(slot.shape))
    return added


class ShownNanElsewhere(ShownModels):
    """The members' models are no number for samples that others neither train nor judge on."""

    def __init__(self, members: IntArray) -> None:
        self._members = members

    def are_nan_elsewhere(self, visits: Visits) -> BoolArray:
        """Which visits meet such a model: all of others to a member."""
        by_others = ~np.isin(visits.clients, self._members)
        meets_one: BoolArray = np.isin(visits.owners, self._members) & by_others
        return meets_one
