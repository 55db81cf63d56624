"""An experiment file: TOML in, a frozen and validated `Experiment` out, or every error at once."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    ByteSize,
    Field,
    NonNegativeInt,
    PositiveInt,
    create_model,
    field_serializer,
    field_validator,
    model_validator,
)

from federico.attacks.options import AttackOptions
from federico.config_file import nearest, read_tables, validated
from federico.data.partition import LabelGroups, Partitioning
from federico.data.sources import Source
from federico.data.sources.digits import Digits
from federico.errors import ConfigError
from federico.experiment.grid_options import GridOptions, GridRow
from federico.experiment.privacy_options import PrivacyOptions
from federico.experiment.split_options import Split
from federico.experiment.track_options import TrackOptions
from federico.experiment.training_options import Training, files_beside
from federico.learning.model_options import MLP, ModelOptions, beside
from federico.methods.method import Method
from federico.methods.registry import METHODS, OwnMethod, find_own_methods
from federico.options import Options
from federico.own_code import absolute_reference, is_reference
from federico.runs.table import FigureOptions, ReportedValues

NOT_PART_OF_A_CELL = {
    "name",
    "methods",
    "seeds",
    "rounds",
    "system",
    "grid",
    "paper",
    "figure",
    "origin",
    "folder",
    "track",
}
"""Keys of an experiment that are not part of what a cell is. Results are told apart by seed and
rounds beside it; a run that is given more rounds than it was planned with resumes where it is."""


class System(Options):
    """Where and how the experiment runs; nothing here changes a result beyond rounding."""

    device: str = "cpu"
    """`cpu`, `cuda`, `cuda:1`, `mps`, or `auto` for the best available."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of models and inputs."""
    threads: PositiveInt | None = None
    """Number of threads; as many as there are cores if not set."""
    memory: ByteSize | None = None
    """Memory that all processes on a machine may use, such as "8GiB"; what is free if not set.
    Models and optimizers that do not fit are kept on the disk of the run directory."""
    evaluate_every: PositiveInt = 1
    """Rounds between evaluations on the clients' test data; the last round is always evaluated."""
    checkpoint_every: PositiveInt | None = None
    """Rounds between checkpoints; if not set, one is written when ten seconds have passed since the
    last."""


