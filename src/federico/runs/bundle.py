"""One client's personal model, with all that is needed to predict with it.

A bundle comes from a run, where all clients share two files (`client_models.py`), or from a folder
of its own that can be moved to another machine:

    <folder>/  bundle.json         everything but the models
               models.safetensors  the models of the mixture, tensors called <number>/<name>;
                                   what they share because it was frozen, once, as base/<name>
"""

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load
from torch import Tensor

from federico.data.from_python import new_samples
from federico.data.inputs import has_target, known_targets, read_samples
from federico.data.tabular import (
    TO_PREDICT,
    Decimal,
    TableOrigin,
    Unknown,
    encoding_hint,
)
from federico.errors import ConfigError, DataError, RunError
from federico.learning.layout import ModelLayout
from federico.learning.metrics import NO_CLASS
from federico.learning.model_options import Imported
from federico.learning.models import Factory
from federico.own_code import NOTHING, Trust, trusting
from federico.runs.answers import tell_unanswered
from federico.runs.atomic import PARTIAL, disk_errors, refuse_existing, sync
from federico.runs.bundle_header import (
    Header,
    header_as_json,
    read_json_header,
    validated_header,
)
from federico.runs.comparison import (
    Comparison,
    describe_comparison,
    private_model_of,
    trusts_only_itself,
)
from federico.runs.disagreement import Disagreement
from federico.runs.distilling import Distillation, distance, distilled_row, divided
from federico.runs.exporting import export
from federico.runs.personal_module import PersonalModel, models_of
from federico.runs.score import score_for
from federico.runs.tensor_file import refuse_long_header, save_tensors
from federico.types import Array, FloatArray

if TYPE_CHECKING:
    import pandas as pd

HEADER_FILE = "bundle.json"
MODELS_FILE = "models.safetensors"
BASE = "base/"
"""What the names of tensors begin with that all models of a file share."""
BATCH = 512
"""Samples that are predicted at a time."""
LONGEST_NAME = 200
"""Characters that a folder name may have."""
NOT_IN_FILE_NAMES = frozenset('/\\:*?"<>|%')
"""What some file system or shell takes for something else than a part of a file's name."""


Rows: TypeAlias = Callable[[ModelLayout], list[Tensor]]
"""Reads the models of a mixture, one row for each, given how models are laid out in rows."""


