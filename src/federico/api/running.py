"""Run an experiment from Python, or open what one has left."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from torch import nn

from federico.api.progress import Brief, Quiet, bars, bars_wanted
from federico.api.results import Run
from federico.data.dataset import Dataset
from federico.data.from_python import ClientsData, dataset_from_clients, name_of_target
from federico.data.targets import many_classes_hint
from federico.errors import ConfigError, RunError
from federico.experiment.config import read
from federico.experiment.grid import Grid, make_grid
from federico.experiment.observer import Callback, Observer, Several
from federico.experiment.runner import run_grid
from federico.learning.structure import digest_of
from federico.own_code import EVERYTHING, refer_to, trust_if, trusting
from federico.runs.bundle import Bundle, open_folder, own_folder_of
from federico.runs.layout import RunDir
from federico.runs.lock import LOCK
from federico.types import Task


def run(
    experiment: str | Path | None = None,
    *,
    clients: ClientsData | None = None,
    label: str | None = None,
    model: Callable[[], nn.Module] | Mapping[str, Any] | None = None,
    task: Task | None = None,
    label_names: Sequence[str] | None = None,
    directory: str | Path = "runs",
    overwrite: bool = False,
    progress: bool | None = None,
    observer: Observer | None = None,
    callbacks: Sequence[Callback] = (),
    trust: bool = False,
    **settings: Any,
) -> Run:
    """Run an experiment file, or your own data and model.

    `clients` maps each client's name to its data: a pair (x, y) of arrays, or of a pandas frame and
    its labels; a pandas frame or Hugging Face data set with the column to predict in `label`; or a
    torch data set of pairs. Frames are tables: texts become categories, gaps are filled and numbers
    standardised by each client's own rows. Labels are class numbers from 0, texts or categories;
    numbers that are not whole are values to predict, unless `task` says otherwise.

    `model` is a function (or class) that makes a new, randomly initialised module, or the table of
    an experiment file, such as {"kind": "mlp", "hidden": [50]}. Further keywords are the other keys
    of an experiment file: rounds=20, seeds=[0, 1], methods=[MyMethod],
    federico={"neighbors": 2}, training={"loss": my_loss}, ... For example:

        run = federico.run(clients={"north": (x1, y1), "south": (x2, y2)}, rounds=30, name="two")
        run.client("north").predict(x_new)

    The same name and settings resume, or just load what is finished (`run.trained` says which).
    Other settings, data or another model under the same name are refused, unless `overwrite=True`
    deletes what was there. `progress` shows bars; without it only a notebook or a terminal does,
    and a script says in a few lines what the data looks like. `progress=False` shows nothing.
    `callbacks` are objects of classes derived from `federico.Callback`: they are told of every
    round.

    Python code that you give in this call may run. Code that an experiment file names may if you
    say `trust=True`, or have said yes to the same code when `federico run` asked at a terminal.
    """
    may_run = EVERYTHING
    if experiment is not None:
        may_run = trust_if(trust)
    tables = read(Path(experiment)) if experiment else {}
    if isinstance(model, Mapping):
        settings["model"] = model
    tables = _merged(tables, settings)
    _refer_to_loss(tables)
    dataset = None
    if clients is not None:
        tables["partition"] = settings.get("partition", {"kind": "natural"})
        dataset = dataset_from_clients(clients, task=task, label_names=label_names, label=label)
        tables["data"] = {"kind": "python"}
        if dataset.schema.columns:
            tables["data"]["target"] = name_of_target(clients, label)
    factory = _factory(model)
    if factory is not None:
        tables["model"] = {"kind": "python"}

    with trusting(may_run):
        grid = make_grid(tables, "federico.run" if experiment is None else str(experiment))
    folder = Path(directory) / grid.name
    if overwrite:
        _delete_run(folder)
    rounds_before = _rounds_played(folder)
    with trusting(may_run), _observing(observer, progress) as watching:
        if dataset is not None and task is None:
            _hint_at_amounts(dataset, watching)
        told = Several([watching, *callbacks])
        done = _run(grid, directory, told, dataset, factory)
        trained = _rounds_played(folder) > rounds_before
        if trained:
            _warn_of_models_worse_than_the_mean(done, watching)
    return Run(done.path, factory, trained=trained, trust=may_run)


def load(
    path: str | Path, model: Callable[[], nn.Module] | None = None, *, trust: bool = False
) -> Run:
    """Open a run directory; `model` is needed only where the run was given one in Python.

    Opening runs no code: a model of `kind = "import"` is refused unless `trust=True`.

    For example:

        run = federico.load("runs/mine", model=Net)
    """
    return Run(path, model, trust=trust_if(trust))


def load_client(
    folder: str | Path, model: Callable[[], nn.Module] | None = None, *, trust: bool = False
) -> Bundle:
    """Open one client's personal model that lies in a folder of its own.

    That is what `client.save(folder)` has written, or the state folder of a site. `model` and
    `trust` are as for `federico.load`. For example:

        north = federico.load_client("north-model")
        north.predict(x_new)
    """
    return open_folder(own_folder_of(Path(folder)), model, trust=trust_if(trust))


def _refer_to_loss(tables: dict[str, Any]) -> None:
    """Let a loss that is given as a function be found by a name, as one in a file is."""
    training = tables.get("training")
    if not isinstance(training, Mapping):
        return
    loss = training.get("loss")
    if not callable(loss):
        return
    if isinstance(loss, type):
        raise ConfigError(f"training.loss: {loss.__name__} is a class; give an object or function")
    name = getattr(loss, "__name__", type(loss).__name__)
    tables["training"] = {**training, "loss": refer_to(loss, name, digest_of(loss))}


def _factory(model: object) -> Callable[[], nn.Module] | None:
    """What makes new modules; None where the experiment's table says it."""
    if model is None or isinstance(model, Mapping):
        return None
    if isinstance(model, nn.Module):
        raise ConfigError(
            "model: give a function that makes a new module (every peer starts from its own), "
            "not one"
        )
    if not callable(model):
        raise ConfigError(
            "model: give a function that makes a new module, or a table such as "
            f'{{"kind": "linear"}}, not {model!r}'
        )
    return model


