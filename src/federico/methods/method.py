"""What a method is: its options, its models, its state, a round, and everybody's predictors.

A method of one's own needs `name`, `title`, `summary`, `round` and `predictors`; everything else
has a default. `docs/how-to-own-method.md` walks through one.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from federico.algorithm.peer_table import among
from federico.errors import ConfigError
from federico.exchange.protocol import Updates
from federico.learning.bank import Bank
from federico.learning.batches import Subset
from federico.learning.calibration import Calibration
from federico.learning.layout import ModelLayout
from federico.learning.local_training import Proximal
from federico.learning.parts import ModelPart
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.methods.averaging import average_into
from federico.methods.context import MethodContext
from federico.methods.model_owners import ModelOwner, one_per_client
from federico.methods.state import DeclaredState, SavedPlaces, declared_state
from federico.options import Options
from federico.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Posterior:
    """One client's weights over the models it has met, and no others: for FedeRiCo the row w_i."""

    peers: IntArray
    """In ascending order."""
    weights: FloatArray

    def of(self, owners: IntArray) -> FloatArray:
        """The weights of these owners' models, [owners]; 0 for those that it does not know."""
        weights = np.zeros(len(owners))
        known = among(owners, self.peers)
        found = np.searchsorted(self.peers, owners[known])
        weights[known] = self.weights[found]
        return weights

    def trusted_others(self, client: int, least: float) -> tuple[IntArray, FloatArray]:
        """The other peers in the row of this client with at least this weight, and the weights."""
        has_weight = (self.weights > 0) & (self.weights >= least)
        is_trusted = has_weight & (self.peers != client)
        return self.peers[is_trusted], self.weights[is_trusted]


@dataclass(frozen=True)
class Gains:
    """What the models that one client judged in a round are worth to it, in nats."""

    peers: IntArray
    nats: FloatArray
    """More than a guess on the samples that the client held out; minus infinity for a model whose
    outputs were not finite, or that is an echo of the client's own."""


@dataclass(frozen=True)
class Refusals:
    """The contributors whose updates one client has had to refuse."""

    peers: IntArray
    standing: FloatArray
    """What is left of what each may count for: from 1, when all is regained, down towards 0."""
    count: IntArray
    """How many of its updates were ever refused."""


@dataclass(frozen=True)
class Round:
    """What a round leaves to be recorded of the hosted clients; empty where there is no such thing.

    What only a server knows, its process says of all clients and the others leave empty.
    """

    neighbors: list[IntArray] = field(default_factory=list)
    posteriors: list[Posterior] = field(default_factory=list)
    together: FloatArray | None = None
    """How much each client's collaborators count against the model it trained alone, 0 to 1."""
    together_chance: FloatArray | None = None
    """How probable it is that they do better than that model; NaN where nothing can be said."""
    gains: list[Gains] = field(default_factory=list)
    """What each client found when it judged models: why its trust moved."""
    refusals: list[Refusals] = field(default_factory=list)


@dataclass(frozen=True)
class Mixtures:
    """Every client's predictor: visit k adds its model to its client's mixture, by weights[k]."""

    bank: Bank
    visits: Visits
    weights: FloatArray
    calibration: Calibration | None = None
    """How the outputs of each visit's model are read; as they are if not given."""
    alone: "TrainedAlone | None" = None
    """What every client trained alone, where the method does that; not part of the mixture yet."""

    def personal(self) -> "Mixtures":
        """The mixtures that clients predict with: their private models are part of them."""
        alone = self.alone
        if alone is None:
            return self

        share_alone = np.zeros(int(alone.visits.clients.max(initial=-1)) + 1)
        share_alone[alone.visits.clients] = alone.weights
        together = self.weights * (1 - share_alone[self.visits.clients])

        clients = np.concatenate([self.visits.clients, alone.visits.clients])
        owners = np.concatenate([self.visits.owners, alone.visits.owners])
        weights = np.concatenate([together, alone.weights])
        calibration = None
        if self.calibration is not None and alone.calibration is not None:
            calibration = self.calibration.joined(alone.calibration)

        kept = np.flatnonzero(weights > 0)
        kept = kept[np.argsort(clients[kept], kind="stable")]
        if calibration is not None:
            calibration = calibration.take(kept)
        visits = Visits(clients, owners)[kept]
        return Mixtures(self.bank, visits, weights[kept], calibration)


@dataclass(frozen=True)
class TrainedAlone:
    """The model that each client trained alone, and how much it counts in what it predicts."""

    visits: Visits
    """Every hosted client visits its private model."""
    weights: FloatArray
    """The share of the private model, 0 to 1; the collaborators' mixture has the rest."""
    calibration: Calibration | None = None
    together_chance: FloatArray | None = None
    """How probable it is that the collaborators' mixture does better; NaN where it is not known."""