class Bundle:
    """One client's personal model: a few models under its posterior."""

    def __init__(
        self,
        header: Header,
        read_rows: Rows,
        factory: Factory | None = None,
        read_base: Callable[[], dict[str, Tensor]] = dict,
        *,
        stored_numbers: Callable[[], int] | None = None,
        trust: Trust = NOTHING,
    ) -> None:
        """`factory` makes the module, where the run was given one in Python.

        `stored_numbers`: how many numbers are stored of one model, and of what all share.

        `trust`: which of the Python code that the header may name can run.
        """
        self.header = header
        self._read_rows = read_rows
        self._factory = factory
        self._read_base = read_base
        self._stored_numbers = stored_numbers
        self._trust = trust
        self.files_owner: object = None
        """What deletes the files of this model once nothing refers to it any more."""

    def __repr__(self) -> str:
        models = f"{len(self.header.owners)} models"
        if len(self.header.owners) == 1:
            models = "1 model"
        shown = f"Bundle({self.header.client!r}, {self.header.method}: {models}"
        if self.distillation is not None:
            shown += f"; {self.distillation}"
        if self.comparison is not None:
            shown += f"; {self._worth(self.comparison)}"
        return f"{shown})"

    def _repr_html_(self) -> str:
        rows = []
        for owner, weight in sorted(self.posterior.items(), key=lambda item: -item[1]):
            rows.append(f"<tr><td>{escape(owner)}</td><td>{100 * weight:.1f} %</td></tr>")
        head = "<thead><tr><th>model of</th><th>weight</th></tr></thead>"
        table = f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"

        client = escape(self.header.client)
        title = f"Personal model of {client} ({escape(self.header.method)})"
        about = []
        if self.comparison is not None:
            about.append(f"On its own test data: {self._worth(self.comparison)}.")
        if self.distillation is not None:
            about.append(f"{self.distillation}.")
        return f"<p><b>{title}</b></p><p>{escape(' '.join(about))}</p>{table}"

    def _worth(self, comparison: Comparison) -> str:
        only_itself = trusts_only_itself(self.posterior, self.header.client)
        return describe_comparison(comparison, only_itself=only_itself)

    @property
    def comparison(self) -> Comparison | None:
        """Is it worth it? What this client reaches alone, with its collaborators, and as used.

        Measured on its own test data when the run ended; None where the method trains no model
        alone.
        """
        return self.header.comparison

    @property
    def distillation(self) -> Distillation | None:
        """What this model has lost against its mixture, where `distill` made it; else None."""
        return self.header.distillation

    @property
    def posterior(self) -> dict[str, float]:
        """Whose models this client predicts with, and how much each weighs: together 1.

        The model that the client trained alone is among them as `<client> (alone)`, where the
        method trains one. The others share what it leaves, trusted as they were when it was saved.
        """
        return dict(zip(self.header.owners, self.header.weights, strict=True))

    def collaborators(self, at_least: float = 0.01) -> list[str]:
        """The other peers whose models weigh at least this much, heaviest first."""
        own = (self.header.client, private_model_of(self.header.client))
        others = {
            name: weight
            for name, weight in self.posterior.items()
            if name not in own and weight >= at_least
        }
        return sorted(others, key=lambda name: -others[name])

    def probabilities(self, x: Any, *, unknown: Unknown = "error") -> FloatArray:
        """Class probabilities [n, classes]; for regression the predicted values [n, outputs].

        Values are in the units of the targets. `x` and `unknown` are as for `predict`. Where the
        model was trained on a table, an array has one number for each column, see `module`.
        """
        parts = [self._personal(batch).numpy() for batch in self._batches(x, unknown)]
        return np.concatenate(parts)

    def mixed_and_separate(
        self, x: Any, *, unknown: Unknown = "error"
    ) -> tuple[FloatArray, FloatArray]:
        """What `probabilities` gives, and what each model gives alone: [n, models, outputs].

        The models are in the order of `posterior`.
        """
        mixed = []
        separate = []
        for batch in self._batches(x, unknown):
            of_mixture, of_models = self._personal.mixed_and_separate(batch)
            mixed.append(of_mixture.numpy())
            separate.append(of_models.numpy())
        return np.concatenate(mixed), np.concatenate(separate)

    def watch(self) -> Disagreement:
        """An empty count of how often the models of others disagree with this client's own."""
        client = self.header.client
        own = (private_model_of(client), client)
        return Disagreement(self.header.owners, own, self.header.schema.task)

    def disagreement(self, x: Any, *, unknown: Unknown = "error") -> dict[str, float]:
        """How often the models of others see new samples otherwise than this client's own does.

        Its own is the one that it trained alone, where there is one. For classes, the share of the
        samples that a model gives another label; for regression, how far its values are away on
        average, in the units of the targets. Largest first. A collaborator that disagrees much more
        on fresh data than on the client's own test data is worth a look.
        """
        watch = self.watch()
        _, separate = self.mixed_and_separate(x, unknown=unknown)
        watch.add(separate)
        return watch.by_owner

    def decided_by(self, x: Any, *, unknown: Unknown = "error") -> "pd.DataFrame":
        """Whose models decided: a row for each sample, a column for each model's owner.

        For classes, the share of the predicted class's probability that comes from each model;
        they add up to 1. For regression, the value that each model alone predicts (a column for
        each of several values); its weight is the same for all samples, see `posterior`.
        """
        import pandas as pd

        parts = [self._personal.decided_by(batch).numpy() for batch in self._batches(x, unknown)]
        shares = np.concatenate(parts)  # [samples, models, 1 or values]
        columns = list(self.header.owners)
        if shares.shape[2] > 1:
            numbers = range(shares.shape[2])
            columns = [f"{owner}_{number}" for owner in columns for number in numbers]
        index = x.index if isinstance(x, pd.DataFrame) else None
        return pd.DataFrame(shares.reshape(len(shares), -1), index=index, columns=columns)

    def read(
        self,
        file: str | Path,
        *,
        unknown: Unknown = "error",
        separator: str | None = None,
        decimal: Decimal | None = None,
        encoding: str | None = None,
    ) -> Array:
        """New samples from a CSV, Parquet or npz file, read as the training data was.

        `unknown="missing"` takes a category that was not in the training data for a missing value,
        which is otherwise an error. `separator`, `decimal` and `encoding` are those of this file,
        where they differ from those of the training table.
        """
        origin = self.table_origin(separator=separator, decimal=decimal, encoding=encoding)
        hint = "" if origin is None else encoding_hint(Path(file), origin.format, TO_PREDICT)
        if hint:
            warnings.warn(hint, stacklevel=2)
        return read_samples(Path(file), self.header.schema, origin, unknown)

    def table_origin(self, **changes: Any) -> TableOrigin | None:
        """How new tables are read: as the training table, but for these changes to its format."""
        origin = self.header.table
        if origin is None:
            return None
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(origin, format=replace(origin.format, **given))

    def module(self) -> PersonalModel:
        """The personal model as one ordinary `torch.nn.Module`, with numbers of its own.

        It takes samples [n, ...] and gives what `probabilities` gives. Where the training data was
        a table it takes [n, columns], in the order of `header.schema.columns`: the number of a
        column of numbers, the position of the category (from 0) of a column of categories, NaN (or
        for a category -1) where a value is missing. Filling gaps, one input for each category and
        standardising are inside.
        """
        header = self.header
        models = models_of(self._layout, self._read_rows(self._layout))
        personal = PersonalModel(
            models,
            np.array(header.weights),
            header.schema,
            header.standardizer,
            header.calibration,
            header.target_scale,
        )
        return personal.eval()

    def predict(self, x: Any, *, unknown: Unknown = "error") -> Array:
        """Label names, or class numbers where those are the names; values for regression.

        `x` are new samples in the form that the training data had: an array, a pandas frame (its
        column of labels may be there or not), a torch or Hugging Face data set. For example:

            run.client("north").predict(new_patients)

        `unknown="missing"` takes a category that was not in the training data for a missing value,
        which is otherwise an error.

        Where no model has a finite answer the label is empty, the class number -1, the value NaN; a
        warning says for how many samples. If it is so for all of them, that is an error.
        """
        outputs = self.probabilities(x, unknown=unknown)
        answered = tell_unanswered(outputs, self.header.client)
        schema = self.header.schema
        if schema.task == "regression":
            return outputs
        best: Array = np.where(answered, outputs.argmax(1), NO_CLASS)
        numbers = [str(number) for number in range(schema.outputs)]
        if list(schema.label_names) == numbers:
            return best
        labels: Array = np.where(answered, np.array(schema.label_names)[best], "")
        return labels

    def export(self, file: str | Path, *, overwrite: bool = False) -> None:
        """Write `module()` for programs that know nothing of federico, as the name ends.

        `.onnx` is for onnxruntime and others (it needs `pip install 'federico[onnx]'`), `.pt2` is a
        program for `torch.export.load`, and `.safetensors` holds the tensors of its `state_dict`.
        """
        target = Path(file)
        refuse_existing(target, overwrite, "overwrite=True")
        export(self.header, self.module(), target)

    def distill(
        self,
        x: Array,
        y: Array | None = None,
        *,
        epochs: int = 200,
        learning_rate: float = 0.003,
        seed: int = 0,
    ) -> "Bundle":
        """One model of the same architecture that has learned to answer as this mixture does.

        It predicts, exports and saves like any personal model, at the cost of one model. `x` are
        samples as `probabilities` takes them, the more the better; labels are not needed to learn.
        A fifth of the samples is kept apart: `.distillation` says how far the answers for them are
        from the mixture's and, where `y` has their labels, what both reach. Give labels of samples
        that nobody has trained on, or both figures are too good.
        """
        x = self._checked(x)
        # Nothing can be learned from a sample for which the mixture has no answer.
        answered = tell_unanswered(self.probabilities(x), self.header.client)
        x = x[answered]
        learned, apart = divided(len(x), seed, self.header.client)
        rows = self._read_rows(self._layout)
        heaviest = int(np.argmax(self.header.weights))
        row = distilled_row(
            self._personal, self._layout, rows[heaviest], x[learned],
            epochs=epochs, learning_rate=learning_rate, seed=seed,
        )  # fmt: skip
        header = replace(
            self.header,
            owners=[self.header.client],
            weights=[1.0],
            temperatures=None,
            offsets=None,
            comparison=None,
        )
        distilled = Bundle(
            header, lambda layout: [row], self._factory, self._read_base, trust=self._trust
        )
        distilled.files_owner = self.files_owner
        targets = None
        if y is not None:
            targets = known_targets(np.asarray(y), self.header.schema, "y")
            if len(targets) != len(answered):
                raise DataError(
                    f"y: {len(answered)} samples but {len(targets)} labels; give one for each"
                )
            targets = targets[answered][apart]
        measured = self._lost_by(distilled, x[apart], targets)
        distilled.header = replace(header, distillation=measured)
        return distilled

    def _lost_by(self, distilled: "Bundle", x: Array, targets: Array | None) -> Distillation:
        """How far the distilled model is from this mixture on these samples."""
        task = self.header.schema.task
        before = self.probabilities(x)
        after = distilled.probabilities(x)
        agreement = None
        if task == "classification":
            agreement = float((before.argmax(1) == after.argmax(1)).mean())
        figures = []
        for outputs in (before, after):
            score = score_for(task, self.header.schema.outputs)
            if targets is not None:
                known = has_target(targets)
                score.add(outputs[known], targets[known])
            figures.append(score.figures() if score.rows else {})
        return Distillation(
            samples=len(x),
            difference=distance(before, after, task),
            agreement=agreement,
            mixture=figures[0],
            distilled=figures[1],
        )

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Put this personal model into a folder of its own, which can be moved elsewhere.

        `overwrite=True` replaces a personal model that was saved there before. A folder that holds
        anything else is never replaced.
        """
        target = Path(folder).resolve()
        refuse_what_is_no_bundle(target, overwrite=overwrite)
        save_folder(target, self.header, self._layout, self._read_rows(self._layout))

    @cached_property
    def _layout(self) -> ModelLayout:
        schema = self.header.schema
        factory = self._factory
        if factory is None:
            with trusting(self._trust):
                factory = self.header.model.factory(tuple(schema.input_shape), schema.outputs)
            # What the header says is a stranger's word, but not what somebody has let run.
            if self._stored_numbers is not None and not isinstance(self.header.model, Imported):
                refuse_larger_model(factory, self._stored_numbers())
        base = self._read_base() if self.header.has_base else None
        dtype = getattr(torch, self.header.dtype)
        return ModelLayout(factory, dtype, freeze=self.header.has_base, base=base)

    @cached_property
    def _personal(self) -> PersonalModel:
        return self.module().requires_grad_(False)

    def _checked(self, x: Any, unknown: Unknown = "error") -> Array:
        """The samples, if the model can take them."""
        shape = tuple(self.header.schema.sample_shape)
        samples = new_samples(x, self.header.schema, unknown)
        if not len(samples):
            raise DataError("x: holds no samples: at least one is needed")
        if samples.shape[1:] != shape:
            raise DataError(f"inputs of shape {samples.shape[1:]}, where the model takes {shape}")
        return samples

    def _batches(self, x: Any, unknown: Unknown) -> Iterator[Tensor]:
        """The samples, checked, a batch at a time."""
        x = self._checked(x, unknown)
        for first in range(0, len(x), BATCH):
            # Copied batch by batch: a caller's array may be read-only or a reversed view.
            yield torch.from_numpy(np.array(x[first : first + BATCH]))


def own_folder_of(path: Path) -> Path:
    """The folder of the one personal model below this path: itself, or that of a site's state."""
    folder = find_own_folder(path)
    if folder is None:
        raise RunError(
            f"{path.absolute()}: is no folder of one personal model (it has no {HEADER_FILE}); of "
            "a run, open federico.load(run).client(name)"
        )
    return folder


