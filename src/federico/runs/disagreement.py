"""How often the models of others see new samples otherwise than a client's own model does.

A model earns its weight on the samples that a client has. One that agrees with the client's own
model there and not on fresh data may have been made to: it is worth a look.
"""

from collections.abc import Sequence

import numpy as np

from federico.types import FloatArray, Task


class Disagreement:
    """What has been seen so far, for every model that is not the client's own."""

    def __init__(self, owners: Sequence[str], own: Sequence[str], task: Task) -> None:
        """`own` are the client's own models among `owners`; the first that is there is compared."""
        self._task = task
        present = [name for name in own if name in owners]
        self.compared_with = present[0] if present else None
        """The client's own model; None if it predicts with the models of others alone."""
        self._others = [name for name in owners if name not in own]
        self._place = {name: k for k, name in enumerate(owners)}
        self._sums = dict.fromkeys(self._others, 0.0)
        self._counts = dict.fromkeys(self._others, 0)

    def add(self, answers: FloatArray) -> None:
        """Compare the answers of all models for more samples, [samples, models, outputs].

        Samples for which one of the two has no finite answer are left out.
        """
        if self.compared_with is None:
            return
        own = answers[:, self._place[self.compared_with]]  # [samples, outputs]
        own_has_answer = np.isfinite(own).all(axis=1)
        for name in self._others:
            other = answers[:, self._place[name]]
            have_answers = own_has_answer & np.isfinite(other).all(axis=1)
            mine = own[have_answers]
            theirs = other[have_answers]
            if self._task == "classification":
                apart = mine.argmax(axis=1) != theirs.argmax(axis=1)
            else:
                apart = np.abs(mine - theirs).mean(axis=1)
            self._sums[name] += float(apart.sum())
            self._counts[name] += int(have_answers.sum())

    @property
    def by_owner(self) -> dict[str, float]:
        """By the owner of the model, largest first.

        For classes, the share of samples that it gives another label than the client's own model;
        for regression, how far its values are away on average, in the units of the targets.
        """
        means = {name: self._sums[name] / n for name, n in self._counts.items() if n > 0}
        return dict(sorted(means.items(), key=lambda item: -item[1]))
