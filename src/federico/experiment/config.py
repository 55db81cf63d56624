"""An experiment file: TOML in, a frozen and validated `Experiment` out, or every error at once."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ByteSize, Field, NonNegativeInt, PositiveInt, field_validator

from federico.config_file import nearest, read_tables, validated
from federico.data.partition import LabelGroups, Partitioning
from federico.data.sources import Source
from federico.data.sources.digits import Digits
from federico.errors import ConfigError
from federico.learning.models import MLP, ModelOptions
from federico.learning.optimizers import Adam, OptimizerOptions
from federico.methods import METHODS
from federico.methods.clustered import ClusteredOptions
from federico.methods.fedavg_plus import FedAvgPlusOptions
from federico.methods.fedem import FedEMOptions
from federico.methods.federico import FedericoOptions
from federico.methods.fedfomo import FedFomoOptions
from federico.options import Options

NOT_PART_OF_A_CELL = {"name", "methods", "seeds", "rounds", "system"}


class Split(Options):
    """How much data there is, and how each client's share is divided."""

    samples: PositiveInt | None = None
    """Draw this many of all samples before they are shared out; all of them if not set."""
    test_fraction: float = Field(default=0.2, gt=0, lt=1)
    """Part of each client's samples that it is tested on."""
    max_train: PositiveInt | None = None
    """Most training samples a client may have."""
    validation_fraction: float = Field(default=0.0, ge=0, lt=1)
    """Part of each client's training samples that is kept from training and scored instead of its test samples, which
    are then not looked at: to choose options by."""
    seed: NonNegativeInt | None = None
    """Seed of noise, partition and split; the run's own seed if not set."""


class Training(Options):
    """Local training, the same for every method."""

    optimizer: OptimizerOptions = Adam()
    """What each client trains with."""
    batch_size: PositiveInt = 50
    """Samples per step; the last batch of an epoch may be smaller, none is dropped."""
    local_epochs: PositiveInt = 1
    """Passes over a client's data per round."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """What layers compute and hand on. `bfloat16` takes about half the time for convolutions where a processor has
    instructions for it, and differs by more than rounding. Models, losses, optimizers and messages stay as they are,
    and `federico predict` computes in the models' own precision."""


class System(Options):
    """Where and how it runs; nothing here changes a result beyond rounding."""

    device: str = "cpu"
    """`cpu`, `cuda`, `cuda:1`, `mps`, or `auto` for the best there is."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of models and inputs."""
    threads: PositiveInt | None = None
    """Threads for computing; as many as there are cores if not set."""
    memory: ByteSize | None = None
    """How much memory all processes on a machine may take, such as "8GiB"; what is free if not set. Where models and
    optimizers do not fit, they lie on the disk of the run directory."""
    evaluate_every: PositiveInt = 1
    """Rounds between evaluations on the clients' test data; the last round is always evaluated."""
    checkpoint_every: PositiveInt | None = None
    """Rounds between checkpoints; if not set, one begins when ten seconds have passed since the last."""


class Experiment(Options):
    """A whole experiment file."""

    name: str = Field(default="experiment", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Name of the run directory."""
    methods: tuple[str, ...] = ("federico", "local")
    """The methods to compare, by the names that `federico methods` lists."""
    seeds: tuple[NonNegativeInt, ...] = (0,)
    """One run of every method per seed."""
    rounds: PositiveInt = 30
    """Communication rounds."""
    data: Source = Digits()
    """Where the samples come from."""
    partition: Partitioning = LabelGroups()
    """How they are shared out among clients."""
    split: Split = Split()
    """How much there is, and what is kept for testing."""
    model: ModelOptions = MLP()
    """What every client trains."""
    training: Training = Training()
    """How it trains."""
    federico: FedericoOptions = FedericoOptions()
    """FedeRiCo's own options."""
    fedavg_plus: FedAvgPlusOptions = FedAvgPlusOptions()
    """FedAvg+'s own options."""
    clustered: ClusteredOptions = ClusteredOptions()
    """Clustered FL's own options."""
    fedem: FedEMOptions = FedEMOptions()
    """FedEM's own options."""
    fedfomo: FedFomoOptions = FedFomoOptions()
    """FedFomo's own options."""
    system: System = System()
    """Where it runs."""

    @field_validator("methods")
    @classmethod
    def _known_methods(cls, methods: tuple[str, ...]) -> tuple[str, ...]:
        for method in methods:
            if method not in METHODS:
                raise ValueError(
                    f"{method!r} is not a method{nearest(method, METHODS)}; allowed: {', '.join(METHODS)}"
                )
        return methods

    @field_validator("methods", "seeds")
    @classmethod
    def _each_once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not values or len(set(values)) < len(values):
            raise ValueError("needs at least one entry, and each only once")
        return values

    def data_seed(self, seed: int) -> int:
        """The seed of noise, partition and split in the run of this seed."""
        return seed if self.split.seed is None else self.split.seed

    def method_options(self, method: str) -> Options:
        """The table of this method, or no options."""
        options: Options = getattr(self, method, None) or METHODS[method].options()
        return options


def load(path: Path, overrides: Iterable[str] = ()) -> Experiment:
    """Read an experiment file; each override is `dotted.key=value` with the value written as in TOML."""
    raw = read(path, overrides)
    if "compare" in raw:
        raise ConfigError(
            f"{path}: has a [compare] table, it is not one run: `federico compare {path}` runs them all"
        )
    return validate(raw, str(path))


def read(path: Path, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """The tables of an experiment file, changed by the overrides, not validated yet."""
    raw = read_tables(path, "experiment file")
    raw.setdefault("name", path.stem)
    for override in overrides:
        _override(raw, override)
    return raw


def validate(raw: Mapping[str, Any], where: str = "experiment") -> Experiment:
    """The experiment these tables describe; all that is wrong with them is said in one error."""
    return validated(Experiment, raw, where)


def assign(raw: dict[str, Any], key: str, value: Any) -> None:
    """Set `dotted.key` in tables of tables."""
    *tables, last = key.strip().split(".")
    for table in tables:
        raw = raw.setdefault(table, {})
        if not isinstance(raw, dict):
            raise ConfigError(f"{table!r} is a value, not a table")
    raw[last] = value


def cell_options(experiment: Experiment, method: str) -> dict[str, Any]:
    """Every setting that can change a number of this method's cells."""
    others = METHODS.keys() - {method}
    options = experiment.model_dump(mode="json", exclude=NOT_PART_OF_A_CELL | others)
    return {**options, "dtype": experiment.system.dtype}


def _override(raw: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(
            f"--set {override!r}: write it as key=value, for example federico.epsilon=0.1"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    try:
        assign(raw, key, value)
    except ConfigError as error:
        raise ConfigError(f"--set {override!r}: {error}") from None
