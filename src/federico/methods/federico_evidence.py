"""What FedeRiCo's peers measure of the models they visit, and the trust that follows from it.

There are two kinds of evidence: what a model is worth on samples that were held out of training,
and the paper's, the loss of a model on the samples that it is trained on.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from federico.algorithm.gains import GainTracker
from federico.algorithm.losses import LossTracker
from federico.algorithm.peer_table import among
from federico.algorithm.posterior import posterior
from federico.algorithm.sampling import AbsentModels, View
from federico.algorithm.standing import Standings
from federico.learning.calibration import Calibration
from federico.learning.visits import Visits
from federico.methods.context import MethodContext
from federico.methods.echoes import Echoes
from federico.methods.federico_options import FedericoOptions
from federico.methods.judging import Judge, Judgement
from federico.methods.method import Gains, Posterior
from federico.methods.state import PerClient, PerPair
from federico.types import FloatArray, IntArray

ROUNDING = 1e-6
"""Relative tolerance of the bound on losses: a model that gives all classes the same probability is
not worse than a guess because of rounding."""


class TrustEvidence(ABC):
    """What the hosted peers know of the models they have met.

    The defaults are those of evidence that is never final.
    """

    def __init__(self, options: FedericoOptions, context: MethodContext) -> None:
        self.opt = options
        self.context = context
        self.learner = context.learner
        self.bank = context.bank
        self.found: list[Gains] = []
        """What each hosted peer found of the models that it judged last; to be recorded."""

    @property
    def is_judging(self) -> bool:
        """Whether models are still being judged, on samples that are held out of training."""
        return False

    @property
    def is_final(self) -> bool:
        """Whether trust can only fall from now on, and all samples are trained on."""
        return False

    @abstractmethod
    def measure(self, visits: Visits, *, becomes_final: bool) -> Judgement | None:
        """Take in what the hosted peers measure of the models they visit.

        Returns what held-out samples say about each visit, where there are any.
        """

    @abstractmethod
    def posterior(self, i: int) -> Posterior:
        """w_i, computed from what peer i has measured so far."""

    @abstractmethod
    def has_evaluated_own(self, i: int) -> bool:
        """Whether peer i knows how good its own model is, and the model is not broken."""

    @abstractmethod
    def view(self, i: int, standings: Standings, absent: AbsentModels) -> View:
        """What a sampler is told about what peer i knows.

        `standings` are those of the contributors to its model, `absent` who did not come last time.
        """

    def resumed(self) -> None:
        """Do what follows from the declared state, which has just been restored."""

    def remember_own_models(self) -> None:
        """Note what each peer's own model is now, so that others cannot give it for theirs."""

    def end_judging(self) -> None:
        """From now on trust does not rise any more, and all samples are trained on."""

    def wants(self, i: int, peers: IntArray) -> None:
        """These peers have sent updates to peer i: where that counts, they are evaluated next."""

    def judge_now(self, visits: Visits) -> Judgement | None:
        """What the models that peers predict with are worth as they are now, where that counts."""
        return None

    def weights_now(self, visits: Visits, weights: FloatArray, now: Judgement) -> FloatArray:
        """The weights of models as they are now, [visits]."""
        return weights

    def calibration(self, visits: Visits, now: Judgement | None) -> Calibration | None:
        """How the outputs of each visit's model are read; as they are if there is none."""
        return None


