"""What hostile members show to those who visit them, in place of their models."""

import numpy as np

from federico.learning.shown_models import ShownModels
from federico.learning.visits import Visits
from federico.types import BoolArray, IntArray


class ShownEchoes(ShownModels):
    """The members show every visitor its own model."""

    def __init__(self, members: IntArray) -> None:
        self._members = members

    def owners_met(self, visits: Visits) -> IntArray:
        """Whose model each visit meets: visitors get their own back, members see what is true."""
        meets_echo = np.isin(visits.owners, self._members)
        is_members = np.isin(visits.clients, self._members)
        return np.where(meets_echo & ~is_members, visits.clients, visits.owners)


class ShownNanElsewhere(ShownModels):
    """The members' models are no number for samples that others neither train nor judge on."""

    def __init__(self, members: IntArray) -> None:
        self._members = members

    def are_nan_elsewhere(self, visits: Visits) -> BoolArray:
        """Which visits meet such a model: all of others to a member."""
        by_others = ~np.isin(visits.clients, self._members)
        meets_one: BoolArray = np.isin(visits.owners, self._members) & by_others
        return meets_one
