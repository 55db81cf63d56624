"""FedeRiCo as plain loops: read this first.

Everything fast in this package computes these numbers. K peers hold data D_i and own a model phi_i
each. Before the first round a peer holds a part V_i of its data out of training. In a round every
peer i

  1. samples a few neighbors and pulls their models,
  2. judges each of these models, and its own, by what it is worth on V_i, in nats (E-step),
  3. turns these gains into a posterior over the peers it has met: its trust,
  4. trains each of the models that it trusts on the rest of D_i and sends its owner an update
     (M-step),
  5. trains a private model on all of D_i, and a twin of it without V_i: judged on V_i, the twin
     tells how much the collaborators are worth against training alone (the gate).

To predict, a peer judges the models that it trusts once more, as they are now.

Owners move their models after everybody is done, so the order of the peers does not matter. An
update counts for as much as its sender says, but for no more than the owner trusts the sender, and
none leads further away from the owner's own update than the owner's updates are long, times one and
a half, unless another rule is set (`reference_acceptance`).

After a part of the rounds each peer judges all models that it trusts once more. From then on trust
is final, neighbors are drawn by trust, and V_i is trained on like all other samples.

A model here is any vector with two functions: its outputs for some inputs, and the gradient of its
mean loss. `federico.algorithm.reference_paper` is the paper's own rule.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from math import ceil, exp, inf, isnan, nan
from sys import float_info
from typing import TypeAlias

import numpy as np

from federico.algorithm.aggregation import Say
from federico.algorithm.evidence import FEW_SAMPLES, NO_GAIN, PRIOR_POWERS, VALUES_ODDS
from federico.algorithm.gains import WAITING
from federico.algorithm.reference_acceptance import ReferenceAcceptance, length_of
from federico.algorithm.reference_evidence import (
    ReferenceEvidence,
    calibrated,
    chance_that_together_is_better,
    evidence_from_classes,
    evidence_from_values,
    label_frequencies,
    mixture_log_likelihood,
    share_together,
    trust_in,
)
from federico.algorithm.reference_training import Gradient, ReferenceTrainer
from federico.algorithm.sampling import Sampler, View, draw_by_weight
from federico.algorithm.standing import (
    HARMFUL,
    LEFT_AFTER_REFUSAL,
    MOST_HARM,
    REGAINED,
    TOO_FAR,
)
from federico.rng import stream
from federico.types import Array, FloatArray, Task

Outputs: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""What a model says about inputs, [samples, outputs]: log-probabilities of classes, or values."""


@dataclass(frozen=True)
class ReferenceUpdate:
    """What a peer sends to the owner of a model it has trained."""

    sender: int
    owner: int
    coefficient: float
    delta: FloatArray
    """How far training moved the model."""


@dataclass(frozen=True)
class ReferenceComparison:
    """What a peer's held-out samples say of its collaborators against training alone."""

    together: float
    """How much the collaborators count where they move the peer's own model."""
    predicting: float
    """How much they count in what it predicts with."""
    chance: float
    """How probable it is that they do better; not a number where nothing can be said."""


