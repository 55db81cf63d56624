"""What the owner of a model makes of the updates that arrive for it."""

from dataclasses import replace

import numpy as np

from federico.algorithm.standing import Standings, UpdateWorths, too_far
from federico.exchange.protocol import Updates
from federico.methods.accepting import Acceptance, UpdateJudge, Weighed, keep
from federico.methods.averaging import compare_with_own
from federico.methods.context import MethodContext
from federico.methods.federico_evidence import HeldOutEvidence
from federico.methods.federico_options import FedericoOptions
from federico.methods.method import Refusals
from federico.methods.state import PerClient, PerPair
from federico.types import BoolArray, FloatArray, IntArray


class OwnerSide:
    """The hosted peers as owners: they weigh updates against their own, and remember who sent them.

    How far an owner trusts a contributor is not decided here: coefficients say so already.
    """

    standings = PerPair[Standings]()
    """What the updates of others say about them, to each hosted peer."""
    own_updates = PerClient[IntArray]()
    """How many times each peer has moved its own model, [hosted]."""
    own_path = PerClient[FloatArray]()
    """The sum of the lengths of these updates, [hosted]."""
    update_worths = PerPair[UpdateWorths]()
    """What the updates of others were worth to each hosted peer."""

    def __init__(
        self, options: FedericoOptions, context: MethodContext, held_out: HeldOutEvidence | None
    ) -> None:
        """`held_out` judges what updates are worth, where models are judged at all."""
        self.opt = options
        self.context = context
        self.acceptance = Acceptance(options.accept, options.reach, options.trim)
        self.update_judge: UpdateJudge | None = None
        if held_out is not None and options.judges_updates(context.count):
            self.update_judge = UpdateJudge(held_out, context.bank)

        hosted = context.hosted
        self.standings = {b: Standings() for b in hosted.tolist()}
        self.update_worths = {b: UpdateWorths() for b in hosted.tolist()}
        self.own_updates = np.zeros(len(hosted), dtype=np.int64)
        self.own_path = np.zeros(len(hosted))

    def weigh(self, updates: Updates) -> Weighed:
        """What is left of the updates' coefficients, and how far each update may lead."""
        if self.opt.accept == "any":
            return Weighed(updates, np.ones(len(updates)))

        own = compare_with_own(updates)
        lengths = self._usual_lengths(updates, own.own_lengths)
        weighed = self.acceptance.weigh(updates, own, lengths)
        is_refused = too_far(own.distances, lengths)
        if self.update_judge is not None:
            worth = self.update_judge.worth(weighed, self.opt.w_min)
            is_harmful = self._harmful(updates, worth)
            harmless = np.where(is_harmful, 0.0, 1.0)
            weighed = replace(weighed, updates=keep(weighed.updates, harmless))
            is_refused |= is_harmful

        standing = self._note_refusals(updates, is_refused)
        weighed = replace(weighed, updates=keep(weighed.updates, standing))
        weighed = weighed.take(np.flatnonzero(weighed.updates.coefficients > 0))
        return self.acceptance.merged(weighed)

    def refusals(self) -> list[Refusals]:
        """What each hosted peer has had to refuse, and what that did to the senders' standing."""
        found: list[Refusals] = []
        for standings in self.standings.values():
            found.append(Refusals(standings.peers, standings.standing, standings.refusals))
        return found

    def _note_refusals(self, updates: Updates, is_refused: BoolArray) -> FloatArray:
        """The standing of each update's contributor with the owner, after this round, [updates].

        An update that would count for next to nothing is held against nobody.
        """
        standing = np.ones(len(updates))
        came_for = dict(updates.by_owner())
        nothing = np.empty(0, np.int64)
        for b, standings in self.standings.items():
            # Also where nothing came: a standing is regained with every round.
            positions = came_for.get(b, nothing)
            contributors = updates.contributors[positions]
            coefficients = updates.coefficients[positions]
            next_to_nothing = self.opt.w_min * coefficients.sum()
            counts = coefficients > next_to_nothing
            standings.note(contributors, is_refused[positions] & counts)
            standing[positions] = standings.of(contributors)
        return standing

    def _usual_lengths(self, updates: Updates, own_lengths: FloatArray) -> FloatArray:
        """How long the updates of each update's owner usually are, [updates].

        A peer whose model fits its own samples hardly moves it any more. That is no reason to keep
        others from moving it.
        """
        usual = np.zeros(len(updates))
        for b, positions in updates.by_owner():
            place = np.searchsorted(self.context.hosted, b)
            length = own_lengths[positions[0]]
            if b in updates.contributors[positions]:  # its own update is missing if it diverged
                self.own_updates[place] += 1
                self.own_path[place] += length
            count = max(1, self.own_updates[place])
            mean_length = self.own_path[place] / count
            usual[positions] = max(length, mean_length)
        return usual

    def _harmful(self, updates: Updates, worth: FloatArray) -> BoolArray:
        """Which senders have done the owner harm so far, these updates included, [updates]."""
        for worths in self.update_worths.values():
            worths.fade()
        is_harmful = np.zeros(len(updates), dtype=bool)
        for b, positions in updates.by_owner():
            others = positions[updates.contributors[positions] != b]
            contributors = updates.contributors[others]
            is_harmful[others] = self.update_worths[b].note(contributors, worth[others])
        return is_harmful
