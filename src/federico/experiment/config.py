"""An experiment file: TOML in, a frozen and validated `Experiment` out, or every error at once."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ByteSize, Field, NonNegativeInt, PositiveInt, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

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
                    f"{method!r} is not a method{_nearest(method, METHODS)}; allowed: {', '.join(METHODS)}"
                )
        return methods

    @field_validator("methods", "seeds")
    @classmethod
    def _each_once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not values or len(set(values)) < len(values):
            raise ValueError("needs at least one entry, and each only once")
        return values

    def method_options(self, method: str) -> Options:
        """The table of this method, or no options."""
        options: Options = getattr(self, method, None) or METHODS[method].options()
        return options


def load(path: Path, overrides: Iterable[str] = ()) -> Experiment:
    """Read an experiment file; each override is `dotted.key=value` with the value written as in TOML."""
    raw = read(path)
    for override in overrides:
        _override(raw, override)
    return validate(raw, str(path))


def read(path: Path) -> dict[str, Any]:
    """The tables of an experiment file, not validated yet."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such experiment file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: not a readable TOML file: {error}") from error
    raw.setdefault("name", path.stem)
    return raw


def validate(raw: Mapping[str, Any], where: str = "experiment") -> Experiment:
    """The experiment these tables describe; all that is wrong with them is said in one error."""
    try:
        return Experiment.model_validate(raw)
    except ValidationError as error:
        lines = [_explain(detail) for detail in error.errors()]
        raise ConfigError("\n".join(f"{where}: {line}" for line in lines)) from None


def cell_options(experiment: Experiment, method: str) -> dict[str, Any]:
    """Every setting that can change a number of this method's cells."""
    others = METHODS.keys() - {method}
    options = experiment.model_dump(mode="json", exclude=NOT_PART_OF_A_CELL | others)
    return {**options, "dtype": experiment.system.dtype}


def as_of_now(options: Mapping[str, Any], method: str) -> Mapping[str, Any]:
    """A cell's options with those that an earlier version did not know yet, at the default it ran with."""
    known = {key: value for key, value in options.items() if key != "dtype"}
    try:
        experiment = Experiment.model_validate(known | {"system": {"dtype": options.get("dtype")}})
    except ValidationError:  # it knew options that are gone: another experiment, as they stand
        return options
    return cell_options(experiment, method)


def _override(raw: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override!r}: write it as key=value, for example federico.epsilon=0.1")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    *tables, last = key.strip().split(".")
    for table in tables:
        raw = raw.setdefault(table, {})
        if not isinstance(raw, dict):
            raise ConfigError(f"--set {override!r}: {table!r} is a value, not a table")
    raw[last] = value


def _explain(detail: ErrorDetails) -> str:
    """One line: the key's path, its value, what is allowed, and the nearest valid key."""
    path, fields = _walk(detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{path}: there is no such key{_nearest(path.rpartition('.')[2], fields)}; allowed: {', '.join(fields)}"
    message = detail["msg"].removeprefix("Value error, ")
    if not path:
        return message
    if detail["type"] == "union_tag_not_found":
        return f"{path}.kind: missing; allowed: {', '.join(fields)}"
    if detail["type"] == "union_tag_invalid":
        tag = detail["ctx"]["tag"]
        return f"{path}.kind = {tag!r}: there is no such kind{_nearest(tag, fields)}; allowed: {', '.join(fields)}"
    if detail["type"] == "missing":
        return f"{path}: {message}"
    return f"{path} = {detail['input']!r}: {message}"


def _walk(location: tuple[int | str, ...]) -> tuple[str, list[str]]:
    """The dotted path a user would write for this location, and the keys (or kinds) allowed there."""
    keys: list[str] = []
    table: type[BaseModel] | None = Experiment
    fields = list(Experiment.model_fields)
    tags: dict[str, type[BaseModel]] = {}
    for part in location:
        if isinstance(part, str) and part in tags:
            table, tags = tags[part], {}
            fields = list(table.model_fields)
            continue
        if isinstance(part, str) and table is None:
            continue  # pydantic's own name for one of several types a value may have
        keys.append(str(part))
        field = table.model_fields.get(str(part)) if table else None
        if table is not None:
            fields = list(table.model_fields)
        table, tags = _inside(field)
    return ".".join(keys), list(tags) or fields


def _inside(field: FieldInfo | None) -> tuple[type[BaseModel] | None, dict[str, type[BaseModel]]]:
    """What a field holds: one table, or one of several told apart by their kind."""
    if field is None:
        return None, {}
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
        return field.annotation, {}
    kinds = [kind for kind in get_args(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return None, {get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in kinds}


def _nearest(word: str, words: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""
