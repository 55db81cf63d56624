"""The gains that one peer has measured, and their averages, which make its trust."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from federico.algorithm.evidence import NO_GAIN, Evidence
from federico.algorithm.peer_table import Column, PeerTable
from federico.algorithm.trust_rules import TrustRule, needs_samples, scores, trust
from federico.types import BoolArray, FloatArray, IntArray

MOST_SAMPLES = 256
"""How many held-out samples a rule that looks at samples keeps of each model."""
WAITING = -1.0
"""In place of a loss: a peer that waits to be evaluated comes before all others."""


class GainTracker(PeerTable):
    """What one peer knows about the models it has met: their tracked gains and calibration.

    A gain is averaged over *visits*, not over rounds: a model that is not visited does not become
    better known. One whose outputs were not finite at its last visit has no trust.

    Once trust is final, a gain can only fall. The samples that it is measured on are trained on by
    then, so a model that seems better than before may just know them; one that seems worse is.

    A peer that has sent an update but was never evaluated is in the tracker too. It has no trust
    yet, and waits to be evaluated.
    """

    columns: ClassVar[Mapping[str, Column]] = {
        "gain": Column(np.nan),
        "broken": Column(0),
        "ceiling": Column(np.inf),
        "temperature": Column(1.0),
        "prior_power": Column(0.0),
    }
    gain: FloatArray
    """The tracked gain of each peer's model; NaN where it was never evaluated."""
    broken: IntArray
    """1 where the outputs at the last visit were not finite."""
    ceiling: FloatArray
    """What each gain may be at most: infinite until trust in the model is final."""
    temperature: FloatArray
    prior_power: FloatArray
    log_likelihood: FloatArray
    """Of each held-out sample that the rule looks at, at the last visit to each model; where a peer
    has fewer samples than the array is wide, the rest is not used."""

    def __init__(
        self, peer: int, momentum: float = 0.6, rule: TrustRule = "gain", samples: int = 0
    ) -> None:
        """`peer` is the one that measures; `momentum` is the weight of the *new* gain.

        `rule` makes trust of what is tracked; `samples` is how many the peer has held out.
        """
        # What peers save lies end to end, so it is as wide for all, whatever they have held out.
        width = MOST_SAMPLES if needs_samples(rule) else 0
        super().__init__(log_likelihood=Column(0.0, width))
        self.peer = peer
        self.momentum = momentum
        self.rule: TrustRule = rule
        self.samples = min(samples, width)
        """How many of the held-out samples the rule looks at."""

    def observe(self, peers: IntArray, evidence: Evidence, *, becomes_final: bool = False) -> None:
        """Take in what a round's visits have shown.

        If trust `becomes_final`, it replaces all from before.
        """
        observed = self.meet(peers)
        is_finite = np.isfinite(evidence.gain)
        gain = np.maximum(np.where(is_finite, evidence.gain, NO_GAIN), NO_GAIN)

        previous = self.gain[observed]
        averaged = previous + self.momentum * (gain - previous)
        is_first = np.isnan(previous)
        tracked = np.where(is_first | becomes_final, gain, averaged)
        self.gain[observed] = np.minimum(tracked, self.ceiling[observed])
        self.broken[observed] = ~is_finite
        self.log_likelihood[observed, : self.samples] = self._of_samples(observed, evidence)

        # Fitted to samples that are trained on, a model would be taken for too sure of itself.
        is_open = np.isinf(self.ceiling[observed])
        self.temperature[observed[is_open]] = evidence.temperature[is_open]
        self.prior_power[observed[is_open]] = evidence.prior_power[is_open]
        if becomes_final or self.is_final:
            self.settle()

    def settle(self) -> None:
        """From now on no gain rises any more."""
        settled = self.evaluated & np.isinf(self.ceiling)
        self.ceiling[settled] = self.gain[settled]

    @property
    def is_final(self) -> bool:
        """Whether trust is final; a peer that is met later is judged once."""
        return bool(np.isfinite(self.ceiling).any())

    def weights_now(self, peers: IntArray, evidence: Evidence) -> FloatArray:
        """How much these models, all of them met before, are trusted as they are now."""
        place = self.places(peers)
        gain = np.minimum(evidence.gain, self.ceiling[place])
        score = scores(self.rule, gain, self._of_samples(place, evidence))
        total = score.sum()
        if total > 0:
            score = score / total
        return score

    def weights_without_sample(
        self, peers: IntArray, weights: FloatArray, evidence: Evidence
    ) -> FloatArray:
        """How much these models would count without each of the samples, [models, samples].

        `weights` are those with all samples; a model without weight has none without a sample.
        Only the rule `gain` can leave a sample out; for the others all samples have the same
        weights, and so has one without which no model would be trusted.
        """
        samples = evidence.by_sample.shape[1]
        with_all = np.repeat(weights[:, None], samples, axis=1)
        if self.rule != "gain":
            return with_all

        is_usable = (weights > 0) & np.isfinite(evidence.by_sample).all(axis=1)
        by_sample = np.where(is_usable[:, None], evidence.by_sample, 0.0)
        without = self.gain[self.places(peers)][:, None] - by_sample
        score = np.where(is_usable[:, None], scores(self.rule, without), 0.0)
        is_trusted = score.sum(axis=0) > 0
        return np.where(is_trusted, score, with_all)

    def wants(self, peers: IntArray) -> None:
        """These peers have sent updates: those never evaluated are to be evaluated next."""
        self.meet(peers)

    @property
    def evaluated(self) -> BoolArray:
        """For each of `peers`, whether its model was ever evaluated."""
        is_evaluated: BoolArray = ~np.isnan(self.gain)
        return is_evaluated

    @property
    def weights(self) -> FloatArray:
        """How much each of `peers` is trusted; the weights sum to one, or nobody was met yet."""
        gain = np.where(self.evaluated & (self.broken == 0), self.gain, NO_GAIN)
        own = np.flatnonzero(self.peers == self.peer)
        if len(own) == 0:
            return np.zeros(len(gain))

        of_samples = self.log_likelihood[:, : self.samples]
        weights = trust(gain, int(own[0]), self.rule, of_samples)
        is_usable = self.broken == 0
        if weights[is_usable].sum() > 0:
            # Not even a peer's own model has weight when it is broken.
            weights = np.where(is_usable, weights, 0.0)
            weights /= weights.sum()
        return weights

    def losses(self, standing: FloatArray) -> FloatArray:
        """What a sampler takes for losses: low for who is trusted, lowest for who waits.

        `standing` is that of each of `peers`: one that has sent updates that had to be refused is
        asked less readily.
        """
        distrust = 1.0 - self.weights * standing
        return np.where(self.evaluated, distrust, WAITING)

    def _of_samples(self, places: IntArray, evidence: Evidence) -> FloatArray:
        """The log-likelihoods to trust these models by, [models, samples].

        Like a gain, that of a sample can only fall once trust in the model is final.
        """
        before = self.log_likelihood[places, : self.samples]
        now = evidence.log_likelihood[:, : self.samples]
        lower = np.minimum(now, before)
        is_final = np.isfinite(self.ceiling[places])
        return np.where(is_final[:, None], lower, now)