def _run(
    grid: Grid,
    directory: str | Path,
    observer: Observer,
    dataset: Dataset | None,
    factory: Callable[[], nn.Module] | None,
) -> RunDir:
    return run_grid(
        grid,
        Path(directory),
        observer,
        dataset=dataset,
        factory=factory,
        command="federico.run",
    )


def _observing(
    observer: Observer | None, progress: bool | None
) -> AbstractContextManager[Observer]:
    """The given observer, else bars where somebody looks on."""
    if observer is not None:
        return nullcontext(observer)
    if bars_wanted(progress):
        return bars()
    if progress is None:
        return nullcontext(Brief())
    return nullcontext(Quiet())


def _hint_at_amounts(dataset: Dataset, observer: Observer) -> None:
    hint = many_classes_hint(dataset.schema)
    if hint:
        observer.say(hint)


def _warn_of_models_worse_than_the_mean(done: RunDir, observer: Observer) -> None:
    """Say how many clients have such a model, as `federico run` does."""
    if all(cell.description.task == "classification" for cell in done.cells()):
        return
    # A model of classes needs none of this, which takes a while to import.
    from federico.report import summarize, text

    warning = text.worse_than_mean(summarize(done.path))
    if warning:
        observer.say(f"warning: {warning}")


def _delete_run(folder: Path) -> None:
    """Delete a run directory, and nothing that is none."""
    if not folder.exists():
        return
    # A run that has no cell yet holds nothing else; other people have a config.toml as well.
    begun = {entry.name for entry in folder.iterdir()} <= {"config.toml", LOCK}
    if not begun and not RunDir(folder).cells():
        raise RunError(
            f"{folder}: overwrite=True deletes run directories only, and this is none; "
            "choose another name or directory"
        )
    with RunDir(folder).locked():
        shutil.rmtree(folder)


def _rounds_played(folder: Path) -> int:
    """Rounds of all finished cells together."""
    return sum(cell.rounds_done for cell in RunDir(folder).cells())


def _merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The table with changes.

    Inner tables are changed key by key, unless they become another kind.
    """
    merged = dict(table)
    for key, value in changes.items():
        inner = merged.get(key)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            same_kind = value.get("kind") in {None, inner.get("kind")}
            merged[key] = _merged(inner, value) if same_kind else value
        else:
            merged[key] = value
    return merged