class TrainingLosses(TrustEvidence):
    """The paper's evidence: the loss of each model on the data that it is trained on."""

    losses = PerPair[LossTracker]()
    """l_ij and L_ij of each hosted peer i, for the peers j it has met."""

    def __init__(self, options: FedericoOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        self.losses = {i: self._new_tracker(i) for i in context.hosted.tolist()}

    def _new_tracker(self, i: int) -> LossTracker:
        """An empty tracker for the losses that peer i will measure."""
        bound = np.inf
        if self.opt.worse_than_guess == "ignored":
            # The loss of a guess, over as many samples as the tracked losses are summed over.
            summed = 1
            if self.opt.loss == "sum":
                summed = self.learner.samples[i]
            bound = summed * self.learner.guess * (1 + ROUNDING)
        return LossTracker(
            self.opt.tracking,
            self.opt.momentum,
            debias=self.opt.debias,
            bound=bound,
        )

    def measure(self, visits: Visits, *, becomes_final: bool) -> None:
        """Evaluate the visited models on what they are trained on; such evidence is never final."""
        losses = self.learner.evaluate(self.bank, visits)  # [visits]
        if self.opt.loss == "sum":
            losses *= self.learner.samples[visits.clients]
        for i, positions in visits.by_client():
            owners = visits.owners[positions]
            self.losses[i].observe(owners, losses[positions])

    def posterior(self, i: int) -> Posterior:
        """The softmax of tracked losses."""
        tracker = self.losses[i]
        if tracker.knows(i) and not tracker.sane.any():
            # All models are worse than a guess: a peer keeps its own.
            is_own = tracker.peers == i
            return Posterior(tracker.peers, is_own.astype(np.float64))

        peers = tracker.peers
        losses = tracker.tracked
        if self.opt.strangers == "literal":
            # Peers that were never evaluated take part too, with loss 0.
            count = self.context.count
            losses_of_all = np.zeros(count)
            losses_of_all[peers] = losses
            peers = np.arange(count)
            losses = losses_of_all

        weights = posterior(losses, self.opt.temperature)
        return Posterior(peers, weights)

    def has_evaluated_own(self, i: int) -> bool:
        """See `TrustEvidence.has_evaluated_own`."""
        return self.losses[i].knows(i)

    def view(self, i: int, standings: Standings, absent: AbsentModels) -> View:
        """See `TrustEvidence.view`: the paper's peers hold nothing against contributors."""
        tracker = self.losses[i]
        view = View(i, self.context.count, tracker.peers, tracker.tracked)
        return view.without_optimism_for(absent.peers)


class HeldOutEvidence(TrustEvidence):
    """What each model is worth, in nats, on samples that a peer holds out of training."""

    gains = PerPair[GainTracker]()
    """What each model is worth to each hosted peer, for the models it has met."""
    own_trail = PerClient[Tensor]()
    """What each peer remembers of its own models, so that it knows an echo of one: see `Echoes`."""
    own_answers = PerClient[Tensor]()
    """The same of what these models have answered for the samples that were held out."""
    trust_is_final = PerClient[IntArray]()
    """1 once the peer's trust is final and it trains on all its samples, [hosted]."""

    def __init__(
        self, options: FedericoOptions, context: MethodContext, silent: Sequence[int]
    ) -> None:
        """The learner has already held out the samples; for `silent` see `Judge`."""
        super().__init__(options, context)
        hosted = context.hosted
        outputs = self.learner.outputs_count
        self.judge = Judge(self.learner, hosted, outputs, silent, context.seed)
        self.echoes = Echoes(self.bank, hosted, context.names, context.seed)
        self.own_trail = self.echoes.nothing_yet()
        self.own_answers = self.echoes.nothing_answered_yet()
        if options.start == "independent":  # else all others have the same model at first
            self.remember_own_models()

        self.gains = {}
        for i in hosted.tolist():
            held_out = int(self.learner.held_out[i])
            self.gains[i] = GainTracker(i, options.momentum, options.trust, held_out)
        self.trust_is_final = np.zeros(len(hosted), dtype=np.int64)

    @property
    def is_judging(self) -> bool:
        """Whether the hosted peers still hold samples out of training."""
        return not self.is_final

    @property
    def is_final(self) -> bool:
        """Whether all hosted peers train on all their samples."""
        return bool(self.trust_is_final.all())

    def measure(self, visits: Visits, *, becomes_final: bool) -> Judgement:
        """Judge the visited models; if trust `becomes_final`, this replaces all from before.

        Once trust is final it can only fall: models move on, and one may move away from a peer that
        trusts it.
        """
        judgement = self._judgement(visits)
        self.found = []
        for i, positions in visits.by_client():
            owners = visits.owners[positions]
            evidence = judgement.of(positions)
            self.gains[i].observe(owners, evidence, becomes_final=becomes_final)
            self.found.append(Gains(owners, evidence.gain))
        return judgement

    def _judgement(self, visits: Visits) -> Judgement:
        """The evidence on these visits; a model that is the visitor's own again is worth nothing.

        It would fit the visitor's samples as well as its own does, whatever its owner is like.
        """
        judgement = self.judge.judge(self.bank, visits)
        is_echo = self.echoes.among(visits, self.own_trail, judgement.answers, self.own_answers)
        gain = np.where(is_echo, -np.inf, judgement.gain)
        return replace(judgement, gain=gain)

    def end_judging(self) -> None:
        """From now on trust does not rise any more, and all samples are trained on."""
        self.trust_is_final[:] = 1
        for gains in self.gains.values():
            gains.settle()
        self.learner.release_held_out()

    def posterior(self, i: int) -> Posterior:
        """How much the gains of the models that peer i has evaluated make it trust them."""
        gains = self.gains[i]
        evaluated = gains.evaluated
        return Posterior(gains.peers[evaluated], gains.weights[evaluated])

    def has_evaluated_own(self, i: int) -> bool:
        """A peer judges its own model in every round."""
        return True

    def view(self, i: int, standings: Standings, absent: AbsentModels) -> View:
        """What a sampler takes for losses: low for whom peer i trusts, lowest for who waits."""
        gains = self.gains[i]
        losses = gains.losses(standings.of(gains.peers))
        # A peer that waits to be evaluated comes first, but not if its model did not come.
        failed = among(gains.peers, absent.peers) & ~gains.evaluated
        losses = np.where(failed, np.inf, losses)
        view = View(i, self.context.count, gains.peers, losses)
        return view.without_optimism_for(absent.peers)

    def wants(self, i: int, peers: IntArray) -> None:
        """See `TrustEvidence.wants`."""
        self.gains[i].wants(peers)

    def remember_own_models(self) -> None:
        """See `TrustEvidence.remember_own_models`."""
        self.echoes.remember(self.own_trail)
        answers = self.judge.answers(self.bank, Visits.to_own(self.context.hosted))
        self.echoes.remember_answers(self.own_answers, answers)

    def resumed(self) -> None:
        """Train on all samples if trust is final, and without those that are held out if not."""
        if self.is_final:
            self.learner.release_held_out()
        else:
            self.learner.hold_out(self.opt.held_out, lone_batches=False, of_all_kinds=True)

    # What owners ask, to judge updates.

    def own_gains(self, owners: IntArray) -> FloatArray:
        """What the models of these hosted peers are worth to themselves right now, [owners]."""
        return self.judge.judge(self.bank, Visits.to_own(owners)).gain

    def own_ceilings(self, owners: IntArray) -> FloatArray:
        """What they were worth when trust became final; infinite before, [owners]."""
        ceilings = np.full(len(owners), np.inf)
        for place, owner in enumerate(owners.tolist()):
            gains = self.gains[owner]
            if gains.is_final:
                ceilings[place] = gains.ceiling[gains.places(np.array([owner]))[0]]
        return ceilings

    # What follows for predictions.

    def judge_now(self, visits: Visits) -> Judgement | None:
        """Judge the models again that peers are about to predict with.

        Before the first round nothing was judged yet; from then on peers judge at least their own
        models in every round.
        """
        has_judged = all(gains.evaluated.any() for gains in self.gains.values())
        if not has_judged:
            return None
        return self._judgement(visits)

    def weights_now(self, visits: Visits, weights: FloatArray, now: Judgement) -> FloatArray:
        """The weights with each model trusted as it is now, [visits].

        Models move on after they were judged, and somebody may serve another one to predict with:
        nobody predicts with what was not measured. A peer that trusts no model any more has no
        weights.
        """
        weights_now = np.zeros(len(weights))
        for i, positions in visits.by_client():
            trusted = positions[weights[positions] > 0]
            owners = visits.owners[trusted]
            weights_now[trusted] = self.gains[i].weights_now(owners, now.of(trusted))
        return weights_now

    def calibration(self, visits: Visits, now: Judgement | None) -> Calibration | None:
        """How each peer reads the models of its mixture, as it has found on held-out samples."""
        if self.learner.task == "regression":
            return None

        temperatures = np.ones(len(visits))
        offsets = np.zeros((len(visits), self.learner.outputs_count))
        for i, positions in visits.by_client():
            if now is not None and self.is_judging:
                # Later, samples that models are trained on would say that they are sure.
                temperatures[positions] = now.temperature[positions]
                prior_powers = now.prior_power[positions]
                offsets[positions] = prior_powers[:, None] * self.judge.log_priors[i]
                continue

            # A peer's own model is not met yet before the first round.
            gains = self.gains[i]
            met = positions[among(visits.owners[positions], gains.peers)]
            found = gains.places(visits.owners[met])
            temperatures[met] = gains.temperature[found]
            prior_powers = gains.prior_power[found]
            offsets[met] = prior_powers[:, None] * self.judge.log_priors[i]
        return Calibration(temperatures, offsets)
