"""Hostile peers in a simulation: what they send to owners, and the models they serve.

They know everything: the models of all at the start of a round, and all updates of a round before
anybody has got one.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from federico.attacks.hostile_updates import HOSTILE_DELTAS, Opportunity
from federico.attacks.options import AttackKind
from federico.exchange.protocol import Exchange, Hosting, Traffic, Updates
from federico.exchange.simulated import SimulatedExchange
from federico.experiment.build import Setup
from federico.experiment.evaluation import Evaluation, evaluate
from federico.learning.bank import Bank
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.methods.federico import Federico
from federico.methods.method import Method
from federico.rng import stream
from federico.types import IntArray

SECONDS = 300.0
"""Until a peer gives up waiting for another whose thread has failed."""


Serve = Callable[[Tensor, Tensor, torch.Generator], Tensor]
"""(own model, reader's model, random) -> the model that a hostile peer serves to the reader."""


def random_model(own: Tensor, reader: Tensor, random: torch.Generator) -> Tensor:
    """A model that knows nothing, of the usual length."""
    drawn = torch.randn(len(own), generator=random)
    return drawn * own.norm() / drawn.norm()


def broken_model(own: Tensor, reader: Tensor, random: torch.Generator) -> Tensor:
    """A model that is not a number."""
    return torch.full_like(own, torch.nan)


def echo(own: Tensor, reader: Tensor, random: torch.Generator) -> Tensor:
    """The reader's own model, which the reader must find as good as its own."""
    return reader


def disguised_echo(own: Tensor, reader: Tensor, random: torch.Generator) -> Tensor:
    """The same function with its hidden units in another order: other numbers, the same answers.

    For a perceptron of 64 inputs, 64 hidden units and 10 outputs.
    """
    hidden, inputs, outputs = 64, 64, 10
    order = torch.randperm(hidden, generator=random)
    sizes = [hidden * inputs, hidden, outputs * hidden, outputs]
    into, bias, out_of, out_bias = reader.split(sizes)
    into = into.view(hidden, inputs)[order].flatten()
    out_of = out_of.view(outputs, hidden)[:, order].flatten()
    return torch.cat([into, bias[order], out_of, out_bias])


def disguised_with_noise(part: float) -> Serve:
    """The same with noise that is this part as long as the model."""

    def serve(own: Tensor, reader: Tensor, random: torch.Generator) -> Tensor:
        noise = torch.randn(len(reader), generator=random)
        noisy = reader + part * reader.norm() * noise / noise.norm()
        return disguised_echo(own, noisy, random)

    return serve


@dataclass(frozen=True)
class Attack:
    """What hostile peers do; what is not given they do as honest peers do."""

    sends: AttackKind | None = None
    """What they send to the owners of models, as in `federico.attacks`."""
    strength: float = 10.0
    coefficient: float = 1e6
    """What an update is said to count for."""
    serve: Serve | None = None
    first_round: int = 2
    """Before it, they behave."""
    absent: bool = False
    """They are not there at all."""
    trains_all: bool = False
    """Whether they train everybody's model in every round, and send what comes of it backwards."""
    unlearns: float = 0.0
    """How far they lead every model, in usual lengths of its owner's updates, from the owner's own
    update to where it unlearns what they would teach it. Only where each peer has an exchange."""


class Hostile:
    """The hostile peers of a simulation: changes what they send and serve."""

    def __init__(self, members: Sequence[int], attack: Attack, seed: int) -> None:
        self.members = np.array(members, dtype=np.int64)
        self.attack = attack
        self._seed = seed
        self._random = torch.Generator().manual_seed(seed)
        self.models: dict[int, Tensor] = {}
        """The models of all peers at the start of the round, where each has an exchange."""
        self.trainer: Method | None = None
        """What they train the models of others with."""
        self._lengths: dict[int, list[float]] = {}

    def changed(self, round_index: int, updates: Updates) -> Updates:
        """All updates of a round, with what hostile peers send to honest owners instead."""
        attack = self.attack
        has_begun = round_index >= attack.first_round
        sends_as_usual = not has_begun or (attack.sends is None and not attack.unlearns)
        if sends_as_usual and not attack.absent:
            return updates

        is_theirs = np.isin(updates.contributors, self.members)
        to_honest = ~np.isin(updates.owners, self.members)
        honest = updates.take(np.flatnonzero(~is_theirs))
        kept = updates.take(np.flatnonzero(~(is_theirs & to_honest)))
        if attack.absent:
            return kept

        owners: list[int] = []
        contributors: list[int] = []
        deltas: list[Tensor] = []
        rows = honest.rows.as_tensor()
        for owner in np.setdiff1d(honest.owners, self.members).tolist():
            for_owner = honest.owners == owner
            own = np.flatnonzero(for_owner & (honest.contributors == owner))
            own_delta = rows[own[0]]
            for member in self.members.tolist():
                if attack.unlearns:
                    owners.append(owner)
                    contributors.append(member)
                    deltas.append(self._unlearning(member, owner, own_delta, round_index))
                    continue
                assert attack.sends is not None
                chance = Opportunity(
                    model=torch.zeros_like(own_delta),
                    own_delta=own_delta,
                    honest_deltas=rows[np.flatnonzero(for_owner)],
                    mimicked=own_delta,
                    computed=own_delta,
                    replacement=own_delta,
                    strength=attack.strength,
                    rng=stream(self._seed, "hostile peers", member, owner, round_index),
                )
                owners.append(owner)
                contributors.append(member)
                deltas.append(HOSTILE_DELTAS[attack.sends](chance))
        return Updates(
            np.append(kept.owners, owners),
            np.append(kept.contributors, contributors),
            np.append(kept.coefficients, np.full(len(deltas), attack.coefficient)),
            Rows.of(torch.cat([kept.rows.as_tensor(), torch.stack(deltas)])),
        )

    def _unlearning(self, member: int, owner: int, own_delta: Tensor, round_index: int) -> Tensor:
        """An update within reach, away from what training on the member's data gives."""
        trainer = self.trainer
        assert trainer is not None
        place = int(trainer.bank.places(np.array([owner]))[0])
        trainer.bank.rows[place] = self.models[owner]
        visit = Visits.of([(member, owner)])
        taught = trainer.learner.train(trainer.bank, visit, round_index).as_tensor()[0]

        so_far = self._lengths.setdefault(owner, [])
        if len(so_far) < round_index - self.attack.first_round + 1:
            so_far.append(float(own_delta.norm()))
        usual = max(so_far[-1], sum(so_far) / len(so_far))
        away = -taught - own_delta
        return own_delta + self.attack.unlearns * usual * away / away.norm()

    def serves_falsely(self, round_index: int) -> bool:
        """Whether the models that hostile peers serve are not theirs."""
        return self.attack.serve is not None and round_index >= self.attack.first_round

    def served(self, own: Tensor, reader: Tensor) -> Tensor:
        """What a hostile peer serves in place of its own model."""
        assert self.attack.serve is not None
        return self.attack.serve(own, reader, self._random)

    def reachable(self, visits: Visits) -> Visits:
        """The visits without those to peers that are absent."""
        if not self.attack.absent:
            return visits
        to_absent = np.isin(visits.owners, self.members)
        by_absent = np.isin(visits.clients, self.members)
        own = visits.owners == visits.clients
        return visits[np.flatnonzero(own | ~(to_absent | by_absent))]


class HostileExchange(SimulatedExchange):
    """A simulation in one process in which some peers are hostile.

    All readers get the same model from a hostile peer.
    """

    def __init__(self, bank: Bank, participants: int, hostile: Hostile) -> None:
        super().__init__(bank, participants)
        self._bank = bank
        self._hostile = hostile
        self._own_rows: Tensor | None = None
        """The models of the hostile peers while others lie in their place."""

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        self._serve(round_index)
        return super().pull(round_index, self._hostile.reachable(wanted))

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        self._serve(round_index)
        return super().read_models(round_index, self._hostile.reachable(visits))

    def push(self, round_index: int, updates: Updates) -> None:
        self._restore()
        super().push(round_index, self._hostile.changed(round_index, updates))

    def _serve(self, round_index: int) -> None:
        self._restore()
        if not self._hostile.serves_falsely(round_index):
            return
        places = self._bank.places(self._hostile.members)
        self._own_rows = self._bank.rows[places].clone()
        for place, own in zip(places.tolist(), self._own_rows, strict=True):
            self._bank.rows[place] = self._hostile.served(own, own)

    def _restore(self) -> None:
        if self._own_rows is not None:
            places = self._bank.places(self._hostile.members)
            self._bank.rows[places] = self._own_rows
            self._own_rows = None


def play_beside(setup: Setup, members: Sequence[int], attack: Attack) -> Evaluation:
    """Play FedeRiCo to its last round, with these hostile members; returns all peers' scores."""
    hostile = Hostile(members, attack, setup.seed)

    def connect(bank: Bank, participants: int) -> Exchange:
        return HostileExchange(bank, participants, hostile)

    method = setup.hosted_method("federico", Hosting(len(setup.clients)), connect)
    assert isinstance(method, Federico)
    if attack.trains_all:
        turn_round(method, hostile)
    return _play(method, setup.experiment.rounds)


def turn_round(method: Federico, hostile: Hostile) -> None:
    """Let the hostile peers train all models, and send what comes of it backwards."""
    sample = method.sample
    m_step = method.m_step
    everybody = np.arange(method.context.count)

    def sample_everybody(round_index: int) -> list[IntArray]:
        neighbors = sample(round_index)
        if round_index >= hostile.attack.first_round:
            for member in hostile.members.tolist():
                neighbors[member] = np.setdiff1d(everybody, [member])
        return neighbors

    def push_backwards(visits: Visits, round_index: int) -> Updates:
        to_other = visits.clients != visits.owners
        is_theirs = np.isin(visits.clients, hostile.members) & to_other
        honest = m_step(visits[np.flatnonzero(~is_theirs)], round_index)
        theirs = visits[np.flatnonzero(is_theirs)]
        if len(theirs) == 0:
            return honest
        deltas = method.learner.train(method.bank, theirs, round_index).as_tensor()
        together = Updates(
            np.append(honest.owners, theirs.owners),
            np.append(honest.contributors, theirs.clients),
            np.append(honest.coefficients, np.full(len(theirs), hostile.attack.coefficient)),
            Rows.of(torch.cat([honest.rows.as_tensor(), -deltas])),
        )
        return together.take(np.lexsort((together.contributors, together.owners)))

    method.sample = sample_everybody  # type: ignore[method-assign]
    method.m_step = push_backwards  # type: ignore[method-assign]


class Square:
    """Where peers with an exchange each meet, twice in a round."""

    def __init__(self, peers: int, hostile: Hostile) -> None:
        self.hostile = hostile
        self.models: dict[int, Tensor] = {}
        self.pushed: dict[int, Updates] = {}
        self.all_updates: Updates | None = None
        self.models_are_there = threading.Barrier(peers, timeout=SECONDS)
        self.updates_are_there = threading.Barrier(peers, self._lay_together, SECONDS)
        self.round_index = 0

    def _lay_together(self) -> None:
        pushed = [self.pushed[peer] for peer in sorted(self.pushed)]
        together = Updates(
            np.concatenate([updates.owners for updates in pushed]),
            np.concatenate([updates.contributors for updates in pushed]),
            np.concatenate([updates.coefficients for updates in pushed]),
            Rows.of(torch.cat([updates.rows.as_tensor() for updates in pushed])),
        )
        changed = self.hostile.changed(self.round_index, together)
        order = np.lexsort((changed.contributors, changed.owners))
        self.all_updates = changed.take(order)


class SquareExchange:
    """The exchange of one peer: a hostile peer may serve each reader another model."""

    def __init__(self, square: Square, peer: int, bank: Bank, participants: int) -> None:
        self.traffic = Traffic(participants)
        self._square = square
        self._peer = peer
        self._bank = bank

    def withhold(self, owners: IntArray) -> None:
        assert len(owners) == 0, "everybody has enough samples to show its model"

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        return self._fetch(round_index, wanted)

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        return self._fetch(round_index, visits)

    def push(self, round_index: int, updates: Updates) -> None:
        self._square.pushed[self._peer] = updates

    def collect(self, round_index: int) -> Updates:
        self._square.updates_are_there.wait()
        updates = self._square.all_updates
        assert updates is not None
        return updates.take(np.flatnonzero(updates.owners == self._peer))

    def _fetch(self, round_index: int, wanted: Visits) -> Visits:
        square = self._square
        square.round_index = round_index
        square.models[self._peer] = self._bank.hosted_rows[0].clone()
        square.models_are_there.wait()

        wanted = square.hostile.reachable(wanted)
        others = np.setdiff1d(wanted.owners, [self._peer])
        rows = self._bank.replace_visiting_rows(others)
        for row, owner in zip(rows, others.tolist(), strict=True):
            row.copy_(self._served(owner, round_index))
        return wanted

    def _served(self, owner: int, round_index: int) -> Tensor:
        square = self._square
        model = square.models[owner]
        members = square.hostile.members
        is_deceived = owner in members and self._peer not in members
        if is_deceived and square.hostile.serves_falsely(round_index):
            return square.hostile.served(model, square.models[self._peer])
        return model


def play_apart(setup: Setup, members: Sequence[int], attack: Attack) -> list[Evaluation]:
    """The same with a thread for each peer, which takes longer; the scores are by peer."""
    peers = len(setup.clients)
    hostile = Hostile(members, attack, setup.seed)
    square = Square(peers, hostile)
    hostile.models = square.models
    if attack.unlearns:
        hostile.trainer = setup.method("federico")
    methods: list[Method] = []
    for peer in range(peers):

        def connect(bank: Bank, participants: int, peer: int = peer) -> Exchange:
            return SquareExchange(square, peer, bank, participants)

        hosting = Hosting(peers, rank=peer, ranks=peers)
        methods.append(setup.hosted_method("federico", hosting, connect))

    with ThreadPoolExecutor(peers) as pool:
        rounds = [setup.experiment.rounds] * peers
        return list(pool.map(_play, methods, rounds))


def _play(method: Method, rounds: int) -> Evaluation:
    for round_index in range(1, rounds + 1):
        method.round(round_index)
    return evaluate(method, method.predictors(rounds))