def find_own_folder(path: Path) -> Path | None:
    """The folder of the one personal model below this path; None where there is none."""
    if (path / HEADER_FILE).exists():
        return path
    of_site = list(path.glob(f"clients/*/{HEADER_FILE}"))
    if len(of_site) == 1:
        return of_site[0].parent
    return None


def open_folder(folder: Path, factory: Factory | None = None, *, trust: Trust = NOTHING) -> Bundle:
    """The personal model in a client's own folder.

    `trust`: which Python code may run; a model that needs other code is refused.
    """
    path = folder / HEADER_FILE
    raw = read_json_header(path)
    digest = str(raw.pop("models_sha256", ""))
    header = validated_header(raw, path)

    def read_rows(layout: ModelLayout) -> list[Tensor]:
        stored = _stored_models(folder / MODELS_FILE, digest)
        rows: list[Tensor] = []
        for k in range(len(header.owners)):
            rows.append(layout.from_named(tensors_below(f"{k}/", stored)))
        return rows

    def read_base() -> dict[str, Tensor]:
        return tensors_below(BASE, _stored_models(folder / MODELS_FILE, digest))

    def stored_numbers() -> int:
        shapes = stored_shapes(folder / MODELS_FILE)
        return sum(prod(shape) for name, shape in shapes.items() if name.startswith(("0/", BASE)))

    return Bundle(header, read_rows, factory, read_base, stored_numbers=stored_numbers, trust=trust)


