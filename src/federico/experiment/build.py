"""From an experiment and a seed to a method before its first round.

All that can be wrong with data, model and options is found here.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from federico import compat
from federico.attacks.exchange import HostileExchange
from federico.attacks.samples import poison, set_trigger
from federico.data.dataset import Client, Dataset, Samples, Schema
from federico.data.files import data_folder
from federico.data.partition import Partition, subsample
from federico.data.rotation import turned
from federico.data.split import TrainTestSplit, make_clients, train_test_split, warnings_for
from federico.errors import ConfigError, MissingFileError
from federico.exchange.processes import ProcessGroup, SingleProcess
from federico.exchange.protocol import Exchange, Hosting
from federico.experiment.config import Experiment
from federico.experiment.machine_memory import refuse_too_large
from federico.experiment.recording import MANY_CLIENTS
from federico.experiment.split_options import Split
from federico.experiment.training_options import Training
from federico.learning.bank import Bank
from federico.learning.batches import to_input
from federico.learning.client_data import ClientData
from federico.learning.holding_out import held_out
from federico.learning.layout import ModelLayout
from federico.learning.learner import Learner
from federico.learning.models import Factory
from federico.learning.parts import ModelPart
from federico.learning.personal_parts import PersonalParts
from federico.learning.pretrained import read_pretrained, start_hints
from federico.learning.privacy import PrivacyAccount
from federico.learning.privacy_rules import Floor
from federico.learning.rows import RowStorage
from federico.learning.training_rules import check_loss, class_weight_table
from federico.methods.context import MethodContext
from federico.methods.method import Method
from federico.options import Options
from federico.rng import stream
from federico.stopwatch import Stopwatch
from federico.types import IntArray

Connect = Callable[[Bank, int], Exchange]
"""(bank, participants) -> the exchange that carries this bank's models."""

DEVICES = ("cpu", "cuda", "mps")