@dataclass
class ReferenceFederation:
    """The whole state of FedeRiCo, and its rounds."""

    x: list[FloatArray]
    y: list[Array]
    """Labels, or values: [samples, outputs]."""
    phi: list[FloatArray]
    """The model of each peer."""
    private: list[FloatArray]
    """The model that each peer trains alone, on all its samples, and shows to nobody."""
    twin: list[FloatArray]
    """The same, trained without what is held out."""
    outputs: Outputs
    gradient: Gradient
    task: Task
    classes: int
    sampler: Sampler
    names: list[str]
    rounds: int
    neighbors: int = 3
    held_out: float = 0.2
    judging: float = 0.4
    """The fraction of the rounds in which models are judged."""
    solo_rounds: int = 1
    has_private_model: bool = True
    together_prior: float = 0.8
    predicting_prior: float = 0.5
    say: Say = "mutual"
    acceptance: ReferenceAcceptance = field(default_factory=ReferenceAcceptance)
    """How owners weigh the updates of others against their own."""
    momentum: float = 0.6
    """beta, the weight of the new gain in the tracked one."""
    w_min: float = 1e-4
    w_max: float = 1.0
    """What one other peer's model may weigh in what a peer predicts with."""
    seed: int = 0
    rate: float = 0.01
    batch_size: int = 10
    least_samples: int = 1
    """A peer that trains on fewer samples shows its model to nobody, and sends nothing."""

    def __post_init__(self) -> None:
        """Every peer holds a part of its samples out; nobody has judged any model yet."""
        self.trainer = ReferenceTrainer(
            self.gradient, self.names, self.seed, self.rate, self.batch_size
        )

        self.for_training: list[list[int]] = []
        """Which of its samples each peer trains the models of the federation on."""
        self.for_judging: list[list[int]] = []
        """V_i: which of its samples each peer judges models by."""
        self.log_prior: list[list[float]] = []
        """log pi_i of each peer: how frequent the labels are that it trains on."""
        for i in range(len(self.x)):
            self.hold_out(i)

        self.unshown: set[int] = set()
        """The peers that show their models to nobody, from the first round to the last."""
        for i, samples in enumerate(self.for_training):
            if len(samples) < self.least_samples:
                self.unshown.add(i)
        few = [i for i, samples in enumerate(self.for_judging) if 0 < len(samples) < FEW_SAMPLES]
        self.silent = self.unshown.union(few)
        """The peers that send nothing before their trust is final: those, and the ones that have
        held out too few samples to judge by these alone."""
        self.absent: list[set[int]] = [set() for _ in self.x]
        """The peers whose models peer i has wanted in vain."""

        self.gain: list[dict[int, float]] = [{} for _ in self.x]
        """G_ij: the nats that model j was worth to peer i, averaged over its visits."""
        self.broken: list[set[int]] = [set() for _ in self.x]
        """The models whose outputs were not finite when peer i saw them last."""
        self.ceiling: list[dict[int, float]] = [{} for _ in self.x]
        """What each gain may be at most, once trust is final: models are then judged on samples
        that they are trained on, where only a loss of worth tells anything."""
        self.waiting: list[set[int]] = [set() for _ in self.x]
        """The peers that have sent peer i an update, but have never been judged by it."""
        self.temperature: list[dict[int, float]] = [{} for _ in self.x]
        """T_ij: how peer i reads model j."""
        self.prior_power: list[dict[int, float]] = [{} for _ in self.x]
        """a_ij: how peer i reads model j."""
        self.posterior: list[dict[int, float]] = [{} for _ in self.x]
        """w_ij: how much peer i trusts the model of peer j."""

        self.standing: list[dict[int, float]] = [{} for _ in self.x]
        """What refused updates have left to their senders, at each peer; 1 if not here."""
        self.refusals: list[dict[int, int]] = [{} for _ in self.x]
        """How many updates of each sender were refused."""
        self.own_lengths: list[list[float]] = [[] for _ in self.x]
        """The lengths of the updates that each peer has made to its own model."""
        self.worth_of_updates: list[dict[int, float]] = [{} for _ in self.x]
        """What the updates of each sender were worth to each peer, in nats: at most nothing."""
        self.compare_nobody_yet()

    def compare_nobody_yet(self) -> None:
        """Nobody knows yet whether it is better off with others than alone."""
        self.together_ceiling: list[float] = [1.0 for _ in self.x]
        """What g_i may be at most."""
        self.together: list[float] = [self.together_prior for _ in self.x]
        """g_i: how much the collaborators count against the private model."""
        self.predicting_ceiling: list[float] = [1.0 for _ in self.x]
        """What g'_i may be at most."""
        self.predicting: list[float] = [self.predicting_prior for _ in self.x]
        """g'_i: how much they count in what peer i predicts with."""
        self.chance_ceiling: list[float] = [1.0 for _ in self.x]
        """What peer i may say at most of how sure its collaborators do better than it alone."""
        self.chance: list[float] = [nan for _ in self.x]
        """How probable it is that they do; not a number where nothing can be said."""
        self.private_temperature: list[float] = [1.0 for _ in self.x]
        """How peer i reads its private model."""

    def hold_out(self, i: int) -> None:
        """Choose what peer i holds out: at least one sample, but never its last."""
        count = len(self.x[i])
        held = max(1, round(self.held_out * count))
        held = min(held, count - 1)

        # No last batch of a single sample: there are models that cannot be trained on it.
        last_batch = (count - held) % self.batch_size
        if held > 0 and last_batch == 1 and self.batch_size > 1:
            if held == 1 and count > 2:
                held += 1  # one less would be none
            else:
                held -= 1

        rng = stream(self.seed, "hold out", self.names[i])
        order = self.mixed_order(i, rng)
        self.for_judging.append(sorted(order[:held]))
        self.for_training.append(sorted(order[held:]))

        if self.task == "classification":
            labels = [int(self.y[i][s]) for s in self.for_training[i]]
            self.log_prior.append(label_frequencies(labels, self.classes))

    def mixed_order(self, i: int, rng: np.random.Generator) -> list[int]:
        """The samples of peer i in an order of which every beginning has some of every kind.

        A kind is a class, or a range of neighbouring values, of which one is held out.
        """
        order = rng.permutation(len(self.x[i])).tolist()
        targets = np.ravel(self.y[i]).tolist()
        kind = {s: targets[s] for s in order}
        if self.task == "regression":
            in_range = max(1, round(1 / self.held_out))
            by_value = sorted(range(len(targets)), key=lambda s: targets[s])
            kind = {s: float(rank // in_range) for rank, s in enumerate(by_value)}

        place: dict[int, float] = {}
        for this_kind in sorted(set(kind.values())):
            start = rng.random()
            of_kind = [s for s in order if kind[s] == this_kind]
            for turn, s in enumerate(of_kind):
                place[s] = (turn + start) / len(of_kind)
        return sorted(range(len(targets)), key=lambda s: place[s])

    @property
    def last_judging_round(self) -> int:
        """The round after which trust becomes final; everybody has met somebody by then."""
        share = ceil(self.judging * self.rounds)
        first_meeting = min(self.solo_rounds + 1, self.rounds)
        return max(share, first_meeting)

    # A round.

    def round(self, t: int) -> None:
        """One round; `t` counts from 1."""
        updates: list[ReferenceUpdate] = []
        for i in range(len(self.x)):
            visited = sorted([i, *self.pull(i, self.wanted(i, t))])

            if t <= self.last_judging_round:
                self.judge(i, visited)
            elif t == self.last_judging_round + 1:
                self.judge(i, visited, becomes_final=True)
                self.release_held_out(i)
                visited = sorted([i, *self.sample_by_trust(i, t)])
            else:
                self.judge(i, visited)

            self.forget_negligible(i)
            updates += self.make_updates(i, visited, t)
            self.train_alone(i, t)

        for b in range(len(self.phi)):
            received = [update for update in updates if update.owner == b]
            self.update(b, received)

    def wanted(self, i: int, t: int) -> list[int]:
        """Whose models peer i pulls in this round."""
        if t <= self.solo_rounds:
            return []
        if t <= self.last_judging_round:
            return self.sample(i, t)
        if t == self.last_judging_round + 1:
            return self.trusted_others(i)
        return self.sample_by_trust(i, t)

    def pull(self, i: int, wanted: list[int]) -> list[int]:
        """The wanted models that come; a peer whose model does not is tried after all others."""
        came = [j for j in wanted if j not in self.unshown]
        self.absent[i] |= set(wanted) - set(came)
        return came

    def sample(self, i: int, t: int) -> list[int]:
        """The neighbors of peer i while it judges: those who wait, then those it trusts most."""
        known = sorted({*self.gain[i], *self.waiting[i], *self.absent[i]})
        losses: list[float] = []
        for j in known:
            if j in self.absent[i]:
                losses.append(inf)
            elif j in self.waiting[i]:
                losses.append(WAITING)
            else:
                # A peer that has sent updates that had to be refused is asked less readily.
                standing = self.standing[i].get(j, 1.0)
                losses.append(1 - standing * self.posterior[i][j])

        view = View(
            peer=i,
            count=len(self.x),
            known=np.array(known, dtype=np.int64),
            losses=np.array(losses),
        )
        rng = stream(self.seed, "sample", self.names[i], t)
        sampled: list[int] = self.sampler.sample(view, rng).tolist()
        return sampled

    def sample_by_trust(self, i: int, t: int) -> list[int]:
        """The neighbors of peer i once its trust is final: those who wait, then drawn by trust."""
        waiting = sorted(self.waiting[i])[: self.neighbors]
        others = self.trusted_others(i)
        weights = [self.standing[i].get(j, 1.0) * self.posterior[i][j] for j in others]
        left = self.neighbors - len(waiting)
        rng = stream(self.seed, "sample", self.names[i], t)
        drawn = draw_by_weight(np.array(others), np.array(weights), left, rng)
        chosen = {*waiting, *drawn.tolist()}

        # If few are trusted, peers never met are tried.
        strangers: list[int] = []
        for j in range(len(self.x)):
            if j != i and j not in self.gain[i] and j not in self.waiting[i]:
                strangers.append(j)
        left = self.neighbors - len(chosen)
        if left > 0:
            in_order = rng.permutation(np.array(strangers, dtype=np.int64)).tolist()
            in_order.sort(key=lambda j: j in self.absent[i])  # those wanted in vain come last
            chosen |= set(in_order[:left])
        return sorted(chosen)

    def trusted_others(self, i: int) -> list[int]:
        """The other peers whose models are worth training for peer i."""
        trusted: list[int] = []
        for j, weight in sorted(self.posterior[i].items()):
            if j != i and weight > 0 and weight >= self.w_min:
                trusted.append(j)
        return trusted

    # E-step: evidence on held-out samples becomes trust.

    def judge(self, i: int, visited: list[int], *, becomes_final: bool = False) -> None:
        """Judge the visited models, track what they are worth, make it trust; and set the gate."""
        evidence: dict[int, ReferenceEvidence] = {}
        for b in visited:
            evidence[b] = self.evidence_on(i, b)
            self.take_in(i, b, evidence[b], becomes_final=becomes_final)

        self.posterior[i] = self.trust(i)
        if self.has_private_model:
            if not self.ceiling[i]:
                self.private_temperature[i] = self.evidence_alone(i).temperature
            weights = {b: self.weight_of(i, b) for b in visited}
            collaborators = self.trusted_others(i)
            compared = self.compare_with_alone(i, evidence, weights, collaborators)
            self.together[i] = compared.together
            self.predicting[i] = compared.predicting
            self.chance[i] = compared.chance
            if self.ceiling[i] and self.together_ceiling[i] == 1 and compared.together > 0:
                # It trusted nobody when trust became final, and has found a collaborator now.
                self.limit_share(i)

    def evidence(
        self,
        i: int,
        phi: FloatArray,
        prior_powers: tuple[float, ...] = PRIOR_POWERS,
        judged: list[int] | None = None,
    ) -> ReferenceEvidence:
        """What the held-out samples of peer i say about a model, or those that are `judged`."""
        if judged is None:
            judged = self.for_judging[i]
        if not judged:
            return self.evidence_without_samples(i, phi)

        x = self.x[i][judged]
        y = self.y[i][judged]
        outputs = self.outputs(phi, x).tolist()
        if self.task == "regression":
            return evidence_from_values(outputs, y.tolist())
        return evidence_from_classes(outputs, y.tolist(), self.log_prior[i], prior_powers)

    def evidence_on(self, i: int, b: int) -> ReferenceEvidence:
        """What is said about the model of peer b.

        A silent peer has no sample that another peer's model was trained on: all of them tell what
        such a model is worth.
        """
        found = self.evidence(i, self.phi[b])
        if i not in self.silent or b == i:
            return found
        everything = list(range(len(self.x[i])))
        by_all = self.evidence(i, self.phi[b], judged=everything)
        return replace(found, gain=by_all.gain)

    def evidence_without_samples(self, i: int, phi: FloatArray) -> ReferenceEvidence:
        """A peer with nothing to judge by takes every model for a guess, unless it is broken."""
        outputs = self.outputs(phi, self.x[i])
        gain = 0.0
        if not np.isfinite(outputs).all():
            gain = -inf
        return ReferenceEvidence(gain, 1.0, 0.0, [], [])

    def take_in(self, i: int, b: int, evidence: ReferenceEvidence, *, becomes_final: bool) -> None:
        """Track what model b is worth to peer i; as trust becomes final, this replaces the rest."""
        gain = max(evidence.gain, NO_GAIN)
        if b in self.gain[i] and not becomes_final:
            previous = self.gain[i][b]
            gain = (1 - self.momentum) * previous + self.momentum * gain
        self.gain[i][b] = min(gain, self.ceiling[i].get(b, inf))

        if b not in self.ceiling[i]:
            self.temperature[i][b] = evidence.temperature
            self.prior_power[i][b] = evidence.prior_power
        if i in self.ceiling[i]:
            # Trust is final: a peer that is met only now is judged once.
            self.ceiling[i].setdefault(b, self.gain[i][b])
        self.waiting[i].discard(b)
        self.broken[i].discard(b)
        if evidence.gain == -inf:
            self.broken[i].add(b)

    def trust(self, i: int) -> dict[int, float]:
        """The posterior of peer i over the models it has judged; a broken one has no weight."""
        gains = dict(self.gain[i])
        for b in self.broken[i]:
            gains[b] = NO_GAIN
        weights = trust_in(gains, own=i)

        # Not even its own model has weight when it is broken, unless there is no other.
        usable = sum(weight for b, weight in weights.items() if b not in self.broken[i])
        if usable == 0:
            return weights
        for b in weights:
            if b in self.broken[i]:
                weights[b] = 0.0
            else:
                weights[b] /= usable
        return weights

    def weight_of(self, i: int, b: int) -> float:
        """How much peer i trusts model b; 0 if it has never judged it.

        Its own model always has some weight, so that it is trained at all.
        """
        weight = self.posterior[i].get(b, 0.0)
        if i == b:
            weight = max(weight, float_info.min)
        return weight

    def compare_with_alone(
        self,
        i: int,
        evidence: dict[int, ReferenceEvidence],
        weights: dict[int, float],
        collaborators: Collection[int],
    ) -> ReferenceComparison:
        """The gate: how much what these models say together counts against training alone."""
        together = mixture_log_likelihood(evidence, self.gain[i], weights)

        alone = self.evidence_alone(i)
        if not collaborators:
            # Without collaborators a peer is alone, and its private model has seen more data.
            return ReferenceComparison(0.0, 0.0, nan)
        share = share_together(together, alone.log_likelihood, self.together_prior)
        prior = self.predicting_prior
        if len(self.for_judging[i]) < FEW_SAMPLES:
            # It has judged the models of others by all its samples.
            prior = self.together_prior
        if self.task == "regression":
            odds = VALUES_ODDS * prior / (1 - prior)
            prior = odds / (1 + odds)
        predicting = share_together(together, alone.log_likelihood, prior)
        chance = chance_that_together_is_better(together, alone.log_likelihood)
        if not isnan(chance):
            chance = min(chance, self.chance_ceiling[i])
        return ReferenceComparison(
            together=min(share, self.together_ceiling[i]),
            predicting=min(predicting, self.predicting_ceiling[i]),
            chance=chance,
        )

    def limit_share(self, i: int) -> None:
        """From now on the collaborators of peer i count for no more, and it gets no surer."""
        self.together_ceiling[i] = self.together[i]
        self.predicting_ceiling[i] = self.predicting[i]
        if not isnan(self.chance[i]):
            self.chance_ceiling[i] = self.chance[i]

    def evidence_alone(self, i: int) -> ReferenceEvidence:
        """What the held-out samples say about training alone.

        Read without label frequencies: it must predict the classes that training alone does.
        """
        return self.evidence(i, self.twin[i], prior_powers=(0.0,))

    def release_held_out(self, i: int) -> None:
        """From now on peer i trains on all its samples, and its trust in no model rises."""
        samples = len(self.x[i])
        self.for_training[i] = list(range(samples))
        self.ceiling[i] = dict(self.gain[i])
        if self.together[i] > 0:
            self.limit_share(i)

    def forget_negligible(self, i: int) -> None:
        """Drop the optimizers kept for models of negligible weight, except for its own model."""
        for j, weight in self.posterior[i].items():
            if j != i and weight < self.w_min:
                self.trainer.forget(i, j)

    # M-step: training, what is sent, and what an owner makes of it.

    def make_updates(self, i: int, visited: list[int], t: int) -> list[ReferenceUpdate]:
        """What peer i sends to the owners of visited models: c_ib = n_i w_ib, and a delta.

        A peer trains its own model however little it trusts it: if nobody did, it would stay so.
        One with too few samples trains no other; one with few, not while it judges.
        """
        sends_nothing = self.unshown if self.ceiling[i] else self.silent
        x = self.x[i][self.for_training[i]]
        y = self.y[i][self.for_training[i]]
        samples = len(x)

        updates: list[ReferenceUpdate] = []
        for b in visited:
            weight = self.weight_of(i, b)
            if b != i and (weight == 0 or weight < self.w_min or i in sends_nothing):
                continue
            delta = self.trainer.local_epoch(i, b, self.phi[b], x, y, t)
            updates.append(ReferenceUpdate(i, b, weight * samples, delta))
        return updates

    def train_alone(self, i: int, t: int) -> None:
        """Train the private model on all samples, and its twin on those not held out."""
        if not self.has_private_model:
            return

        moved = self.trainer.local_epoch(i, "private", self.private[i], self.x[i], self.y[i], t)
        self.private[i] = self.private[i] + moved

        # The twin never sees what is held out: it tells how good training alone is.
        unseen = set(self.for_judging[i])
        seen = [s for s in range(len(self.x[i])) if s not in unseen]
        x = self.x[i][seen]
        y = self.y[i][seen]
        moved = self.trainer.local_epoch(i, "twin", self.twin[i], x, y, t)
        self.twin[i] = self.twin[i] + moved

    def update(self, b: int, received: list[ReferenceUpdate]) -> None:
        """Move model b by the average of what has come, each update by what it counts for."""
        # A peer that has sent something and was never judged is judged next.
        for update in received:
            if update.sender not in self.gain[b] and self.say != "sender":
                self.waiting[b].add(update.sender)

        received = [update for update in received if self.counts_for(update) > 0]
        own: FloatArray | None = None
        for update in received:
            if update.sender == b:
                own = update.delta
                self.own_lengths[b].append(length_of(own))
        usual_length = self.usual_length(b, own)

        # What an update loses of its coefficient goes to the owner's own.
        weights: dict[int, float] = {}
        deltas: dict[int, FloatArray] = {}
        for update in received:
            deltas[update.sender] = update.delta
            weights[update.sender] = self.counts_for(update)
        for update in received:
            if update.sender == b:
                continue
            kept = self.acceptance.part_kept(update.delta, own, usual_length)
            self.give_to_own(b, weights, update.sender, kept)
            deltas[update.sender] = self.acceptance.shortened(update.delta, usual_length)

        harmful = self.harmful(b, deltas, weights)
        refused = self.too_far(b, received, own) | self.that_count(b, received, harmful)
        self.note_refusals(b, refused)
        for sender in deltas:
            if sender == b:
                continue
            kept = 0.0 if sender in harmful else 1.0
            kept *= self.standing[b].get(sender, 1.0)
            self.give_to_own(b, weights, sender, kept)

        senders = [sender for sender in deltas if weights[sender] > 0]
        if senders:
            self.phi[b] = self.phi[b] + self.acceptance.together(
                [deltas[sender] for sender in senders], [weights[sender] for sender in senders]
            )

    def give_to_own(self, b: int, weights: dict[int, float], sender: int, kept: float) -> None:
        """Leave an update a part of its weight; the owner's own gets the rest, if there is one."""
        given = (1 - kept) * weights[sender]
        weights[sender] -= given
        if b in weights:
            weights[b] += given

    def that_count(
        self, b: int, received: list[ReferenceUpdate], senders: Collection[int]
    ) -> set[int]:
        """Those of the senders whose updates count for more than next to nothing."""
        total = sum(self.counts_for(update) for update in received)
        counting: set[int] = set()
        for update in received:
            is_negligible = self.counts_for(update) <= self.w_min * total
            if update.sender in senders and not is_negligible:
                counting.add(update.sender)
        return counting

    def too_far(self, b: int, received: list[ReferenceUpdate], own: FloatArray | None) -> set[int]:
        """The senders whose updates are held against them: very far from the own one."""
        usual_length = self.usual_length(b, own)
        if own is None or usual_length == 0 or self.acceptance.accept == "any":
            return set()
        far: list[int] = []
        for update in received:
            if length_of(update.delta - own) > TOO_FAR * usual_length:
                far.append(update.sender)
        return self.that_count(b, received, far)

    def harmful(self, b: int, deltas: dict[int, FloatArray], weights: dict[int, float]) -> set[int]:
        """The senders whose updates have cost model b too many nats, these included.

        An update is tried with its share of the average, beside the owner's own alone.
        """
        if self.acceptance.accept == "any":
            return set()
        known = self.worth_of_updates[b]
        for sender in known:
            known[sender] *= 1 - REGAINED
        total = sum(weights.values())
        harmful: set[int] = set()
        for sender, delta in deltas.items():
            if sender == b:
                continue
            worth = 0.0
            share = weights[sender] / total
            if b in deltas and share > self.w_min:
                by_own = self.evidence(b, self.phi[b] + deltas[b]).gain
                moved = self.phi[b] + (1 - share) * deltas[b] + share * delta
                worth = self.evidence(b, moved).gain - min(by_own, self.ceiling[b].get(b, inf))
            so_far = known.get(sender, 0.0) + worth
            known[sender] = max(-MOST_HARM, min(0.0, so_far))
            if known[sender] < -HARMFUL:
                harmful.add(sender)
        return harmful

    def note_refusals(self, b: int, refused: set[int]) -> None:
        """A peer whose update was refused counts for half as much; others regain something."""
        for sender, standing in self.standing[b].items():
            self.standing[b][sender] = min(1.0, standing + REGAINED)
            if sender in refused:
                self.standing[b][sender] = standing * LEFT_AFTER_REFUSAL
        for sender in refused:
            # A peer that was never refused before had a standing of 1.
            self.standing[b].setdefault(sender, LEFT_AFTER_REFUSAL)
            before = self.refusals[b].get(sender, 0)
            self.refusals[b][sender] = before + 1

    def usual_length(self, b: int, own: FloatArray | None) -> float:
        """How long the updates of owner b usually are, or the present one if that is longer."""
        lengths = self.own_lengths[b]
        mean = sum(lengths) / max(1, len(lengths))
        present = 0.0 if own is None else length_of(own)
        return max(present, mean)

    def counts_for(self, update: ReferenceUpdate) -> float:
        """What an update counts for at the owner of the model, by who has a say."""
        b = update.owner
        allowed = len(self.for_training[b]) * self.trust_at_owner(b, update.sender)
        if self.say == "sender":
            return update.coefficient
        if self.say == "owner" or update.sender == b:
            return allowed
        return min(update.coefficient, allowed)

    def trust_at_owner(self, b: int, i: int) -> float:
        """How far owner b lets peer i move its model: nothing, if it has never judged peer i.

        Where b is better off alone, its own data count for more and all others for less.
        """
        weight = self.weight_of(b, i)
        if not self.has_private_model:
            return weight

        together = self.together[b]
        if i == b:
            return together * weight + (1 - together)
        return together * weight

    # Prediction.

    def predict(self, i: int, x: FloatArray) -> list[list[float]]:
        """What peer i predicts: probabilities of classes for each sample, or values."""
        trusted: dict[int, float] = {}
        for j, weight in self.posterior[i].items():
            if weight >= self.w_min:
                trusted[j] = weight
        if not trusted:
            trusted[i] = 1.0

        evidence = {j: self.evidence_on(i, j) for j in {i, *trusted}}
        trusted = self.capped(i, self.trusted_now(i, trusted, evidence))
        share_alone = 0.0
        if self.has_private_model:
            compared = self.compare_with_alone(i, evidence, trusted, set(trusted) - {i})
            share_alone = 1 - compared.predicting

        answers: list[tuple[float, FloatArray]] = []
        for j, weight in trusted.items():
            share = (1 - share_alone) * weight
            temperature = self.temperature[i][j]
            prior_power = self.prior_power[i][j]
            if not self.ceiling[i]:
                # Later, samples that models are trained on would say that they are sure.
                temperature = evidence[j].temperature
                prior_power = evidence[j].prior_power
            answers.append((share, self.read(i, self.phi[j], x, temperature, prior_power)))
        if self.has_private_model:
            temperature = self.private_temperature[i]
            answers.append((share_alone, self.read(i, self.private[i], x, temperature, 0.0)))
        return mixed_answers(answers)

    def trusted_now(
        self, i: int, trusted: dict[int, float], evidence: dict[int, ReferenceEvidence]
    ) -> dict[int, float]:
        """Trust in the models as they are now: nobody predicts with what was not measured."""
        now: dict[int, float] = {}
        for j in trusted:
            gain = min(evidence[j].gain, self.ceiling[i].get(j, inf))
            score = max(0.0, 1 + gain) ** 2
            if score > 0:
                now[j] = score
        return now

    def capped(self, i: int, weights: dict[int, float]) -> dict[int, float]:
        """The weights, summing to one, without too large a one of another peer's model.

        What is above goes to the models below the cap, or to the peer's own.
        """
        if not weights:
            return {i: 1.0}

        at_cap: set[int] = set()
        while True:
            below = {j: weight for j, weight in weights.items() if j not in at_cap}
            if not below and at_cap:
                below = {i: 1.0}
            left = 1 - self.w_max * len(at_cap)
            total = sum(below.values())
            shares = {j: left * weight / total for j, weight in below.items()}
            over = {j for j, share in shares.items() if j != i and share > self.w_max}
            if not over:
                return {**dict.fromkeys(at_cap, self.w_max), **shares}
            at_cap |= over

    def read(
        self, i: int, phi: FloatArray, x: FloatArray, temperature: float, prior_power: float
    ) -> FloatArray:
        """What a model says about inputs, as peer i reads it."""
        outputs = self.outputs(phi, x)
        if self.task == "regression":
            return outputs

        probabilities: list[list[float]] = []
        for row in outputs.tolist():
            of_classes = calibrated(row, temperature, prior_power, self.log_prior[i])
            probabilities.append([exp(log_probability) for log_probability in of_classes])
        return np.array(probabilities)


def mixed_answers(answers: list[tuple[float, FloatArray]]) -> list[list[float]]:
    """The answers of several models, each with its share, mixed for every sample.

    A model without a finite answer for a sample is left out there, and the rest weigh more. With
    nobody's answer the prediction is not a number.
    """
    samples, outputs = answers[0][1].shape
    mixed: list[list[float]] = []
    for s in range(samples):
        counted = [(share, rows[s]) for share, rows in answers if np.isfinite(rows[s]).all()]
        total = sum(share for share, _ in counted)
        if total == 0:
            mixed.append([nan] * outputs)
            continue
        answer = sum((share * row for share, row in counted), start=np.zeros(outputs))
        mixed.append((answer / total).tolist())
    return mixed