class Experiment(Options):
    """A whole experiment file. Each method adds a table for its options."""

    own_methods: ClassVar[Mapping[str, OwnMethod]] = {}
    """Methods from people's own files, by name."""

    name: str = Field(default="experiment", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Name of the run directory."""
    methods: tuple[str, ...] = ("federico", "local")
    """The methods to compare: names that `federico methods` lists, or your own as `file.py:Class`
    (relative to the experiment file) or `package.module:Class`."""
    seeds: tuple[NonNegativeInt, ...] = (0,)
    """One run of every method per seed."""
    rounds: PositiveInt = 30
    """Communication rounds."""
    data: Source = Digits()
    """Where the samples come from."""
    partition: Partitioning = LabelGroups()
    """How they are distributed among clients."""
    split: Split = Split()
    """How much there is, and what is kept for testing."""
    model: ModelOptions = MLP()
    """What every client trains."""
    training: Training = Training()
    """How it trains."""
    privacy: PrivacyOptions = PrivacyOptions()
    """What may be learned about clients' samples from what they send."""
    attack: AttackOptions | None = None
    """Hostile members, for studies of what they can do; nobody is hostile if not set."""
    system: System = System()
    """Where it runs."""
    track: TrackOptions = TrackOptions()
    """Where the figures of every round are written beside the records."""
    grid: GridOptions = GridOptions()
    """Rows, columns and learning rates to run it for; if not set, every method with the settings of
    the file."""
    paper: ReportedValues = ReportedValues()
    """What a paper reports for the same experiment, shown beside the result."""
    figure: FigureOptions | None = None
    """A figure in the style of the paper, in addition to the usual ones."""
    origin: str = ""
    """Where to get the data, in one sentence; shown when a file is missing."""
    folder: Path = Field(default=Path(), validate_default=True)
    """Folder that the files named here are looked for in first, relative to this file; data that is
    not there is looked for in the folder that FEDERICO_DATA names, or else in `data`."""

    @field_validator("methods")
    @classmethod
    def _known_methods(cls, methods: tuple[str, ...]) -> tuple[str, ...]:
        known = [*METHODS, *cls.own_methods]
        for method in methods:
            if method not in known:
                raise ValueError(
                    f"{method!r} is not a method{nearest(method, known)}; "
                    f"allowed: {', '.join(known)}, or your own as file.py:Class"
                )
        return methods

    @field_validator("folder")
    @classmethod
    def _absolute(cls, folder: Path) -> Path:
        """Where files are looked for must not depend on where a later process is started."""
        return folder.resolve()

    @field_validator("methods", "seeds")
    @classmethod
    def _each_once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not values or len(set(values)) < len(values):
            raise ValueError("needs at least one entry, and each only once")
        return values

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        """Refuse names of rows, columns and methods that the grid does not have."""
        rows = [row.name for row in self.rows]
        columns = [column.name for column in self.grid.columns]
        _require("grid.reference", self.grid.reference, rows, "row")
        _require("grid.tuning.column", self.grid.tuning.column, columns, "column")
        for row in self.grid.rows:
            if row.method not in [*METHODS, *self.own_methods]:
                _require(f"grid.rows, {row.name!r}: method", row.method, list(METHODS), "method")
        for name, values in self.paper.values.items():
            for column in values:
                _require(f"paper.values.{name}", column, columns, "column")
        return self

    @property
    def rows(self) -> tuple[GridRow, ...]:
        """The rows of the grid, or one for each method."""
        if self.grid.rows:
            return self.grid.rows
        return tuple(GridRow(name=method, method=method) for method in self.methods)

    @property
    def located_data(self) -> Source:
        """The data, with absolute paths to the files that lie in the experiment's folder."""
        return self.data.beside(self.folder)

    @property
    def located_model(self) -> ModelOptions:
        """The model, with an absolute path if it is one's own in a file."""
        return beside(self.model, self.folder)

    def data_seed(self, seed: int) -> int:
        """The seed of noise, partition and split in the run of this seed."""
        return seed if self.split.seed is None else self.split.seed

    @field_serializer("methods")
    def _as_written(self, methods: tuple[str, ...]) -> list[str]:
        """A file has to say where one's own method is, not just its name."""
        written: list[str] = []
        for name in methods:
            own = self.own_methods.get(name)
            written.append(name if own is None else own.reference)
        return written

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the tables of its file: its type was made for its methods."""
        references = [own.reference for own in self.own_methods.values()]
        return _unpickle, (references, self.model_dump(exclude_unset=True))

    def method(self, name: str) -> type[Method]:
        """The class of this method, built in or one's own."""
        if name in self.own_methods:
            return self.own_methods[name].method
        return METHODS[name]

    def method_options(self, method: str) -> Options:
        """The table of this method, or its defaults."""
        options: Options | None = getattr(self, method, None)
        if options is None:
            options = self.method(method).options()
        return options


File = TypeVar("File", bound=Experiment)


def experiment_type(own_methods: Mapping[str, OwnMethod] | None = None) -> type[Experiment]:
    """`Experiment` with a table for the options of every built-in method and of these own ones."""
    own_methods = own_methods or {}
    return _with_method_tables(Experiment, tuple(own_methods.items()))


@cache  # experiments with the same methods are of the same type, and may be equal
def _with_method_tables(
    base: type[File], own_methods: tuple[tuple[str, OwnMethod], ...]
) -> type[File]:
    methods = dict(METHODS)
    for name, own in own_methods:
        if name in base.model_fields:
            raise ConfigError(
                f"methods: {own.reference!r} is called {name!r} like a key of an experiment file; "
                "give it another `name`"
            )
        methods[name] = own.method

    tables: dict[str, Any] = {}
    for name, method in methods.items():
        if method.options is not Options:  # a method without options has no table
            described = Field(
                default=method.options(), description=f"{method.title}'s own options."
            )
            tables[name] = (method.options, described)
    made = create_model(base.__name__, __base__=base, __doc__=base.__doc__, **tables)
    made.own_methods = dict(own_methods)
    return made


def load(path: Path, overrides: Iterable[str] = ()) -> Experiment:
    """Read an experiment file.

    Each override is `dotted.key=value` with the value written as in TOML.
    """
    return validate(read(path, overrides), str(path))


def read(path: Path, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """The tables of an experiment file, changed by the overrides, not validated yet."""
    raw = read_tables(path, "experiment file")
    raw.setdefault("name", path.stem)
    folder = path.parent / str(raw.get("folder", ""))
    raw["folder"] = str(folder.resolve())
    if isinstance(raw.get("methods"), list):
        raw["methods"] = [_counted_from(folder, entry) for entry in raw["methods"]]
    for override in overrides:
        _override(raw, override)
    return files_beside(raw, folder)


def _counted_from(folder: Path, method: object) -> object:
    """The entry of `methods`; where it names a file, that is looked for in the folder."""
    if isinstance(method, str) and is_reference(method):
        return absolute_reference(method, folder)
    return method


def validate(raw: Mapping[str, Any], where: str = "experiment") -> Experiment:
    """The experiment these tables describe; all that is wrong with them is said in one error."""
    return validate_as(Experiment, raw, where)


def validate_as(base: type[File], raw: Mapping[str, Any], where: str) -> File:
    """The same for a kind of file that has more tables than an experiment."""
    try:
        own_methods, tables = _with_names(raw)
        kind: type[File] = _with_method_tables(base, tuple(own_methods.items()))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return validated(kind, tables, where)


def _unpickle(references: Sequence[str], tables: Mapping[str, Any]) -> Experiment:
    """The experiment that was pickled, with all own methods it knew, listed still or not."""
    own_methods = find_own_methods(references)
    names = {own.reference: name for name, own in own_methods.items()}
    tables = dict(tables)
    if "methods" in tables:
        tables["methods"] = [names.get(entry, entry) for entry in tables["methods"]]
    return experiment_type(own_methods).model_validate(tables)


def _with_names(raw: Mapping[str, Any]) -> tuple[dict[str, OwnMethod], Mapping[str, Any]]:
    """The own methods that are listed, and the tables with their names instead of references."""
    listed = raw.get("methods")
    if not isinstance(listed, list | tuple):
        return {}, raw

    # Where a file is looked for must not depend on where a later process is started.
    entries = [_counted_from(Path(), entry) for entry in listed]
    own_methods = find_own_methods(entries)
    names: dict[object, str] = {}
    for name, own in own_methods.items():
        names[own.reference] = name
        names[own.method] = name
    return own_methods, {**raw, "methods": [names.get(entry, entry) for entry in entries]}


def _require(key: str, name: str | None, known: Sequence[str], what: str) -> None:
    """Refuse a name that is none of the known ones; None asks for nothing."""
    if name is not None and name not in known:
        listed = ", ".join(repr(each) for each in known)
        raise ValueError(f"{key} = {name!r}: there is no such {what}: {listed}")


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
    others = {*METHODS, *experiment.own_methods} - {method}
    options = experiment.model_dump(mode="json", exclude=NOT_PART_OF_A_CELL | others)
    options["training"] = experiment.training.meaning()
    options["dtype"] = experiment.system.dtype
    options["privacy"] = experiment.privacy.meaning(method, experiment.training)
    if method in experiment.own_methods:
        options["source of the method"] = experiment.own_methods[method].source
    return options


def _override(raw: dict[str, Any], override: str) -> None:
    """Change the tables as one `--set` asks; what is no TOML value is taken for text."""
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