def stored_shapes(file: Path) -> dict[str, list[int]]:
    """The shapes of all tensors in a file of models, none of which is read."""
    refuse_long_header(file)
    shapes: dict[str, list[int]] = {}
    try:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (not a dictionary)
                shapes[name] = opened.get_slice(name).get_shape()
    except FileNotFoundError:
        raise RunError(f"{file}: cannot be read: No such file or directory") from None
    except (OSError, SafetensorError):
        raise damaged(file) from None
    return shapes


def refuse_larger_model(factory: Factory, stored: int) -> None:
    """Refuse a model that has more numbers than are stored, before memory is taken for them."""
    try:
        with torch.device("meta"):
            module = factory()
    except (RuntimeError, OverflowError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"model: it cannot be made as the bundle describes it: {reason}") from None
    tensors = [*module.parameters(), *module.buffers()]
    numbers = sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
    if numbers > stored:
        raise RunError(
            f"model: as the bundle describes it, it has {numbers:,} numbers, but {stored:,} are "
            "stored: the header or the models are not those of this client"
        )


def tensors_below(prefix: str, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start like this, by the rest of their names."""
    found: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        if name.startswith(prefix):
            found[name.removeprefix(prefix)] = tensor
    return found


def save_folder(folder: Path, header: Header, layout: ModelLayout, rows: Sequence[Tensor]) -> None:
    """Write a client's own folder; it appears all at once."""
    partial = folder.with_name(folder.name + PARTIAL)
    with disk_errors(folder):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        tensors = base_tensors(layout)
        for k, row in enumerate(rows):
            on_cpu = row.cpu()
            named = layout.named(on_cpu, torch.empty_like(on_cpu))
            for name, tensor in named.items():
                tensors[f"{k}/{name}"] = tensor
        digest = save_tensors(partial / MODELS_FILE, tensors)

        content = header_as_json(header)
        content["models_sha256"] = digest
        text = json.dumps(content, indent=1)
        (partial / HEADER_FILE).write_text(text, encoding="utf-8")
        for written in (partial / MODELS_FILE, partial / HEADER_FILE, partial):
            sync(written)
        replace_folder(partial, folder)
        sync(folder.parent)


def refuse_what_is_no_bundle(folder: Path, *, overwrite: bool) -> None:
    """Nothing is replaced but a personal model, and that only where somebody has asked for it."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; name a folder that is new")
    inside = {entry.name for entry in folder.iterdir()}
    if not inside:
        return
    if inside != {HEADER_FILE, MODELS_FILE}:
        raise ConfigError(
            f"{folder}: holds something else than a personal model, and is left as it is; "
            "name a folder that is new"
        )
    if not overwrite:
        raise ConfigError(
            f"{folder}: holds a personal model already; name another folder, or replace it with "
            "overwrite=True"
        )


def base_tensors(layout: ModelLayout) -> dict[str, Tensor]:
    """What all models share because it is frozen, by the names it has in a file."""
    return {f"{BASE}{name}": tensor for name, tensor in layout.named_base().items()}


def folder_name(client: str) -> str:
    """A folder name for any client name."""
    name = quote(client, safe=" ")
    if name.strip(".") and len(name) <= LONGEST_NAME:
        return name
    # "", "..", or longer than a file system takes
    return "%" + hashlib.sha256(client.encode()).hexdigest()[:32]


def file_name(client: str) -> str:
    """A file name without its suffix for any client name: the same where that can be one."""
    can_be_one = client.isprintable() and not set(client) & NOT_IN_FILE_NAMES
    if can_be_one and client.strip(". ") == client and 0 < len(client.encode()) <= LONGEST_NAME:
        return client
    return folder_name(client)


def replace_folder(new: Path, folder: Path) -> None:
    """Put the new folder in the place of the old one, which is removed only once that is done."""
    old = folder.with_name(f"{folder.name}.old{PARTIAL}")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.replace(old)
    new.replace(folder)
    shutil.rmtree(old, ignore_errors=True)


def damaged(file: Path) -> RunError:
    """The error for models that are not what was saved."""
    return RunError(
        f"{file}: damaged (its hash is not the one that was saved); in the run directory, delete "
        "done.json of this cell and run the experiment again: the models are written again from "
        "the last checkpoint"
    )


def _stored_models(file: Path, digest: str) -> dict[str, Tensor]:
    """The tensors of a file of models, if it is the one that was written."""
    refuse_long_header(file)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise RunError(f"{file}: cannot be read: {error.strerror}") from error
    except MemoryError:
        raise RunError(f"{file}: does not fit into the memory of this machine") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise damaged(file)
    try:
        models: dict[str, Tensor] = load(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise RunError(f"{file}: is no file of models: {error}") from error
    return models
