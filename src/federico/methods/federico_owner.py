"""What the owner of a model makes of the updates that arrive for it."""

from dataclasses import replace

import numpy as np

from federico.algorithm.standing import Standings, too_far
from federico.exchange.protocol import Updates
from federico.learning.visits import Visits
from federico.methods.accepting import Acceptance, LossCheck, Weighed, keep
from federico.methods.averaging import compare_with_own
from federico.methods.context import MethodContext
from federico.methods.federico_options import FedericoOptions
from federico.methods.method import Refusals
from federico.methods.state import PerClient, PerPair
from federico.types import BoolArray, FloatArray, IntArray


class OwnerSide:
    """The hosted peers as owners: they weigh moves against their own, and remember who sent them.

    How far an owner trusts a contributor is not decided here: coefficients say so already.
    """

    standings = PerPair[Standings]()
    """What the moves of others say about them, to each hosted peer."""
    own_moves = PerClient[IntArray]()
    """How many times each peer has moved its own model, [hosted]."""
    own_path = PerClient[FloatArray]()
    """The sum of the lengths of these moves, [hosted]."""
    loss_ceiling = PerClient[FloatArray]()
    """The loss on held-out samples that each peer's model may have: what it was when trust became
    final, and not a number until then, [hosted]."""

    def __init__(self, options: FedericoOptions, context: MethodContext) -> None:
        self.opt = options
        self.context = context
        self.acceptance = Acceptance(options.accept, options.reach, options.trim)
        self.loss_check = LossCheck(context.learner, context.bank)

        hosted = context.hosted
        self.standings = {b: Standings() for b in hosted.tolist()}
        self.own_moves = np.zeros(len(hosted), dtype=np.int64)
        self.own_path = np.zeros(len(hosted))
        self.loss_ceiling = np.full(len(hosted), np.nan)

    def weigh(self, updates: Updates, *, is_judging: bool) -> Weighed:
        """What is left of the updates' coefficients, and how far each move may lead.

        `is_judging` tells whether samples are still held out of training.
        """
        weighed = Weighed(updates, np.ones(len(updates)))
        if self.opt.accept == "any" and not self.opt.loss_check:
            return weighed

        is_refused = np.zeros(len(updates), dtype=bool)
        if self.opt.accept != "any":
            own = compare_with_own(updates)
            lengths = self._usual_lengths(updates, own.lengths)
            weighed = self.acceptance.weigh(updates, own, lengths)
            is_refused = too_far(own.distances, lengths)
        if self.opt.loss_check and len(updates):
            allowed = self._losses_allowed(updates, is_judging=is_judging)
            worse = self.loss_check.worse(updates, allowed)
            weighed = replace(weighed, updates=keep(weighed.updates, np.where(worse, 0.0, 1.0)))
            is_refused |= worse

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

        A move that would count for next to nothing is held against nobody.
        """
        standing = np.ones(len(updates))
        for b, standings in self.standings.items():
            positions = np.flatnonzero(updates.owners == b)
            contributors = updates.contributors[positions]
            coefficients = updates.coefficients[positions]
            counts = coefficients > self.opt.w_min * coefficients.sum()
            standings.note(contributors, is_refused[positions] & counts)
            standing[positions] = standings.of(contributors)
        return standing

    def _usual_lengths(self, updates: Updates, own_lengths: FloatArray) -> FloatArray:
        """How long the moves of each update's owner usually are, [updates].

        A peer whose model fits its own samples hardly moves it any more. That is no reason to keep
        others from moving it.
        """
        usual = np.zeros(len(updates))
        by_owner = Visits(clients=updates.owners, owners=updates.contributors)
        for b, positions in by_owner.by_client():
            place = np.searchsorted(self.context.hosted, b)
            length = own_lengths[positions[0]]
            if b in updates.contributors[positions]:  # its own move is missing if it diverged
                self.own_moves[place] += 1
                self.own_path[place] += length
            mean = self.own_path[place] / max(1, self.own_moves[place])
            usual[positions] = max(length, mean)
        return usual

    def _losses_allowed(self, updates: Updates, *, is_judging: bool) -> FloatArray:
        """The losses on held-out samples that owners take in any case, [updates].

        What was held out is trained on once trust is final: then it only tells what makes a model
        worse than it was before.
        """
        if is_judging:
            return np.full(len(updates), -np.inf)

        owners = np.unique(updates.owners)
        places = np.searchsorted(self.context.hosted, owners)
        first = np.isnan(self.loss_ceiling[places])
        if first.any():
            self.loss_ceiling[places[first]] = self.loss_check.losses(owners[first])
        by_update = np.searchsorted(self.context.hosted, updates.owners)
        allowed: FloatArray = self.loss_ceiling[by_update]
        return allowed