@dataclass(frozen=True)
class Setup:
    """The clients of one seed, and the model they will train."""

    experiment: Experiment
    seed: int
    schema: Schema
    shares: TrainTestSplit
    clients: list[Client]
    layout: ModelLayout
    data_hash: str
    warnings: list[str]

    @property
    def standardizes_targets(self) -> bool:
        """Whether models are trained on standardised targets."""
        return self.schema.task == "regression" and self.experiment.training.standardize_targets

    @property
    def hostile(self) -> IntArray:
        """The numbers of the clients that are hostile."""
        if self.experiment.attack is None:
            return np.empty(0, np.int64)
        return self.experiment.attack.who(self.shares.ids, self.seed)

    def method(
        self, name: str, team: ProcessGroup | None = None, storage: RowStorage | None = None
    ) -> Method:
        """The method of that name before its first round, for the clients hosted here."""
        team = team or SingleProcess()
        _check_team(team, len(self.clients), device(self.experiment.system.device))
        hosting = Hosting(len(self.clients), team.rank, team.ranks)

        connect = partial(team.connect, hosting)
        account = self.account(name, secret=self.seed)
        return self.hosted_method(name, hosting, connect, storage, account)

    def shared_part(self, name: str) -> ModelPart:
        """Which part of a model clients exchange under the method of that name."""
        options = self.experiment.method_options(name)
        return self.experiment.method(name).shared_part(options, self.layout)

    def account(
        self, name: str, *, secret: int, keep: Callable[[IntArray], None] | None = None
    ) -> PrivacyAccount | None:
        """What clients spend of their privacy; None without differential privacy.

        The noise comes from `secret`: in a simulation the seed, so that a run can be repeated.
        """
        experiment = self.experiment
        rules = experiment.privacy.rules(
            experiment.method(name),
            experiment.method_options(name),
            len(self.clients),
            experiment.rounds,
            secret,
        )
        if rules is None:
            return None
        training = experiment.training
        return PrivacyAccount(rules, training.batch_size, training.local_epochs, keep)

    def hosted_method(
        self,
        name: str,
        hosting: Hosting,
        connect: Connect,
        storage: RowStorage | None = None,
        account: PrivacyAccount | None = None,
    ) -> Method:
        """The same for any hosting of the clients, over any exchange, at the cost of `account`."""
        training = self.experiment.training
        hosted = set(hosting.hosted.tolist())
        learner = Learner(
            self.layout,
            [
                self._client_data(client, hosted=i in hosted)
                for i, client in enumerate(self.clients)
            ],
            self.schema.task,
            self.schema.outputs,
            training.optimizer,
            batch_size=training.batch_size,
            seed=self.seed,
            device=device(self.experiment.system.device),
            storage=storage,
            rules=training.rules(),
            account=account,
        )
        method = build_method(
            self.experiment.method(name),
            self.experiment.method_options(name),
            names=self.shares.ids,
            learner=learner,
            hosting=hosting,
            connect=self._among_hostile(connect, learner),
            local_epochs=training.local_epochs,
            rounds=self.experiment.rounds,
            floor=self.experiment.privacy.floor(training),
        )
        compat.give_back_freed_memory()  # on the way there were models that no round needs
        return method

    def _among_hostile(self, connect: Connect, learner: Learner) -> Connect:
        """The same connection, with hostile members if the experiment has any."""
        attack = self.experiment.attack
        if attack is None:
            return connect
        members = self.hostile
        set_trigger(learner, attack)

        def connect_hostile(bank: Bank, participants: int) -> Exchange:
            inner = connect(bank, participants)
            spoil = partial(poison, learner, attack, members)
            return HostileExchange(
                inner, bank, attack, members, self.seed, spoil, self.schema.outputs
            )

        return connect_hostile

    def _client_data(self, client: Client, *, hosted: bool) -> ClientData:
        """What a learner gets of a client: nothing but its name if another process acts for it."""
        keep = slice(None) if hosted else slice(0)
        train = client.train.take(keep)
        test = client.test.take(keep)
        aside = None
        if self.experiment.training.keep_best > 0:
            train, aside = self._divided(client.id, train)

        scale = client.target_scale
        if scale is None or not self.standardizes_targets:
            set_aside = None if aside is None else (aside.x, aside.y)
            return ClientData(client.id, (train.x, train.y), (test.x, test.y), set_aside=set_aside)
        return ClientData(
            client.id,
            (train.x, scale(train.y)),
            (test.x, scale(test.y)),
            scale.mean,
            scale.spread,
            None if aside is None else (aside.x, scale(aside.y)),
        )

    def _divided(self, name: str, samples: Samples) -> tuple[Samples, Samples]:
        """A client's samples for training, and those it sets aside; both in their old order."""
        aside = int(self._set_aside(np.array([len(samples)]))[0])
        order = stream(self.seed, "set aside", name).permutation(len(samples))
        return samples.take(np.sort(order[aside:])), samples.take(np.sort(order[:aside]))

    def _set_aside(self, samples: IntArray) -> IntArray:
        """How many training samples each client sets aside to choose the round to keep."""
        fraction = self.experiment.training.keep_best
        if fraction == 0:
            return np.zeros_like(samples)
        return held_out(samples, fraction)

    def check_cell(self, experiment: Experiment, method: str) -> None:
        """Refuse a cell whose method or batches do not go with these clients and this model.

        Cheap: the experiment may be another than this one, as long as its data, partition, split
        and model are the same.
        """
        _check_precision(experiment)
        if experiment.attack is not None:
            experiment.attack.who(self.shares.ids, self.seed)
            experiment.attack.check(self.schema.task, self.schema.outputs, experiment.rounds)
        options = experiment.method_options(method)
        kind = experiment.method(method)
        kind.check(options, len(self.clients), self.layout)
        experiment.privacy.check(kind, options, experiment.training, self.layout)
        standardized = experiment.training.standardize_targets
        is_regression = self.schema.task == "regression"
        if is_regression and not standardized and kind.needs_standardized_targets(options):
            raise ConfigError(
                "training.standardize_targets = false: models are judged in standard units; "
                f"leave it out, or set {method}.preset = 'paper'"
            )

        # Clients without samples here are elsewhere.
        present = [client for client in self.clients if len(client.train)]
        samples = np.array([len(client.train) for client in present])
        aside = replace(self, experiment=experiment)._set_aside(samples)
        trained = kind.trains_on(options, samples - aside)
        names = [client.id for client in present]
        _check_batches(self.layout, names, trained, experiment.training.batch_size)


def build_method(
    kind: type[Method],
    options: Options,
    *,
    names: Sequence[str],
    learner: Learner,
    hosting: Hosting,
    connect: Connect,
    local_epochs: int = 1,
    rounds: int,
    floor: Floor | None = None,
) -> Method:
    """Bank, then exchange, then method: the one place where they are put together."""
    kind.check(options, len(names), learner.layout)
    models = kind.models(options, names)
    # A private model is wherever its client is.
    holders = [m.owner if m.private_to is None else m.private_to for m in models]
    hosts = hosting.hosts(np.array(holders))

    starts: dict[int, str] = {}
    private: dict[int, int] = {}
    for model, host in zip(models, hosts.tolist(), strict=True):
        if host == hosting.rank:
            starts[model.owner] = model.start
            if model.private_to is not None:
                private[model.owner] = model.private_to
    personal = None
    shared_part = kind.shared_part(options, learner.layout)
    if shared_part != ModelPart.whole(learner.layout):
        all_starts = {model.owner: model.start for model in models}
        personal = PersonalParts(
            learner.layout, shared_part, learner.seed, all_starts, len(names), learner.device
        )
    bank = Bank.start(
        learner.layout, learner.seed, starts, learner.device, learner.storage, private, personal
    )

    # Nobody but its client ever sees a private model: it takes no part in an exchange.
    shared = [model.owner for model in models if model.private_to is None]
    participants = max(len(names), max(shared) + 1)
    exchange = connect(bank, participants)
    context = MethodContext(
        names=tuple(names),
        models=tuple(models),
        learner=learner,
        bank=bank,
        exchange=exchange,
        hosting=hosting,
        seed=learner.seed,
        rounds=rounds,
        local_epochs=local_epochs,
        floor=floor or Floor(),
        clock=_clock(learner, hosting, len(names)),
    )
    return kind(context, options)


