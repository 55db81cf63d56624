"""FedeRiCo: federating with the right collaborators (Sui et al. 2022), Algorithm 1.

This file is the round. What it is made of lies beside it:

    federico_options     what can be set
    federico_neighbors   whom a peer visits
    federico_evidence    what it measures of the models it visits: held-out samples, or the paper's
    federico_private     the models that peers train alone, and the gate between them and others
    federico_owner       what the owner of a model makes of the updates that arrive for it
    federico_prediction  what peers predict with
    federico_memory      how much of all this there is at a time

`federico.algorithm.reference` is the same method as plain loops; a test holds the two together.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

from federico.algorithm.aggregation import coefficients_at_owner
from federico.algorithm.evidence import FEW_SAMPLES
from federico.errors import ConfigError
from federico.exchange.protocol import Updates
from federico.learning.layout import ModelLayout
from federico.learning.visits import Visits
from federico.methods.accepting import Weighed
from federico.methods.averaging import average_into, finite
from federico.methods.federico_evidence import HeldOutEvidence, TrainingLosses, TrustEvidence
from federico.methods.federico_memory import memory_needs
from federico.methods.federico_neighbors import NeighborChoice
from federico.methods.federico_options import FedericoOptions
from federico.methods.federico_owner import OwnerSide
from federico.methods.federico_prediction import as_trusted_now, significant_models
from federico.methods.federico_private import PrivateModels
from federico.methods.judging import Judgement
from federico.methods.method import (
    Method,
    Mixtures,
    Needs,
    Round,
    check_neighbors,
    pull_neighbors,
)
from federico.methods.model_owners import ModelOwner, one_per_client
from federico.types import FloatArray, IntArray


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

    @classmethod
    def models(cls, options: Any, clients: Sequence[str]) -> list[ModelOwner]:
        """A model for each peer, and the two that it shows to nobody."""
        models = one_per_client(clients, same_start=options.start == "same")
        if options.has_private_models(len(clients)):
            models += PrivateModels.owners(clients)
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
        return 1 + options.most_neighbors(clients)

    @classmethod
    def memory(cls, options: FedericoOptions, clients: int, rounds: int) -> Needs:
        """See `memory_needs`."""
        return memory_needs(options, clients, rounds)

    def start(self) -> None:
        """No peer has evaluated any model yet."""
        context = self.context
        judges = self.opt.judges(context.count)
        if judges:
            self.learner.hold_out(self.opt.held_out, lone_batches=False, of_all_kinds=True)

        hosted = context.hosted.tolist()
        self.unshown = [i for i in hosted if not self.has_enough_samples(i)]
        """The hosted peers with so few samples that they never show anybody what they train."""
        self.exchange.withhold(np.array(self.unshown, dtype=np.int64))
        self.silent = self.unshown
        """The hosted peers that send nothing while they judge models: those, and the ones that have
        held out too few samples to judge by these alone. What they do not send, no other model is
        trained on, so they judge the models of others by all their samples."""

        self.evidence: TrustEvidence
        self.private: PrivateModels | None = None
        held_out: HeldOutEvidence | None = None
        if judges:
            few = [i for i in hosted if 0 < self.learner.held_out[i] < FEW_SAMPLES]
            self.silent = sorted({*self.unshown, *few})
            held_out = HeldOutEvidence(self.opt, context, self.silent)
            self.evidence = held_out
            if self.opt.has_private_models(context.count):
                self.private = PrivateModels(held_out)
        else:
            self.evidence = TrainingLosses(self.opt, context)
        self.owner_side = OwnerSide(self.opt, context, held_out)
        self.choice = NeighborChoice(self.opt, context, self.evidence, self.owner_side)

        self.state_holders = [self.evidence, self.owner_side, self.choice]
        if self.private is not None:
            self.state_holders.append(self.private)
        self.posteriors = {i: self.evidence.posterior(i) for i in hosted}
        """w_i of each hosted peer, computed from what it has measured."""

    def resumed(self) -> None:
        """Compute the posteriors again: they are not saved, but follow from what was measured."""
        for i in self.posteriors:
            self.posteriors[i] = self.evidence.posterior(i)
        self.evidence.resumed()

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
        becomes_final = self.evidence.is_judging and round_index > self.last_judging_round

        with clock("sample"):
            neighbors = self.candidates() if becomes_final else self.sample(round_index)
        visits = pull_neighbors(self, round_index, neighbors)
        self.choice.note_who_came(neighbors, visits)

        with clock("e_step"):
            self.e_step(visits, becomes_final=becomes_final)
        if becomes_final:
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
        self.evidence.remember_own_models()

        return Round(
            neighbors=neighbors,
            posteriors=list(self.posteriors.values()),
            together=None if self.private is None else self.private.together.copy(),
            together_chance=None if self.private is None else self.private.chance.copy(),
            gains=self.evidence.found,
            refusals=self.owner_side.refusals(),
        )

    # Whom peers visit.

    def sample(self, round_index: int) -> list[IntArray]:
        """Each peer's neighbors, chosen by what it knew before this round; none in a solo round."""
        neighbors: list[IntArray] = []
        for i, row in self.posteriors.items():
            chosen = np.empty(0, np.int64)
            if round_index > self.opt.solo_rounds:
                chosen = self.choice.neighbors(i, row, round_index)
            neighbors.append(chosen)
        return neighbors

    def candidates(self) -> list[IntArray]:
        """All other peers that each peer gives weight to: they are judged once more together."""
        candidates: list[IntArray] = []
        for i, row in self.posteriors.items():
            peers, _ = row.trusted_others(i, self.opt.w_min)
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

    # The E-step: whom peers trust.

    def e_step(self, visits: Visits, *, becomes_final: bool = False) -> None:
        """Equation (3): what is measured of the visited models becomes each peer's posterior.

        With held-out evidence, outputs become trust here: `measure` in `federico_evidence`, `judge`
        in `judging`, `judge_classes` or `judge_values` in `algorithm.evidence`, `observe` and
        `weights` in `algorithm.gains`, and `trust` in `algorithm.trust_rules`.
        """
        judgement = self.evidence.measure(visits, becomes_final=becomes_final)
        for i in self.posteriors:
            self.posteriors[i] = self.evidence.posterior(i)
            self.forget_negligible(i)
        if self.private is not None and judgement is not None:
            self._compare_with_alone(self.private, visits, judgement)

    def _compare_with_alone(
        self, private: PrivateModels, visits: Visits, judgement: Judgement
    ) -> None:
        """The gate: how much each peer's mixture counts against what it trained alone."""
        weights = self._visit_weights(visits)
        trusted_others = self.candidates()
        collaborates = [len(peers) > 0 for peers in trusted_others]
        private.compare(visits, weights, judgement, np.array(collaborates))

    def end_judging(self) -> None:
        """From now on trust does not rise any more, and all samples are trained on."""
        self.evidence.end_judging()
        if self.private is not None:
            self.private.end_judging()

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

    # The M-step: whom peers help.

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

    def train_alone(self, round_index: int) -> None:
        """Train the private models on all samples, and their twins without what is held out.

        The twins never see these samples, not even when trust is final: what a private model learns
        in later rounds must count against the collaborators, too.
        """
        if self.private is None:
            return
        self.train_private_models(round_index, self.private.visits, subset="all")
        self.train_private_models(round_index, self.private.visits_to_twins, subset="not held out")

    def _visit_weights(self, visits: Visits) -> FloatArray:
        """w_ib of each visit, [visits]."""
        weights = np.empty(len(visits))
        for i, positions in visits.by_client():
            weights[positions] = self._weights_of(i, visits.owners[positions])
        return weights

    def _weights_of(self, i: int, owners: IntArray) -> FloatArray:
        """How much peer i trusts the models of these owners; 0 where it has not evaluated them."""
        weights = self.posteriors[i].of(owners)
        if self.opt.always_trains_own and self.evidence.has_evaluated_own(i):
            # A peer's own model always has some weight, so that it is trained at all. The least
            # weight is enough if nobody else trains it.
            own = owners == i
            weights[own] = np.maximum(weights[own], np.finfo(float).tiny)
        return weights

    def _worth_training(self, visits: Visits, weights: FloatArray) -> IntArray:
        """Positions of the visits with enough weight, in the order in which owners add them up.

        A peer trains its own model however little weight it has: a model that nobody trains would
        never gain weight again.
        """
        wanted = weights >= self.opt.w_min
        if self.opt.always_trains_own:
            wanted |= visits.are_own
        has_weight = weights > 0
        kept = np.flatnonzero(wanted & has_weight)

        clients = visits.clients[kept]
        owners = visits.owners[kept]
        in_order = np.lexsort((clients, owners))
        return kept[in_order]

    def _trainable(self, visits: Visits) -> IntArray:
        """Positions of the visits whose outcome others may see, or that nobody else will ever see.

        A peer with too few samples trains its own model like everybody, but shows it to nobody.
        """
        send_nothing = self.unshown
        if self.evidence.is_judging:
            send_nothing = self.silent
        may_send = ~np.isin(visits.clients, send_nothing)
        seen_by_none = visits.are_own
        affordable = self.affordable(visits)
        return np.flatnonzero(affordable & (may_send | seen_by_none))

    # The update: whose help owners take.

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

    def weigh(self, updates: Updates) -> Weighed:
        """The updates that have arrived, with what they count for at the owners of the models."""
        agreed = self._by_say(updates)
        return self.owner_side.weigh(agreed)

    def _by_say(self, updates: Updates) -> Updates:
        """The updates with the coefficients on which the senders and the owners agree."""
        if self.opt.say == "sender":
            return updates

        allowed = np.zeros(len(updates))
        for b, positions in updates.by_owner():
            contributors = updates.contributors[positions]
            self.evidence.wants(b, contributors)
            samples = 1 if self.opt.m_step == "gradient" else self.learner.samples[b]
            allowed[positions] = samples * self._trust_at_owner(b, contributors)

        # What a peer sends to itself counts for what it trusts itself.
        sent = np.where(updates.are_own, allowed, updates.coefficients)
        coefficients = coefficients_at_owner(sent, allowed, self.opt.say)
        agreed = replace(updates, coefficients=coefficients)
        return agreed.take(np.flatnonzero(coefficients > 0))

    def _trust_at_owner(self, b: int, contributors: IntArray) -> FloatArray:
        """How far owner b lets each contributor move its model, [contributors].

        Where a peer is better off alone, collaboration as a whole counts for less, and its own data
        for the rest.
        """
        weights = self._weights_of(b, contributors)
        if self.private is None:
            return weights
        place = np.searchsorted(self.context.hosted, b)
        together = float(self.private.together[place])
        own_data = np.where(contributors == b, 1 - together, 0.0)
        trusted: FloatArray = together * weights + own_data
        return trusted

    # Prediction.

    def predictors(self, round_index: int) -> Mixtures:
        """Each peer predicts with its posterior over models, as far as these are what they were."""
        visits, weights = significant_models(self.posteriors, self.opt.w_min)
        fetched = self.read(round_index, visits, weights)
        return as_trusted_now(fetched, self.context.hosted, self.evidence, self.private)
