"""What every method is made of: a bank of models, an exchange, and rounds whose state can be saved whole."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from federico.errors import ConfigError
from federico.exchange.protocol import Exchange, Hosting, Updates
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.learner import Learner
from federico.learning.parts import ModelPart
from federico.learning.visits import Visits
from federico.options import Options
from federico.stopwatch import Stopwatch
from federico.types import FloatArray, IntArray

GLOBAL = "*global"
"""The name of a model that belongs to no client; the star keeps it apart from every client's name."""


Buffers = Literal["average", "owner", "frozen"]


@dataclass(frozen=True)
class MethodContext:
    """The peers of a run and their means: what a method gets to work with."""

    names: tuple[str, ...]
    learner: Learner
    connect: Callable[[Bank, int], Exchange]
    """(bank, participants) -> the exchange that carries this bank's models."""
    hosting: Hosting
    seed: int
    local_epochs: int = 1
    clock: Stopwatch = field(default_factory=Stopwatch)

    @property
    def count(self) -> int:
        """K, the number of clients."""
        return len(self.names)

    @property
    def hosted(self) -> IntArray:
        """The clients that this process acts for: all of them, unless several processes share the work."""
        return self.hosting.hosted

    def to_own(self) -> Visits:
        """Every hosted client visits its own model and no other."""
        return Visits.to_own(self.hosted)


@dataclass(frozen=True)
class Posterior:
    """One client's weights over the owners of models it has met, and nobody else: for FedeRiCo the row w_i."""

    peers: IntArray
    weights: FloatArray


@dataclass(frozen=True)
class Round:
    """What a round leaves to be recorded of the hosted clients; empty lists where the method has no such thing.

    What only a server knows, its process says of all clients and the others leave empty.
    """

    neighbors: list[IntArray] = field(default_factory=list)
    posteriors: list[Posterior] = field(default_factory=list)


@dataclass(frozen=True)
class Mixtures:
    """Every client's predictor: visit k brings the model of its owner into its client's mixture with weights[k]."""

    bank: Bank
    visits: Visits
    weights: FloatArray


@dataclass(frozen=True)
class Needs:
    """How many rows of numbers a method holds at its peak, for all clients together."""

    models: int
    updates: int
    """Moves of models on their way to the owners."""
    pairs: int
    """Whose optimizer is kept between rounds."""
    fresh: int = 0
    """Optimizers that live as long as the updates do."""
    copies: int = 0
    """Rows that are put side by side in memory, wherever the others lie."""