def _clock(learner: Learner, hosting: Hosting, clients: int) -> Stopwatch:
    """Measures phases; where all clients share one process, it counts what is done for each."""
    is_shared = clients > 1 and len(hosting.hosted) == clients
    if is_shared and clients < MANY_CLIENTS:
        return Stopwatch(learner.samples_so_far)
    return Stopwatch()


def _check_team(team: ProcessGroup, clients: int, chosen: torch.device) -> None:
    """Refuse ranks that would have no client, and devices that ranks cannot share."""
    if team.ranks > clients:
        raise ConfigError(
            f"mpiexec -n {team.ranks}: there are only {clients} clients to share out; "
            "start fewer ranks"
        )
    if team.ranks > 1 and chosen.type != "cpu":
        raise ConfigError(
            f"system.device = '{chosen}': several ranks compute on CPUs only; "
            "use 'cpu', or one process"
        )


@dataclass(frozen=True)
class Problem:
    """Data shared out among clients: what all cells of a column and a seed have in common."""

    dataset: Dataset
    shares: TrainTestSplit
    clients: list[Client]


def prepare(
    experiment: Experiment,
    seed: int,
    *,
    dataset: Dataset | None = None,
    factory: Factory | None = None,
) -> Setup:
    """Load, share out, build and check.

    `dataset` and `factory` are given where Python brings its own.
    """
    problem = load_problem(experiment, seed, dataset)
    return assemble(experiment, seed, problem.dataset, problem.shares, problem.clients, factory)


def load_problem(experiment: Experiment, seed: int, dataset: Dataset | None = None) -> Problem:
    """Load the data, unless Python brings its own, and share it out among the clients."""
    device(experiment.system.device)  # refused before anything is loaded
    data_seed = experiment.data_seed(seed)
    if dataset is None:
        dataset = _load(experiment, data_seed)
    dataset = draw(experiment.split, dataset, data_seed)
    partition = experiment.partition.cut(dataset.labels, dataset.owners, data_seed)
    dataset = turned(dataset, partition)
    shares = divide(experiment.split, partition, dataset, data_seed)
    return Problem(dataset, shares, make_clients(dataset, shares))


def _load(experiment: Experiment, data_seed: int) -> Dataset:
    """The data; where a file is missing, the error says where it can be had."""
    try:
        return experiment.located_data.load(data_folder(), data_seed)
    except MissingFileError as error:
        message = str(error)
        if "path" in experiment.data.model_fields_set:
            message += f". Nor is it beside the experiment file, in {experiment.folder.resolve()}"
        if experiment.origin:
            message += f". {experiment.origin}"
        raise MissingFileError(message) from error


def draw(split: Split, dataset: Dataset, seed: int) -> Dataset:
    """As many samples as the options ask for."""
    if split.samples is None:
        return dataset
    return subsample(dataset, split.samples, seed)


def divide(split: Split, partition: Partition, dataset: Dataset, seed: int) -> TrainTestSplit:
    """Every client's share, divided as the data itself says, or else as the options say."""
    return train_test_split(
        partition,
        test_fraction=split.test_fraction,
        max_train=split.max_train,
        validation_fraction=split.validation_fraction,
        is_test=dataset.is_test,
        seed=seed,
    )


def assemble(
    experiment: Experiment,
    seed: int,
    dataset: Dataset,
    shares: TrainTestSplit,
    members: list[Client],
    factory: Factory | None = None,
) -> Setup:
    """Build the model and check it against the data of all members that have some here."""
    schema = dataset.schema
    present = [client for client in members if len(client.train)]
    start = read_pretrained(experiment.training.pretrained)
    layout = _model_layout(experiment, seed, schema, factory, start)
    _check_model(layout, schema, present[0])
    _check_training(experiment.training, layout, schema, present[0])

    warnings = [
        *experiment.data.hints(schema),
        *warnings_for(present, schema),
        *start_hints(start, [slot.name for slot in (*layout.base_slots, *layout.slots)]),
    ]
    setup = Setup(experiment, seed, schema, shares, members, layout, _digest(dataset), warnings)
    for method in experiment.methods:
        setup.check_cell(experiment, method)
    return setup