@dataclass(frozen=True)
class Needs:
    """How many rows of numbers a method holds at its peak, for all clients together."""

    models: int
    updates: int
    """Deltas that a round computes."""
    pairs: int
    """Pairs (client, model) whose optimizer is kept between rounds."""
    fresh: int = 0
    """Optimizers that live only as long as the deltas do."""
    private_updates: int = 0
    """Deltas of models that are shown to nobody, computed while the others are under way."""
    copies: int = 0
    """Rows that are put side by side in memory, wherever the others lie."""
    met: int = 0
    """Models of others that clients may have at hand at once, to judge them or to predict."""


class Method(ABC):
    """One federated method. Subclasses own their options and read like their paper."""

    name: ClassVar[str]
    """Its table in an experiment file, and the first part of its folders."""
    title: ClassVar[str]
    """What people read in tables and figures."""
    summary: ClassVar[str]
    """One sentence for `federico methods`."""
    options: ClassVar[type[Options]] = Options

    state_holders: Sequence[object] = ()
    """Objects that `start` makes and that declare state of their own, under names of their own."""

    # What is known before anything starts.

    @classmethod
    def models(cls, options: Any, clients: Sequence[str]) -> list[ModelOwner]:
        """The models there are; one for each client unless a method says otherwise."""
        return one_per_client(clients)

    @classmethod
    def shared_part(cls, options: Any, layout: ModelLayout) -> ModelPart:
        """The part of a model that is sent and counted as traffic: what `training.shared` says."""
        return ModelPart.shared(layout)

    @classmethod
    def check(cls, options: Any, clients: int, layout: ModelLayout) -> None:
        """Refuse options that do not go with the data or the model."""

    @classmethod
    def needs_standardized_targets(cls, options: Any) -> bool:
        """Whether regression only works on targets that every client has standardised."""
        return False

    @classmethod
    def memory(cls, options: Any, clients: int, rounds: int) -> Needs:
        """What must be held at most: here the models, of which every client trains one."""
        models = cls.models(options, [str(i) for i in range(clients)])
        return Needs(models=len(models), updates=clients, pairs=clients)

    @classmethod
    def is_accountable(cls, options: Any) -> bool:
        """Whether all that others see of a client's samples are models trained by `train`.

        Then the cost in privacy is known; see `federico.learning.privacy`.
        """
        return False

    @classmethod
    def most_visits(cls, options: Any, clients: int) -> int:
        """How many models that others see a client trains in a round, at most."""
        return 1

    @classmethod
    def trains_on(cls, options: Any, samples: IntArray) -> IntArray:
        """How many of its samples each client trains on."""
        return samples

    # What a method does.

    def __init__(self, context: MethodContext, options: Options) -> None:
        self.context = context
        self.opt = options
        self.learner = context.learner
        self.bank = context.bank
        self.exchange = context.exchange
        self.start()
        self._warn_of_undeclared_state()

    def start(self) -> None:
        """Give the declared state its first value, before round 1."""

    @abstractmethod
    def round(self, round_index: int) -> Round:
        """One round; `round_index` starts at 1."""

    @abstractmethod
    def predictors(self, round_index: int) -> Mixtures:
        """Everybody's predictor as it is after this round."""

    def resumed(self) -> None:
        """Compute what follows from the declared state, which has just been restored."""

    # Who visits which models.

    @property
    def names(self) -> tuple[str, ...]:
        """What people read for each owner: the clients' names, then what the other models are."""
        others = [model.title for model in self.context.models if model.owner >= self.context.count]
        return (*self.context.names, *others)

    @property
    def shared_owners(self) -> IntArray:
        """The owners of the models that belong to no client."""
        count = self.context.count
        shared: list[int] = []
        for model in self.context.models:
            if model.owner >= count and model.private_to is None:
                shared.append(model.owner)
        return np.array(shared, dtype=np.int64)

    def to_own(self) -> Visits:
        """Every hosted client visits its own model and no other."""
        return Visits.to_own(self.context.hosted)

    def to_shared(self) -> Visits:
        """Every hosted client visits every model that belongs to no client."""
        hosted = self.context.hosted
        shared = self.shared_owners
        return Visits(np.repeat(hosted, len(shared)), np.tile(shared, len(hosted)))

    # The steps that most rounds are made of. All processes of a run must take them together.

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        """Bring the wanted models, as they were when the round started; returns those that came."""
        with self.context.clock("pull"):
            return self.exchange.pull(round_index, wanted)

    def train(
        self,
        round_index: int,
        visits: Visits,
        *,
        sample_weights: FloatArray | None = None,
        proximal: Proximal | None = None,
        subset: Subset = "train",
    ) -> Rows:
        """How far local epochs on the clients' data move a copy of each visited model."""
        with self.context.clock("m_step"):
            return self.learner.train(
                self.bank,
                visits,
                round_index,
                epochs=self.context.local_epochs,
                sample_weights=sample_weights,
                proximal=proximal,
                subset=subset,
            )

    def push(self, round_index: int, visits: Visits, deltas: Rows) -> None:
        """Send the deltas to the owners of the models, weighted by the visitors' samples."""
        with self.context.clock("push"):
            samples = self.learner.samples[visits.clients].astype(np.float64)
            self.exchange.push(round_index, Updates(visits.owners, visits.clients, samples, deltas))

    def train_and_push(
        self,
        round_index: int,
        visits: Visits,
        *,
        sample_weights: FloatArray | None = None,
        proximal: Proximal | None = None,
    ) -> None:
        """Train the visited models and send their owners the deltas, which take no memory after.

        Clients that may not send train nothing.
        """
        allowed = self.sendable(visits)
        if len(allowed) < len(visits):
            visits = visits[allowed]
            if sample_weights is not None:
                sample_weights = sample_weights[allowed]
            if proximal is not None:
                proximal = proximal.take(allowed)
        deltas = self.train(round_index, visits, sample_weights=sample_weights, proximal=proximal)
        self.push(round_index, visits, deltas)

    def sendable(self, visits: Visits) -> IntArray:
        """Positions of the visits whose outcome others may see.

        Not those of clients with too few samples, or whose privacy budget this would exceed.
        """
        allowed = self.affordable(visits)
        for client, positions in visits.by_client():
            if not self.has_enough_samples(client):
                allowed[positions] = False
        return np.flatnonzero(allowed)

    def has_enough_samples(self, client: int) -> bool:
        """Whether a client trains on enough samples for others to see the outcome."""
        samples = int(self.learner.samples[client])
        return self.context.floor.allows(samples, self.learner.batch_size)

    def affordable(self, visits: Visits) -> BoolArray:
        """Which visits stay within the privacy budgets of their clients, [visits]."""
        account = self.learner.account
        allowed = np.ones(len(visits), dtype=bool)
        if account is None:
            return allowed
        for client, positions in visits.by_client():
            samples = int(self.learner.samples[client])
            allowed[positions] = account.affordable(client, len(positions), samples)
        return allowed

    def train_private_models(
        self, round_index: int, visits: Visits, subset: Subset = "train"
    ) -> None:
        """Train private models, each by its own client, and move them; nothing is sent."""
        self._move(visits, self.train(round_index, visits, subset=subset))

    def move_own_models(self, deltas: Rows) -> None:
        """Move each hosted client's own model by its delta if that is finite."""
        self._move(self.to_own(), deltas)

    def _move(self, visits: Visits, deltas: Rows) -> None:
        """Move each visited model by the delta of its one visit if that is finite."""
        with self.context.clock("update"):
            updates = Updates(visits.owners, visits.clients, np.ones(len(visits)), deltas)
            average_into(self.bank, updates)

    def collect_and_average(self, round_index: int) -> None:
        """Move every model by the weighted average of the updates that came for it."""
        with self.context.clock("update"):
            average_into(self.bank, self.exchange.collect(round_index))

    def read(self, round_index: int, visits: Visits, weights: FloatArray | None = None) -> Mixtures:
        """Predictors made of these models, which are fetched; without `weights`, one model each.

        Models that cannot be fetched are left out, and the others get their weight. A client for
        which none could be fetched predicts with its own model.
        """
        if weights is None:
            weights = np.ones(len(visits))
        came = self.exchange.read_models(round_index, visits)
        if len(came) == len(visits):
            return Mixtures(self.bank, visits, weights)

        here = set(came.pairs)
        kept = [pair in here for pair in visits.pairs]
        alone = np.setdiff1d(visits.clients, came.clients)
        clients = np.concatenate([came.clients, alone])
        owners = np.concatenate([came.owners, alone])
        left = np.append(weights[kept], np.ones(len(alone)))

        # The weights of each client sum to one again.
        totals = np.bincount(clients, left)
        normalized = left / totals[clients]
        return Mixtures(self.bank, Visits(clients, owners), normalized)

    # Saving and resuming.

    def state(self) -> dict[str, Tensor]:
        """All that must be saved of the hosted clients and models to resume bit for bit.

        The first dimension of every tensor runs over clients, models or pairs in the order of who
        hosts them, so that the states of several processes laid end to end are the state of one.
        """
        hosted_models = len(self.bank.owners)
        saved = {
            "clients": torch.from_numpy(self.context.hosted.copy()),
            "bank.owners": torch.from_numpy(self.bank.owners.copy()),
            "bank.rows": self.bank.copy_rows(),
            "bank.counters": self.bank.counters[:hosted_models].clone(),
        }
        if self.bank.personal is not None:
            for key, value in self.bank.personal.state().items():
                saved[f"personal.{key}"] = value
        for key, value in self.learner.states.state().items():
            saved[f"optimizer.{key}"] = value
        if self.learner.account is not None:
            steps = self.learner.account.steps[self.context.hosted]
            saved["privacy.steps"] = torch.from_numpy(steps)
        for holder, declared in self._declared():
            saved |= declared.save(getattr(holder, declared.name), self._copy)
        return saved

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Resume from what `state` gave, of these clients or more: each process takes its own."""
        places = SavedPlaces(
            clients=_find(self.context.hosted, state["clients"]),
            models=_find(self.bank.owners, state["bank.owners"]),
        )

        # One by one: a copy of all may not fit into memory.
        for row, place in zip(self.bank.hosted_rows, places.models.tolist(), strict=True):
            row.copy_(state["bank.rows"][place])
        hosted_models = len(self.bank.owners)
        self.bank.counters[:hosted_models] = state["bank.counters"][torch.from_numpy(places.models)]

        if self.bank.personal is not None:
            parts = {key: state[f"personal.{key}"] for key in ("places", "rows")}
            self.bank.personal.restore(parts, self.context.hosted.tolist())
        self._restore_optimizers(state)
        if self.learner.account is not None:
            steps = state["privacy.steps"].numpy()[places.clients]
            self.learner.account.restore(self.context.hosted, steps)
        for holder, declared in self._declared():
            value = declared.restore(getattr(holder, declared.name), state, places)
            setattr(holder, declared.name, value)
        self.resumed()

    def _restore_optimizers(self, state: Mapping[str, Tensor]) -> None:
        """Pairs are saved in order of their clients, so those of the hosted clients are a slice."""
        visitors = state["optimizer.pairs"][:, 0].numpy()
        hosted = self.context.hosted
        first = int(np.searchsorted(visitors, hosted[0]))
        end = int(np.searchsorted(visitors, hosted[-1] + 1))

        own: dict[str, Tensor] = {}
        for key in ("pairs", "moments", "steps"):
            own[key] = state[f"optimizer.{key}"][first:end]
        self.learner.states.restore(own)

    def _declared(self) -> list[tuple[object, DeclaredState[Any]]]:
        """The state that this method and its `state_holders` declare, each with its holder."""
        found: list[tuple[object, DeclaredState[Any]]] = []
        for holder in (self, *self.state_holders):
            for declared in declared_state(type(holder)):
                found.append((holder, declared))
        return found

    def _warn_of_undeclared_state(self) -> None:
        """Arrays that are not declared are made anew by `start` when a run resumes."""
        for holder in (self, *self.state_holders):
            kind = type(holder)
            declared = [state.name for state in declared_state(kind)]
            for name, value in vars(holder).items():
                if isinstance(value, np.ndarray | Tensor) and name not in declared:
                    warnings.warn(
                        f"{kind.__name__}.{name} is an array that is not declared as state: if a "
                        f"round changes it, the change is lost when the run resumes. Declare it in "
                        f"the class: {name} = PerClient() or PerModel()",
                        stacklevel=2,
                    )

    def _copy(self, rows: Tensor) -> Tensor:
        """A copy that lives until a checkpoint is written."""
        copied = self.learner.storage.empty(
            *rows.shape, dtype=rows.dtype, device=rows.device, every_round=True
        )
        return copied.copy_(rows)


def _find(wanted: IntArray, saved: Tensor) -> IntArray:
    """Where each of the wanted numbers is among those saved."""
    numbers = saved.numpy()
    order = np.argsort(numbers)
    positions = np.searchsorted(numbers, wanted, sorter=order)
    found: IntArray = order[positions]
    return found


def pull_neighbors(method: Method, round_index: int, neighbors: Sequence[IntArray]) -> Visits:
    """Every hosted client visits its own model and those of its neighbors that came.

    Visits are ordered by client, then by owner.
    """
    hosted = method.context.hosted
    counts = [len(sampled) for sampled in neighbors]
    visitors = np.repeat(hosted, counts)
    wanted = Visits(visitors, np.concatenate(neighbors))
    came = method.pull(round_index, wanted)

    clients = np.concatenate([hosted, came.clients])
    owners = np.concatenate([hosted, came.owners])
    visits = Visits(clients, owners)
    order = np.lexsort((owners, clients))
    return visits[order]


def check_neighbors(table: str, neighbors: int, default: int, clients: int) -> None:
    """Refuse more neighbors than there are others.

    The default is never refused: where there are fewer others, it means all of them.
    """
    others = clients - 1
    if neighbors > others and neighbors != default:
        raise ConfigError(
            f"{table}.neighbors = {neighbors}: "
            f"with {clients} clients a peer has {others} to visit; "
            f"set it to {others} or less (--set {table}.neighbors={others})"
        )