class Method(ABC):
    """One federated method. Subclasses own their options and read like their paper."""

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[type[Options]] = Options

    @classmethod
    def check(cls, options: Any, clients: int, layout: ModelLayout) -> None:
        """Refuse options that do not go with the data or the model; called before anything starts."""

    @classmethod
    def needs(
        cls, options: Any, clients: int, distribution: Sequence[int] | None, rounds: int
    ) -> Needs:
        """What must be held if `distribution` says which clients are alike: here a model per client, trained by it."""
        return Needs(clients, clients, clients)

    @classmethod
    def trains_on(cls, options: Any, samples: IntArray) -> IntArray:
        """How many of its samples each client trains on."""
        return samples

    def __init__(self, context: MethodContext, options: Options) -> None:
        self.check(options, context.count, context.learner.layout)
        self.context = context
        self.learner = context.learner
        self.opt = options
        self.bank = Bank.start(
            self.learner.layout,
            context.seed,
            self._home(),
            self.learner.device,
            self.learner.storage,
        )
        self.exchange = context.connect(self.bank, max(self.owners()) + 1)

    @abstractmethod
    def owners(self) -> Mapping[int, str]:
        """Who owns a model, and the name its initial model is drawn by. Clients are 0 to K-1."""

    @property
    def names(self) -> tuple[str, ...]:
        """What people read for each owner: a client's name, or what a model is that belongs to none."""
        return self.context.names

    @abstractmethod
    def round(self, round_index: int) -> Round:
        """One round; `round_index` starts at 1."""

    @abstractmethod
    def mixtures(self, round_index: int) -> Mixtures:
        """Everybody's predictor as it stands after this round."""

    def predictors(self, round_index: int) -> Mixtures:
        """The mixtures with their models at hand; those that cannot be had are left out, the others weigh more.

        A client of whose mixture nothing is left has its own model.
        """
        asked = self.mixtures(round_index)
        came = self.exchange.read_models(round_index, asked.visits)
        if len(came) == len(asked.visits):
            return asked
        here, left = set(came.pairs), np.setdiff1d(asked.visits.clients, came.clients)
        visits = Visits(np.concatenate([came.clients, left]), np.concatenate([came.owners, left]))
        weights = np.append(
            asked.weights[[pair in here for pair in asked.visits.pairs]], np.ones(len(left))
        )
        return Mixtures(
            asked.bank, visits, weights / np.bincount(visits.clients, weights)[visits.clients]
        )

    def pull(self, round_index: int, neighbors: Sequence[IntArray]) -> Visits:
        """Visits of every hosted client to its own model and to those of its neighbors that came."""
        own = self.context.to_own()
        counts = [len(sampled) for sampled in neighbors]
        came = self.exchange.pull(
            round_index, Visits(np.repeat(own.clients, counts), np.concatenate(neighbors))
        )
        clients = np.concatenate([own.clients, came.clients])
        owners = np.concatenate([own.owners, came.owners])
        return Visits(clients, owners)[np.lexsort((owners, clients))]

    def push_moves(
        self, visits: Visits, round_index: int, sample_weights: FloatArray | None = None
    ) -> None:
        """Train the visited models and send their owners the moves, each by the visitor's number of samples."""
        clock, epochs = self.context.clock, self.context.local_epochs
        with clock("m_step"):
            moves = self.learner.train(
                self.bank, visits, round_index, epochs=epochs, sample_weights=sample_weights
            )
        with clock("push"):
            samples = self.learner.samples[visits.clients].astype(np.float64)
            self.exchange.push(round_index, Updates(visits.owners, visits.clients, samples, moves))

    def state(self) -> dict[str, Tensor]:
        """All that must be saved of the hosted peers to go on later, bit for bit.

        The first dimension of every tensor runs over owners, pairs or losses in order of who hosts them, so that the
        states of several processes laid end to end are the state of one.
        """
        kept = {f"optimizer.{key}": value for key, value in self.learner.states.state().items()}
        home = len(self.bank.owners)
        models = {"rows": self.bank.copy_rows(), "counters": self.bank.counters[:home].clone()}
        models |= {"owners": torch.from_numpy(self.bank.owners.copy())}
        return {**{f"bank.{key}": value for key, value in models.items()}, **kept}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave, of these peers or more: each process takes what it hosts."""
        places, home = self._places(state), len(self.bank.owners)
        for row, place in zip(
            self.bank.hosted_rows, places.tolist(), strict=True
        ):  # one by one: a copy of all may not fit
            row.copy_(state["bank.rows"][place])
        self.bank.counters[:home] = state["bank.counters"][places]
        hosted, visitors = self.context.hosted, state["optimizer.pairs"][:, 0].numpy()
        mine = slice(*np.searchsorted(visitors, [hosted[0], hosted[-1] + 1]).tolist())
        self.learner.states.restore(
            {key: state[f"optimizer.{key}"][mine] for key in ("pairs", "moments", "steps")}
        )

    def _places(self, state: Mapping[str, Tensor]) -> Tensor:
        """Where the owners hosted here are among those of a saved state."""
        saved = state["bank.owners"].numpy()
        order = np.argsort(saved)
        return torch.from_numpy(order[np.searchsorted(saved, self.bank.owners, sorter=order)])

    def _home(self) -> Mapping[int, str]:
        """The owners hosted here."""
        hosting, owners = self.context.hosting, self.owners()
        hosts = hosting.hosts(np.array(list(owners)))
        return {
            owner: name
            for (owner, name), host in zip(owners.items(), hosts, strict=True)
            if host == hosting.rank
        }


def check_neighbors(table: str, options: Options, neighbors: int, clients: int) -> None:
    """Refuse more neighbors than there are others, where somebody has asked for them."""
    if "neighbors" in options.model_fields_set and neighbors >= clients:
        raise ConfigError(
            f"{table}.neighbors = {neighbors}: with {clients} clients a peer has {clients - 1} to visit; "
            f"set it to {clients - 1} or less (--set {table}.neighbors={clients - 1})"
        )


def shares(updates: Updates, anchor: float = 0.0) -> FloatArray:
    """c_ib / sum_i c_ib for each update; an owner's own share is at least `anchor`."""
    totals = np.bincount(updates.owners, updates.coefficients)
    share: FloatArray = updates.coefficients / totals[updates.owners]
    own = updates.owners == updates.contributors
    if anchor > 0 and own.any():
        owned = np.zeros(len(totals))
        owned[updates.owners[own]] = share[own]
        before, lifted = (
            owned[updates.owners],
            np.maximum(owned, anchor * (owned > 0))[updates.owners],
        )
        share = np.where(own, lifted, share * (1 - lifted) / np.where(before < 1, 1 - before, 1))
    return share


def finite(updates: Updates) -> Updates:
    """The updates without those that hold a NaN or an infinity: such an update is as good as never sent.

    A sum is finite only if all its terms are, and it is read off without a copy of the rows.
    """
    sane = updates.rows.finite()
    return updates if sane.all() else updates.take(np.flatnonzero(sane))


def average_into(
    bank: Bank, updates: Updates, anchor: float = 0.0, buffers: Buffers = "average"
) -> None:
    """phi_b += sum_i c_ib delta_ib / sum_i c_ib. A model that got no update does not move."""
    updates = finite(updates)
    averaged = ModelPart.whole(bank.layout)
    if buffers != "average":
        averaged = ModelPart.parameters(bank.layout)
    bank.add(updates.owners, updates.rows, shares(updates, anchor), averaged)

    if buffers == "owner":
        own = updates.owners == updates.contributors
        kept_by_owner = ModelPart.buffers(bank.layout)
        bank.add(updates.owners, updates.rows, own.astype(np.float64), kept_by_owner)