def _model_layout(
    experiment: Experiment,
    seed: int,
    schema: Schema,
    factory: Factory | None,
    start: Mapping[str, Tensor],
) -> ModelLayout:
    """The model that everybody trains, unless it is too large or its precisions disagree."""
    _check_precision(experiment)
    dtype = getattr(torch, experiment.system.dtype)
    make = factory or experiment.located_model.factory(schema.input_shape, schema.outputs)
    is_own_code = factory is not None or experiment.model.kind == "import"
    if not is_own_code:  # somebody's own code may need a real device
        refuse_too_large(make, dtype)

    mixed = experiment.training.precision == "bfloat16"
    shared = experiment.training.shared
    freeze = shared != "all"
    layout = ModelLayout(
        make, dtype, mixed=mixed, start=start, freeze=freeze, seed=seed, shared=shared
    )
    if ModelPart.shared(layout).size == 0:
        raise ConfigError(
            f"training.shared = {shared!r}: nothing is left to share; the model has only a head"
        )
    return layout


def _check_precision(experiment: Experiment) -> None:
    """Layers compute in bfloat16 only where models are float32."""
    mixed = experiment.training.precision == "bfloat16"
    if mixed and experiment.system.dtype != "float32":
        raise ConfigError(
            "training.precision = 'bfloat16': goes with models in float32; "
            "take dtype out, or precision"
        )


def device(name: str) -> torch.device:
    """The device of that name; `auto` is an accelerator if there is one."""
    if name == "auto":
        return compat.accelerator() or torch.device("cpu")
    try:
        chosen = torch.device(name)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"system.device = {name!r}: not available here ({str(error).splitlines()[0]})"
        ) from error
    if chosen.type not in DEVICES:
        raise ConfigError(f"system.device = {name!r}: must be one of {', '.join(DEVICES)}")
    return chosen


@torch.no_grad()
def _check_model(layout: ModelLayout, schema: Schema, client: Client) -> None:
    """Run the model once on a real sample, to find shapes that do not fit."""
    x = to_input(torch.from_numpy(client.train.x[:1]), layout.dtype)
    try:
        with layout.precision(x.device):
            shape = tuple(layout.new().eval()(x).shape[1:])
    except Exception as error:  # whatever a user's forward does
        how = " in bfloat16 (training.precision)" if layout.mixed else ""
        raise ConfigError(
            f"model: it does not take inputs of shape {schema.input_shape}{how}: {error}"
        ) from error
    if shape != (schema.outputs,):
        raise ConfigError(
            f"model: it gives outputs of shape {shape}, the data needs ({schema.outputs},)"
        )


@torch.no_grad()
def _check_training(
    training: Training, layout: ModelLayout, schema: Schema, client: Client
) -> None:
    """Refuse rules of training that do not go with the model or the data."""
    rules = training.rules()
    if rules.class_weights is not None:
        if schema.task == "regression":
            raise ConfigError("training.class_weights: regression has no classes; take it out")
        class_weight_table(rules.class_weights, [], schema.outputs)
    if training.weight_decay > 0 and layout.holds_frozen_parameters:
        raise ConfigError(
            "training.weight_decay: some parameters of the model are frozen, and would decay; "
            "set training.shared = 'trainable', which leaves them alone"
        )
    if rules.augmentation is not None and len(schema.input_shape) != 3:
        raise ConfigError(
            "training.augment: is for images (channels, height, width), the data has inputs of "
            f"shape {schema.input_shape}; take it out"
        )
    if rules.loss is not None:
        x = to_input(torch.from_numpy(client.train.x[:2]), layout.dtype)
        targets = torch.from_numpy(client.train.y[:2])
        if schema.task == "regression":
            targets = targets.to(layout.dtype)
        else:
            targets = targets.to(torch.int64)
        with torch.enable_grad():
            check_loss(rules.loss, layout.new().eval()(x), targets)


def _check_batches(
    layout: ModelLayout, names: Sequence[str], trained: IntArray, batch_size: int
) -> None:
    """Batch norm cannot train on a batch of one sample."""
    if not any(map(compat.is_batch_norm, layout.template.modules())):
        return
    for name, samples in zip(names, trained, strict=True):
        if samples % batch_size == 1:
            raise ConfigError(
                f"training.batch_size = {batch_size}: leaves client {name!r} with a batch of one "
                "sample, on which batch norm cannot train; choose another size"
            )


def _digest(dataset: Dataset) -> str:
    digest = hashlib.sha256()
    for array in (dataset.samples.x, dataset.samples.y):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
