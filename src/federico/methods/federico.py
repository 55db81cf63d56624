"""FedeRiCo: federating with the right collaborators (Sui et al. 2022), Algorithm 1.

`federico.algorithm.reference` is the same method as plain loops; a test holds the two together.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
from torch import Tensor

from federico.algorithm.aggregation import coefficients_at_owner
from federico.algorithm.evidence import FEW_SAMPLES, gate, mixed_log_likelihood
from federico.algorithm.gains import GainTracker
from federico.algorithm.losses import LossTracker
from federico.algorithm.mixture import capped
from federico.algorithm.posterior import posterior, significant
from federico.algorithm.sampling import (
    AbsentModels,
    EpsilonGreedy,
    Everyone,
    Sampler,
    Uniform,
    View,
    draw_by_weight,
)
from federico.algorithm.standing import Standings, too_far
from federico.errors import ConfigError
from federico.exchange.protocol import Updates
from federico.learning.calibration import Calibration
from federico.learning.layout import ModelLayout
from federico.learning.visits import Visits
from federico.methods.accepting import Acceptance, LossCheck, Weighed, keep
from federico.methods.averaging import average_into, compare_with_own, finite
from federico.methods.echoes import Echoes
from federico.methods.federico_options import FedericoOptions
from federico.methods.judging import Judge, Judgement
from federico.methods.method import (
    Gains,
    Method,
    Mixtures,
    Needs,
    Posterior,
    Refusals,
    Round,
    TrainedAlone,
    check_neighbors,
    pull_neighbors,
)
from federico.methods.model_owners import ModelOwner, one_per_client, private_models
from federico.methods.state import PerClient, PerPair
from federico.rng import stream
from federico.types import BoolArray, FloatArray, IntArray

ROUNDING = 1e-6
"""Relative tolerance of the bound on losses: a model that gives all classes the same probability is
not worse than a guess because of rounding."""


class Federico(Method):
    """Every peer finds its collaborators by measuring their models on its own data."""

    name = "federico"
    title = "FedeRiCo"
    summary = (
        "Decentralised: each peer visits a few others "
        "and predicts with the models its posterior trusts."
    )
    options = FedericoOptions
    opt: FedericoOptions

    losses = PerPair[LossTracker]()
    """l_ij and L_ij of each hosted peer i, for the peers j it has met; from training losses."""
    gains = PerPair[GainTracker]()
    """What each model is worth to each hosted peer, for the models it has met; from evidence."""
    standings = PerPair[Standings]()
    """What the moves of others say about them, to each hosted peer."""
    absent = PerPair[AbsentModels]()
    """The peers whose models did not come when each hosted peer last wanted them."""
    together = PerClient[FloatArray]()
    """How much the collaborators count against the private model, [hosted]."""
    together_ceiling = PerClient[FloatArray]()
    """What `together` may be at most: 1 until trust is final, [hosted]."""
    private_temperature = PerClient[FloatArray]()
    """T of each private model, [hosted]."""
    own_moves = PerClient[IntArray]()
    """How many times each peer has moved its own model, [hosted]."""
    own_path = PerClient[FloatArray]()
    """The sum of the lengths of these moves, [hosted]."""
    loss_ceiling = PerClient[FloatArray]()
    """The loss on held-out samples that each peer's model may have: what it was when trust became
    final, and not a number until then, [hosted]."""
    own_trail = PerClient[Tensor]()
    """What each peer remembers of its own models, so that it knows an echo of one: see `Echoes`."""
    trust_is_final = PerClient[IntArray]()
    """1 once the peer's trust is final and it trains on all its samples, [hosted]."""

    @classmethod
    def models(cls, options: Any, clients: Sequence[str]) -> list[ModelOwner]:
        """A model for each peer, and the two that it shows to nobody.

        The private model is trained on all samples. Its twin has the same start, but is trained
        without those that are held out, so that these can tell how good training alone is.
        """
        models = one_per_client(clients, same_start=options.start == "same")
        if _has_private_models(options, len(clients)):
            count = len(clients)
            models += private_models(clients, "alone", count)
            models += private_models(clients, "alone, judged", 2 * count)
        return models

    @classmethod
    def check(cls, options: FedericoOptions, clients: int, layout: ModelLayout) -> None:
        """Neighbors must exist, and a gradient must be all there is to learn."""
        if options.sampler != "everyone":
            default = FedericoOptions().neighbors
            check_neighbors(cls.name, options.neighbors, default, clients)
        if options.m_step == "gradient" and layout.shared not in ("all", "trainable"):
            raise ConfigError(
                "federico.m_step = 'gradient': it sends gradients of all that is learned; use "
                "'epochs', or take training.shared out"
            )
        if options.m_step == "gradient" and layout.size > layout.parameters:
            raise ConfigError(
                "federico.m_step = 'gradient': it cannot train float buffers "
                "(batch-norm statistics); use 'epochs'"
            )

    @classmethod
    def needs_standardized_targets(cls, options: FedericoOptions) -> bool:
        """Held-out evidence in nats knows no units: a guess is 0, and a usual error is 1."""
        return options.evidence == "held_out"

    @classmethod
    def is_accountable(cls, options: FedericoOptions) -> bool:
        """Gradients for an optimizer at the owner are not clipped."""
        return options.m_step == "epochs"

    @classmethod
    def most_visits(cls, options: FedericoOptions, clients: int) -> int:
        """A peer trains its own model, and those of its neighbors."""
        return 1 + _neighbors(options, clients)

    @classmethod
    def memory(cls, options: FedericoOptions, clients: int, rounds: int) -> Needs:
        """Every peer trains what it visits, and may keep an optimizer for every model it meets."""
        sampling_rounds = max(0, rounds - options.solo_rounds)
        visited = 0
        if sampling_rounds > 0:
            visited = clients * _neighbors(options, clients)
        visits = clients + visited
        private = 0
        private_updates = 0
        if _has_private_models(options, clients):
            private = 2 * clients
            # Those of the private models, or of their twins, while what was sent is under way.
            private_updates = clients

        copies = 0
        if options.loss_check:
            copies = clients  # what each model was before a move was tried
        if options.accept in ("median", "trimmed"):
            copies += visits + clients
        # Every visit may be to a model not met before, until all have met. Who predicts, and who
        # judges for the last time, has all trusted models at hand at once.
        meetings = visited * _meeting_rounds(options, sampling_rounds)
        all_meetings = clients * (clients - 1)
        met = min(all_meetings, meetings)

        if options.m_step == "gradient":
            # Beside the gradients sent, their sum at each owner.
            return Needs(
                models=clients + private,
                updates=visits + clients,
                pairs=clients + private,
                private_updates=private_updates,
                copies=copies,
                met=met,
            )
        if options.optimizer_state == "fresh":
            return Needs(
                models=clients + private,
                updates=visits,
                pairs=private,
                fresh=visits,
                private_updates=private_updates,
                copies=copies,
                met=met,
            )

        return Needs(
            models=clients + private,
            updates=visits,
            pairs=clients + private + met,
            private_updates=private_updates,
            copies=copies,
            met=met,
        )

    def start(self) -> None:
        """No peer has evaluated any model yet."""
        context = self.context
        self.neighbors = _neighbors(self.opt, context.count)
        self.sampler = _sampler(self.opt, self.neighbors)
        self.judges = _judges(self.opt, context.count)
        """Whether trust is made of what models are worth on held-out samples."""
        self.has_private_models = _has_private_models(self.opt, context.count)
        if self.judges:
            self.learner.hold_out(self.opt.held_out, lone_batches=False)

        hosted = context.hosted.tolist()
        self.unshown = [i for i in hosted if not self.has_enough_samples(i)]
        """The hosted peers with so few samples that they never show anybody what they train."""
        self.exchange.withhold(np.array(self.unshown, dtype=np.int64))
        self.silent = self.unshown
        """The hosted peers that send nothing while they judge models: those, and the ones that have
        held out too few samples to judge by these alone. What they do not send, no other model is
        trained on, so they judge the models of others by all their samples."""
        if self.judges:
            outputs = self.learner.outputs_count
            few = [i for i in hosted if 0 < self.learner.held_out[i] < FEW_SAMPLES]
            self.silent = sorted({*self.unshown, *few})
            self.judge = Judge(self.learner, context.hosted, outputs, self.silent)
        self.echoes = Echoes(self.bank, context.hosted, context.names, context.seed)
        self.own_trail = self.echoes.nothing_yet()
        if self.opt.start == "independent":  # else all others have the same model at first
            self.remember_own_models()

        self.acceptance = Acceptance(self.opt.accept, self.opt.reach, self.opt.trim)
        self.loss_check = LossCheck(self.learner, self.bank)

        self.losses = {}
        self.gains = {}
        self.standings = {}
        self.posteriors: dict[int, Posterior] = {}
        """w_i of each hosted peer, computed from what it has tracked."""
        self.absent = {}
        self.judged: list[Gains] = []
        """What each hosted peer found of the models that it judged last; to be recorded."""
        nobody = np.empty(0, np.int64)
        no_weights = np.empty(0)
        for i in context.hosted.tolist():
            self.losses[i] = self._new_tracker(i)
            held_out = int(self.learner.held_out[i])
            self.gains[i] = GainTracker(i, self.opt.momentum, self.opt.trust, held_out)
            self.standings[i] = Standings()
            self.posteriors[i] = Posterior(nobody, no_weights)
            self.absent[i] = AbsentModels()

        hosted = len(context.hosted)
        self.together = np.full(hosted, self.opt.together_prior)
        self.together_ceiling = np.ones(hosted)
        self.private_temperature = np.ones(hosted)
        self.own_moves = np.zeros(hosted, dtype=np.int64)
        self.own_path = np.zeros(hosted)
        self.loss_ceiling = np.full(hosted, np.nan)
        self.trust_is_final = np.zeros(hosted, dtype=np.int64)

    def resumed(self) -> None:
        """Compute the posteriors again: they are not saved, but follow from what is tracked."""
        for i in self.losses:
            self.posteriors[i] = self._posterior(i)
        if self.trust_is_final.all():
            self.learner.release_held_out()
        elif self.judges:
            self.learner.hold_out(self.opt.held_out, lone_batches=False)

    @property
    def is_judging(self) -> bool:
        """Whether models are still being judged: then some samples are held out of training."""
        return self.judges and not self.trust_is_final.all()

    @property
    def always_trains_own(self) -> bool:
        """Whether a peer trains its own model however little it trusts it.

        It need not where owners sum up gradients and compare them with nothing.
        """
        return self.opt.m_step == "epochs" or self.opt.accept != "any"

    @property
    def last_judging_round(self) -> int:
        """The round after which trust becomes final.

        However few rounds there are, peers sample others by then.
        """
        rounds = self.context.rounds
        share = ceil(self.opt.judging * rounds)
        first_meeting = min(self.opt.solo_rounds + 1, rounds)
        return max(share, first_meeting)

    def round(self, round_index: int) -> Round:
        """Algorithm 1, one pass of its outer loop, for all peers at once."""
        clock = self.context.clock
        is_final = self.is_judging and round_index > self.last_judging_round

        with clock("sample"):
            neighbors = self.candidates() if is_final else self.sample(round_index)
        visits = pull_neighbors(self, round_index, neighbors)
        self.note_who_came(neighbors, visits)

        with clock("e_step"):
            self.e_step(visits, is_final=is_final)
        if is_final:
            self.end_judging()
            with clock("sample"):
                visits = self.only_sampled(visits, round_index)

        with clock("m_step"):
            updates = self.m_step(visits, round_index)
        with clock("push"):
            self.exchange.push(round_index, updates)
        del updates  # free the memory of what was sent before adding up what has arrived
        self.train_alone(round_index)

        with clock("update"):
            self.update(round_index, self.exchange.collect(round_index))
        self.remember_own_models()

        together = self.together.copy() if self.has_private_models else None
        posteriors = list(self.posteriors.values())
        return Round(neighbors, posteriors, together, self.judged, self._refusals())

    def _refusals(self) -> list[Refusals]:
        """What each hosted peer has had to refuse, and what that did to the senders' standing."""
        found: list[Refusals] = []
        for standings in self.standings.values():
            found.append(Refusals(standings.peers, standings.standing, standings.refusals))
        return found

    def sample(self, round_index: int) -> list[IntArray]:
        """Each peer's neighbors, chosen by what it knew before this round; none in a solo round."""
        if round_index <= self.opt.solo_rounds:
            nobody = np.empty(0, np.int64)
            return [nobody for _ in self.posteriors]

        names = self.context.names
        draws_by_trust = self.judges and not self.is_judging
        neighbors: list[IntArray] = []
        for i in self.posteriors:
            rng = stream(self.context.seed, "sample", names[i], round_index)
            if draws_by_trust and self.opt.sampler == "epsilon_greedy":
                neighbors.append(self._draw_by_trust(i, rng))
            else:
                neighbors.append(self.sampler.sample(self._view(i), rng))
        return neighbors

    def note_who_came(self, neighbors: Sequence[IntArray], visits: Visits) -> None:
        """Remember which neighbors gave no model, so that others are tried before them."""
        for (i, positions), wanted in zip(visits.by_client(), neighbors, strict=True):
            self.absent[i].note(wanted, visits.owners[positions])

    def _draw_by_trust(self, i: int, rng: np.random.Generator) -> IntArray:
        """Neighbors of a peer whose trust is final.

        Who waits to be evaluated comes first. Then neighbors are drawn by trust, and if few are
        trusted, peers never met are tried.
        """
        gains = self.gains[i]
        waiting = np.setdiff1d(gains.peers[~gains.evaluated], self.absent[i].peers)
        waiting = waiting[: self.neighbors]
        peers, weights = self._trusted_others(i)
        weights = weights * self.standings[i].of(peers)
        drawn = draw_by_weight(peers, weights, self.neighbors - len(waiting), rng)
        chosen = np.union1d(waiting, drawn)
        left = self.neighbors - len(chosen)
        if left == 0 or self.opt.strangers == "cautious":
            return chosen

        everybody = np.arange(self.context.count)
        strangers = rng.permutation(np.setdiff1d(everybody, [*gains.peers, i]))
        last = np.isin(strangers, self.absent[i].peers)
        in_order = np.concatenate([strangers[~last], strangers[last]])
        return np.union1d(chosen, in_order[:left])

    def candidates(self) -> list[IntArray]:
        """All other peers that each peer gives weight to: they are judged once more together."""
        candidates: list[IntArray] = []
        for i in self.posteriors:
            peers, _ = self._trusted_others(i)
            candidates.append(peers)
        return candidates

    def only_sampled(self, visits: Visits, round_index: int) -> Visits:
        """Of all candidates that came, those that a peer would have sampled; and its own model."""
        sampled = self.sample(round_index)
        kept: list[IntArray] = []
        for (i, positions), neighbors in zip(visits.by_client(), sampled, strict=True):
            owners = visits.owners[positions]
            wanted = np.isin(owners, neighbors) | (owners == i)
            kept.append(positions[wanted])
        return visits[np.concatenate(kept)]

    def e_step(self, visits: Visits, *, is_final: bool = False) -> None:
        """Equation (3): what is measured of the visited models becomes each peer's posterior."""
        if self.judges:
            self._judge(visits, is_final=is_final)
        else:
            self._measure_training_losses(visits)

        for i in self.posteriors:
            self.posteriors[i] = self._posterior(i)
            self.forget_negligible(i)

    def _measure_training_losses(self, visits: Visits) -> None:
        """The paper's evidence: the loss of each model on the data that it is trained on."""
        losses = self.learner.evaluate(self.bank, visits)  # [visits]
        if self.opt.loss == "sum":
            losses *= self.learner.samples[visits.clients]
        for i, positions in visits.by_client():
            self.losses[i].observe(visits.owners[positions], losses[positions])

    def _judge(self, visits: Visits, *, is_final: bool) -> None:
        """What each model is worth on held-out samples, and how it compares with training alone.

        Once trust is final it can only fall: models move on, and one may move away from a peer that
        trusts it.
        """
        judgement = self._judgement(visits)
        self.judged = []
        for i, positions in visits.by_client():
            evidence = judgement.of(positions)
            self.gains[i].observe(visits.owners[positions], evidence, final=is_final)
            self.judged.append(Gains(visits.owners[positions], evidence.gain))
            self.posteriors[i] = self._posterior(i)
        if self.has_private_models:
            self._compare_with_alone(visits, judgement)

    def remember_own_models(self) -> None:
        """Note what each peer's own model is now, so that others cannot give it for theirs."""
        if self.judges:
            self.echoes.remember(self.own_trail)

    def _judgement(self, visits: Visits) -> Judgement:
        """The evidence on these visits; a model that is the visitor's own again is worth nothing.

        It would fit the visitor's samples as well as its own does, whatever its owner is like.
        """
        judgement = self.judge.judge(self.bank, visits)
        is_echo = self.echoes.among(visits, self.own_trail)
        return replace(judgement, gain=np.where(is_echo, -np.inf, judgement.gain))

    def _compare_with_alone(self, visits: Visits, judgement: Judgement) -> None:
        """The gate: how much each peer's mixture counts against what it trained alone."""
        weights = self._visit_weights(visits)
        collaborates = [len(self._trusted_others(i)[0]) > 0 for i in self.posteriors]
        together, temperatures = self._gate(visits, weights, judgement, np.array(collaborates))
        self.together[:] = together
        if self.is_judging:
            self.private_temperature[:] = temperatures
            return

        # Who trusted nobody when trust became final may find collaborators later.
        first = (self.together_ceiling == 1) & (together > 0)
        self.together_ceiling[first] = together[first]

    def _gate(
        self, visits: Visits, weights: FloatArray, judgement: Judgement, collaborates: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """The share of each hosted peer's mixture of these visits, and T of its private model.

        `collaborates`: which of the peers trust anybody else.
        """
        together = np.zeros(len(self.together))
        # A site alone would not shift its own model by label frequencies: only the temperature is
        # fitted, so that the private model predicts the classes that training alone does.
        alone = self.judge.judge(self.bank, self._to_judged_alone(), prior_powers=(0.0,))
        for place, (i, positions) in enumerate(visits.by_client()):
            if not collaborates[place]:
                continue  # without collaborators a peer is alone: its private model saw more data

            evidence = judgement.of(positions)
            by_sample = self.gains[i].weights_without_sample(
                visits.owners[positions], weights[positions], evidence
            )
            mixed = mixed_log_likelihood(evidence.log_likelihood, by_sample)
            found = gate(mixed, alone.log_likelihood[place], self.opt.together_prior)
            together[place] = min(found, self.together_ceiling[place])
        return together, alone.temperature

    def end_judging(self) -> None:
        """From now on trust does not rise any more, and all samples are trained on."""
        self.trust_is_final[:] = 1
        self.together_ceiling = np.where(self.together > 0, self.together, 1.0)
        for gains in self.gains.values():
            gains.settle()
        self.learner.release_held_out()
        if self.has_private_models:
            for pair in self._to_judged_alone().pairs:
                self.learner.states.drop(pair)

    def train_alone(self, round_index: int) -> None:
        """Train the private models on all samples, and their twins without what is held out."""
        if not self.has_private_models:
            return
        self.train_private_models(round_index, self._to_private(), part="all")
        if self.is_judging:
            self.train_private_models(round_index, self._to_judged_alone())

    def m_step(self, visits: Visits, round_index: int) -> Updates:
        """Equations (5) and (8): what each visitor sends to owners of models it gives weight to."""
        weights = self._visit_weights(visits)  # [visits]
        kept = self._worth_training(visits, weights)
        kept = kept[self._trainable(visits[kept])]
        visits = visits[kept]
        weights = weights[kept]

        if self.opt.m_step == "gradient":
            gradients = self.learner.gradient(self.bank, visits, round_index)
            return Updates(visits.owners, visits.clients, weights, gradients)

        deltas = self.learner.train(
            self.bank,
            visits,
            round_index,
            epochs=self.context.local_epochs,
            fresh=self.opt.optimizer_state == "fresh",
        )
        samples = self.learner.samples[visits.clients]
        coefficients = weights * samples
        return Updates(visits.owners, visits.clients, coefficients, deltas)

    def _trainable(self, visits: Visits) -> IntArray:
        """Positions of the visits whose outcome others may see, or that nobody else will ever see.

        A peer with too few samples trains its own model like everybody, but shows it to nobody.
        """
        sends_nothing = self.silent if self.is_judging else self.unshown
        to_own = visits.clients == visits.owners
        may_send = ~np.isin(visits.clients, sends_nothing)
        return np.flatnonzero(self.affordable(visits) & (to_own | may_send))

    def weigh(self, updates: Updates) -> Weighed:
        """The updates that have arrived, with what they count for at the owners of the models."""
        updates = self._by_say(updates)
        if self.opt.accept == "any" and not self.opt.loss_check:
            return Weighed(updates, np.ones(len(updates)))

        weighed = Weighed(updates, np.ones(len(updates)))
        is_refused = np.zeros(len(updates), dtype=bool)
        if self.opt.accept != "any":
            own = compare_with_own(updates)
            lengths = self._usual_lengths(updates, own.lengths)
            weighed = self.acceptance.weigh(updates, own, lengths)
            is_refused = too_far(own.distances, lengths)
        if self.opt.loss_check and len(updates):
            worse = self.loss_check.worse(updates, self._losses_allowed(updates))
            weighed = replace(weighed, updates=keep(weighed.updates, np.where(worse, 0.0, 1.0)))
            is_refused |= worse

        standing = self._note_refusals(updates, is_refused)
        weighed = replace(weighed, updates=keep(weighed.updates, standing))
        weighed = weighed.take(np.flatnonzero(weighed.updates.coefficients > 0))
        return self.acceptance.merged(weighed)

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

    def _by_say(self, updates: Updates) -> Updates:
        """The updates with the coefficients on which the senders and the owners agree."""
        if self.opt.say == "sender":
            return updates

        allowed = np.zeros(len(updates))
        by_owner = Visits(clients=updates.owners, owners=updates.contributors)
        for b, positions in by_owner.by_client():
            contributors = updates.contributors[positions]
            if self.judges:
                self.gains[b].wants(contributors)
            samples = 1 if self.opt.m_step == "gradient" else self.learner.samples[b]
            allowed[positions] = samples * self._trust_at_owner(b, contributors)

        # What a peer sends to itself counts for what it trusts itself.
        is_own = updates.owners == updates.contributors
        sent = np.where(is_own, allowed, updates.coefficients)
        coefficients = coefficients_at_owner(sent, allowed, self.opt.say)
        agreed = replace(updates, coefficients=coefficients)
        return agreed.take(np.flatnonzero(coefficients > 0))

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

    def _losses_allowed(self, updates: Updates) -> FloatArray:
        """The losses on held-out samples that owners take in any case, [updates].

        What was held out is trained on once trust is final: then it only tells what makes a model
        worse than it was before.
        """
        if self.is_judging:
            return np.full(len(updates), -np.inf)
        owners = np.unique(updates.owners)
        places = np.searchsorted(self.context.hosted, owners)
        first = np.isnan(self.loss_ceiling[places])
        if first.any():
            self.loss_ceiling[places[first]] = self.loss_check.losses(owners[first])
        allowed: FloatArray = self.loss_ceiling[
            np.searchsorted(self.context.hosted, updates.owners)
        ]
        return allowed

    def _trust_at_owner(self, b: int, contributors: IntArray) -> FloatArray:
        """How far owner b lets each contributor move its model, [contributors].

        Where a peer is better off alone, collaboration as a whole counts for less, and its own data
        for the rest.
        """
        weights = self._weights_of(b, contributors)
        if not self.has_private_models:
            return weights
        place = np.searchsorted(self.context.hosted, b)
        together = float(self.together[place])
        own_data = np.where(contributors == b, 1 - together, 0.0)
        trusted: FloatArray = together * weights + own_data
        return trusted

    def update(self, round_index: int, updates: Updates) -> None:
        """Equation (6) at the owners: deltas are averaged, gradients summed into an optimizer."""
        weighed = self.weigh(finite(updates))
        updates = weighed.updates
        if self.opt.m_step == "epochs":
            average_into(
                self.bank, updates, self.opt.anchor, self.opt.buffers, scales=weighed.scales
            )
            return

        owners, positions = np.unique(updates.owners, return_inverse=True)
        totals = self.learner.zeros(len(owners))  # [owners, size]
        factors = updates.coefficients * weighed.scales
        for position, factor, gradient in zip(
            positions.tolist(), factors.tolist(), updates.rows, strict=True
        ):
            totals[position].add_(gradient, alpha=factor)
        self.learner.descend(self.bank, owners, totals, round_index)

    def predictors(self, round_index: int) -> Mixtures:
        """Each peer predicts with its posterior over models, without negligible weights.

        A peer whose posterior has no weight at all predicts with its own model.
        """
        clients: list[IntArray] = []
        owners: list[IntArray] = []
        weights: list[FloatArray] = []
        for i, row in self.posteriors.items():
            share = significant(row.weights, self.opt.w_min)
            has_weight = share > 0
            peers = row.peers[has_weight]
            share = share[has_weight]
            if len(peers) == 0:
                peers = np.array([i])
                share = np.ones(1)

            clients.append(np.full(len(peers), i))
            owners.append(peers)
            weights.append(share)

        visits = Visits(np.concatenate(clients), np.concatenate(owners))
        mixtures = self._with_own(self.read(round_index, visits, np.concatenate(weights)))
        judgement = None
        if self.judges and self._has_judged:
            judgement = self._judgement(mixtures.visits)
            mixtures = self._trusted_now(mixtures, judgement)
        mixtures = self._capped(mixtures)

        together = self.together
        if judgement is not None and self.has_private_models:
            together = self._together_now(mixtures, judgement)

        # What has no weight must not count, not even where it is not a number.
        kept = np.flatnonzero(mixtures.weights > 0)
        visits = mixtures.visits[kept]
        if judgement is not None:
            judgement = judgement.take(kept)
        return replace(
            mixtures,
            visits=visits,
            weights=mixtures.weights[kept],
            calibration=self._calibration(visits, judgement),
            alone=self._trained_alone(together),
        )

    @property
    def _has_judged(self) -> bool:
        """Whether there was a round; peers judge at least their own models in every one."""
        return all(len(row.peers) > 0 for row in self.posteriors.values())

    def _with_own(self, mixtures: Mixtures) -> Mixtures:
        """The same mixtures, in which every peer's own model has a place, if without a weight."""
        visits = mixtures.visits
        to_own = visits.clients == visits.owners
        missing = np.setdiff1d(self.context.hosted, visits.clients[to_own])
        clients = np.concatenate([visits.clients, missing])
        owners = np.concatenate([visits.owners, missing])
        weights = np.concatenate([mixtures.weights, np.zeros(len(missing))])
        order = np.lexsort((owners, clients))
        return replace(mixtures, visits=Visits(clients, owners)[order], weights=weights[order])

    def _trusted_now(self, mixtures: Mixtures, judgement: Judgement) -> Mixtures:
        """The mixtures with each model trusted as it is now.

        Models move on after they were judged, and somebody may serve another one to predict with:
        nobody predicts with what was not measured. Who trusts no model any more has no weights.
        """
        weights = np.zeros(len(mixtures.weights))
        for i, positions in mixtures.visits.by_client():
            trusted = positions[mixtures.weights[positions] > 0]
            owners = mixtures.visits.owners[trusted]
            weights[trusted] = self.gains[i].weights_now(owners, judgement.of(trusted))
        return replace(mixtures, weights=weights)

    def _capped(self, mixtures: Mixtures) -> Mixtures:
        """The mixtures without too large a weight of one other peer's model."""
        weights = np.zeros(len(mixtures.weights))
        for i, positions in mixtures.visits.by_client():
            is_own = mixtures.visits.owners[positions] == i
            weights[positions] = capped(mixtures.weights[positions], is_own, self.opt.w_max)
        return replace(mixtures, weights=weights)

    def _together_now(self, mixtures: Mixtures, judgement: Judgement) -> FloatArray:
        """How much the mixtures count against the private models, [hosted], as all are now."""
        visits = mixtures.visits
        is_collaborator = (visits.clients != visits.owners) & (mixtures.weights > 0)
        collaborates = np.isin(self.context.hosted, visits.clients[is_collaborator])
        together, _ = self._gate(visits, mixtures.weights, judgement, collaborates)
        return together

    def _calibration(self, visits: Visits, judgement: Judgement | None) -> Calibration | None:
        """How each peer reads the models of its mixture, as it has found on held-out samples.

        `judgement` is that of the models as they are now.
        """
        if not self.judges or self.learner.task == "regression":
            return None

        temperatures = np.ones(len(visits))
        offsets = np.zeros((len(visits), self.learner.outputs_count))
        for i, positions in visits.by_client():
            gains = self.gains[i]
            if judgement is not None and self.is_judging:
                # Later, samples that models are trained on would say that they are sure.
                temperatures[positions] = judgement.temperature[positions]
                powers = judgement.prior_power[positions]
                offsets[positions] = powers[:, None] * self.judge.log_priors[i]
                continue
            # A peer's own model is not met yet before the first round.
            met = positions[np.isin(visits.owners[positions], gains.peers)]
            found = np.searchsorted(gains.peers, visits.owners[met])
            temperatures[met] = gains.temperature[found]
            prior_powers = gains.prior_power[found]
            offsets[met] = prior_powers[:, None] * self.judge.log_priors[i]
        return Calibration(temperatures, offsets)

    def _trained_alone(self, together: FloatArray) -> TrainedAlone | None:
        """The private models and what they count for; nothing if they are not finite."""
        if not self.has_private_models:
            return None

        visits = self._to_private()
        finite = self.bank.are_finite(visits.owners)
        weights = np.where(finite, 1.0 - together, 0.0)
        if self.learner.task == "regression":
            return TrainedAlone(visits, weights)

        offsets = np.zeros((len(visits), self.learner.outputs_count))
        return TrainedAlone(visits, weights, Calibration(self.private_temperature.copy(), offsets))

    def _to_private(self) -> Visits:
        """Every hosted peer visits the model that it trains alone."""
        hosted = self.context.hosted
        return Visits(hosted, hosted + self.context.count)

    def _to_judged_alone(self) -> Visits:
        """Every hosted peer visits its private model's twin, which sees no held-out sample."""
        hosted = self.context.hosted
        return Visits(hosted, hosted + 2 * self.context.count)

    def _view(self, i: int) -> View:
        """What a sampler is told about what peer i knows."""
        count = self.context.count
        if self.judges:
            gains = self.gains[i]
            # Who waits to be evaluated comes first, but not if its model did not come.
            failed = np.isin(gains.peers, self.absent[i].peers) & ~gains.evaluated
            # Who has sent moves that had to be refused is asked less readily.
            distrust = 1.0 - gains.weights * self.standings[i].of(gains.peers)
            losses = np.where(gains.evaluated, distrust, gains.losses)
            losses = np.where(failed, np.inf, losses)
            view = View(i, count, gains.peers, losses)
        else:
            tracker = self.losses[i]
            view = View(i, count, tracker.peers, tracker.tracked)
        return view.without_optimism_for(self.absent[i].peers)

    def _trusted_others(self, i: int) -> tuple[IntArray, FloatArray]:
        """The other peers that are worth training for peer i, and their weights."""
        row = self.posteriors[i]
        is_trusted = (row.peers != i) & (row.weights > 0) & (row.weights >= self.opt.w_min)
        return row.peers[is_trusted], row.weights[is_trusted]

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

    def _posterior(self, i: int) -> Posterior:
        """w_i, computed from what peer i has tracked."""
        if self.judges:
            gains = self.gains[i]
            evaluated = gains.evaluated
            return Posterior(gains.peers[evaluated], gains.weights[evaluated])

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

    def _visit_weights(self, visits: Visits) -> FloatArray:
        """w_ib of each visit, [visits]."""
        weights = np.empty(len(visits))
        for i, positions in visits.by_client():
            weights[positions] = self._weights_of(i, visits.owners[positions])
        return weights

    def _weights_of(self, i: int, owners: IntArray) -> FloatArray:
        """How much peer i trusts the models of these owners; 0 where it has not evaluated them."""
        row = self.posteriors[i]
        weights = np.zeros(len(owners))
        known = np.isin(owners, row.peers)
        found = np.searchsorted(row.peers, owners[known])
        weights[known] = row.weights[found]

        if self.always_trains_own and self._has_evaluated_own(i):
            # A peer's own model always has some weight, so that it is trained at all. The least
            # weight is enough if nobody else trains it.
            own = owners == i
            weights[own] = np.maximum(weights[own], np.finfo(float).tiny)
        return weights

    def _has_evaluated_own(self, i: int) -> bool:
        """Whether peer i knows how good its own model is, and the model is not broken."""
        return self.judges or self.losses[i].knows(i)

    def _worth_training(self, visits: Visits, weights: FloatArray) -> IntArray:
        """Positions of the visits with enough weight, in the order in which owners add them up.

        A peer trains its own model however little weight it has: a model that nobody trains would
        never gain weight again.
        """
        wanted = weights >= self.opt.w_min
        if self.always_trains_own:
            to_own = visits.clients == visits.owners
            wanted |= to_own
        has_weight = weights > 0
        kept = np.flatnonzero(wanted & has_weight)

        clients = visits.clients[kept]
        owners = visits.owners[kept]
        by_owner = np.lexsort((clients, owners))
        return kept[by_owner]

    def forget_negligible(self, i: int) -> None:
        """Drop the optimizer states that peer i keeps for models of negligible weight.

        The state for its own model stays.
        """
        row = self.posteriors[i]
        is_negligible = row.weights < self.opt.w_min
        negligible = row.peers[is_negligible]
        for j in negligible.tolist():
            if j != i:
                self.learner.states.drop((i, j))


def _judges(options: FedericoOptions, clients: int) -> bool:
    """Whether models are judged on held-out samples; there must be somebody to judge."""
    return options.evidence == "held_out" and _neighbors(options, clients) > 0


def _has_private_models(options: FedericoOptions, clients: int) -> bool:
    """Whether peers train a model alone beside their own, which is that already without others."""
    return options.private_model and _judges(options, clients)


def _neighbors(options: FedericoOptions, clients: int) -> int:
    """How many other peers a peer visits in a round: no more than there are."""
    others = clients - 1
    if options.sampler == "everyone":
        return others
    return min(options.neighbors, others)


def _meeting_rounds(options: FedericoOptions, sampling_rounds: int) -> int:
    """The largest number of rounds in which a peer may visit models it has never visited."""
    if options.sampler != "epsilon_greedy" or options.strangers != "cautious":
        return sampling_rounds

    # Only a uniform draw reaches strangers. Twice the expected number of such rounds covers chance,
    # and one more the first round.
    exploring = ceil(2 * options.epsilon * sampling_rounds) + 1
    return min(sampling_rounds, exploring)


def _sampler(options: FedericoOptions, neighbors: int) -> Sampler:
    """The sampler that the options name."""
    if options.sampler == "everyone":
        return Everyone()
    if options.sampler == "uniform":
        return Uniform(neighbors)
    return EpsilonGreedy(neighbors, options.epsilon, options.coin, options.strangers)
