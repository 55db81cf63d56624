"""What people hand over in Python, under each client's name, as one checked dataset.

A client's data is a pair (x, y) of arrays or of a pandas frame and its labels, a pandas frame or a
Hugging Face data set with a column of labels, or a torch data set of pairs. Frames are tables: gaps
are filled, texts become categories, numbers are standardised by each client. Arrays stay as they
are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from federico.data.arrays import NUMBER_KINDS, as_inputs, dataset_from_arrays
from federico.data.dataset import Dataset, Samples, Schema, TableColumn, checked
from federico.data.files import first_line
from federico.data.partition import refuse_duplicate_ids
from federico.data.tabular import (
    TO_PREDICT,
    Unknown,
    category_texts,
    column_values,
    encode_columns,
    find_categories,
    require_columns,
    without_trailing_spaces,
)
from federico.errors import DataError
from federico.types import Array, ClientId, Task

if TYPE_CHECKING:
    import pandas as pd

ClientsData: TypeAlias = Mapping[Any, Any]
"""A client's name -> its data, in any of the forms that this file reads."""

NUMBERS = {"integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty"}
"""What pandas calls the content of a column that can be read as numbers."""
DATES = {"datetime64", "datetime", "date", "timedelta64", "timedelta", "time", "period"}
"""What it calls dates and times."""
MANY_CATEGORIES = 50
"""A column of more texts than this, most of them different, names its rows: it is no category."""
HOW_TO_GIVE = (
    "give a pair of arrays (x, y), a pandas frame with its column to predict (label=...), a torch "
    "Dataset of pairs, or a Hugging Face Dataset"
)


@dataclass(frozen=True)
class GivenData:
    """One client's inputs and targets, whatever they were given as."""

    name: ClientId
    x: Array | pd.DataFrame
    y: Array
    """Numbers, or texts that name classes."""
    label_names: tuple[str, ...] = ()
    """The names of the classes, where the data itself has them."""
    target: str = "target"
    """The name of what is predicted."""


def dataset_from_clients(
    clients: ClientsData,
    *,
    task: Task | None = None,
    label_names: Sequence[str] | None = None,
    label: str | None = None,
) -> Dataset:
    """One dataset of the data of all clients, each client the owner of its samples.

    `label` is the column to predict, where clients are frames or Hugging Face data sets.
    """
    parts = read_clients(clients, label)
    y = np.concatenate([part.y for part in parts])
    owners = np.repeat([part.name for part in parts], [len(part.y) for part in parts])
    if label_names is None:
        label_names = _names_in_data(parts)
    if y.dtype.kind == "U" and task == "regression":
        raise DataError(
            f"clients: the targets are texts such as '{y[0]}', and values to predict must be "
            "numbers: convert them, as in y.astype(float)"
        )
    if y.dtype.kind == "U":
        y, label_names = _numbered(y, label_names)

    frames = _frames(parts)
    if not frames:
        inputs = np.concatenate([np.asarray(part.x) for part in parts])
        return dataset_from_arrays(inputs, y, owners, "clients", task=task, label_names=label_names)

    columns = _columns(frames)
    encoded = [encode_columns(frame, columns, _whose(name)) for name, frame in frames.items()]
    inputs = np.vstack(encoded)
    # Targets of a table are read by the same rules as those of arrays.
    plain = dataset_from_arrays(
        np.zeros((len(y), 1)), y, owners, "clients", task=task, label_names=label_names
    )
    found = plain.schema
    schema = Schema(found.task, inputs.shape[1:], found.outputs, found.label_names, columns)
    dataset = Dataset(Samples(inputs, plain.samples.y), schema, owners)
    return checked(dataset, "clients", allow_missing=True)


def read_clients(clients: ClientsData, label: str | None = None) -> list[GivenData]:
    """Everybody's inputs and targets, which agree in shape or columns."""
    if not isinstance(clients, Mapping):
        raise DataError(
            f"clients: give a dictionary of name -> data, not {type(clients).__name__}; of one "
            "frame with a column of owners: {name: part.drop(columns='owner') for name, part in "
            "frame.groupby('owner')}"
        )
    if not clients:
        raise DataError("clients: there are none; give a dictionary of name -> (x, y)")
    refuse_duplicate_ids(str(name) for name in clients)

    parts = [_read_client(str(name), given, label) for name, given in clients.items()]
    frames = _frames(parts)
    if frames and len(frames) < len(parts):
        raise DataError(
            f"clients: {_listed(list(frames))} gave frames and the others arrays; give all the same"
        )
    if frames:
        _refuse_different_columns(frames)
    else:
        _refuse_different_shapes("inputs", {part.name: np.shape(part.x)[1:] for part in parts})
    _refuse_different_shapes("targets", {part.name: part.y.shape[1:] for part in parts})
    return parts


def name_of_target(clients: ClientsData, label: str | None = None) -> str:
    """What is predicted, where clients are tables: the column's name, or that of their labels."""
    if label is not None:
        return label
    name, given = next(iter(clients.items()))
    return _read_client(str(name), given, label).target


def new_samples(x: Any, schema: Schema, unknown: Unknown = "error") -> Array:
    """New inputs for a model of this schema, given in any of the forms that it may train on.

    The column of labels may be there or not. `unknown` says what becomes of a category that the
    model has never seen.
    """
    if isinstance(x, str | Path):
        raise DataError(f"x: {str(x)!r} is a name, not data; client.read(...) reads a file")
    if _is_hugging_face(x):
        x = _hugging_face_inputs(x)
    elif _is_torch_dataset(x):
        x = np.stack([_as_array(_input_of(item)) for item in _items(x)])
    if not _is_frame(x):
        array = np.asarray(x)
        # An array of numbers may be what a client has read and encoded from a file.
        if schema.columns and array.dtype.kind not in NUMBER_KINDS:
            names = _listed([column.name for column in schema.columns])
            raise DataError(
                f"x: is a {type(x).__name__}, and this model was trained on a table: give a pandas "
                f"frame with the columns {names}; of a single row, frame.iloc[[0]]"
            )
        return as_inputs(array, "x")
    if not schema.columns:
        return as_inputs(x.to_numpy(), "x")

    frame = _as_if_read(x)
    require_columns(frame, [column.name for column in schema.columns], "x")
    return column_values(frame, schema.columns, "x", unknown=unknown, advice=TO_PREDICT)


# One client.


def _read_client(name: ClientId, given: Any, label: str | None) -> GivenData:
    if _is_frame(given):
        part = _of_frame(name, given, label)
    elif _is_hugging_face(given):
        part = _of_hugging_face(name, given, label)
    elif _is_torch_dataset(given):
        part = _of_torch_dataset(name, given)
    else:
        _refuse_what_is_no_data(name, given)
        part = _of_pair(name, given)

    if len(part.x) != len(part.y):
        raise DataError(
            f"client '{name}': {len(part.x)} inputs but {len(part.y)} targets; "
            "there must be one for each"
        )
    # The natural partition would not notice a client without samples.
    if len(part.x) == 0:
        raise DataError(f"client '{name}': holds no samples: leave it out, or give it some")
    return part


def _of_pair(name: ClientId, given: Any) -> GivenData:
    try:
        x, y = given
        x = _as_if_read(x) if _is_frame(x) else _as_array(x)
        targets = _targets(name, y)
    except (TypeError, ValueError) as error:
        raise DataError(f"client '{name}': {HOW_TO_GIVE} ({first_line(error)})") from error
    if np.ndim(x) == 0 or targets.ndim == 0:
        raise DataError(f"client '{name}': x and y must be arrays with one row per sample")
    return GivenData(name, x, targets, target=_name_of_column(y))


def _name_of_column(y: Any) -> str:
    """The name that a series of pandas has, or the only column of a frame."""
    named = getattr(y, "name", None)
    if _is_frame(y) and len(y.columns) == 1:
        named = y.columns[0]
    return str(named or "target")


def _of_frame(name: ClientId, frame: pd.DataFrame, label: str | None) -> GivenData:
    """A frame that has the column to predict among its columns."""
    frame = _as_if_read(frame)
    if label is None:
        raise DataError(
            f"client '{name}': say which column of its frame is to be predicted: label=...; "
            f"it has {_listed(list(frame.columns))}"
        )
    require_columns(frame, [label], _whose(name))
    targets = _targets(name, frame[label])
    return GivenData(name, frame.drop(columns=label), targets, target=label)


def _of_torch_dataset(name: ClientId, given: Any) -> GivenData:
    """A torch data set of pairs (input, target)."""
    inputs = []
    targets = []
    for item in _items(given):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise DataError(
                f"client '{name}': every item of its data set must be a pair (input, target), "
                f"not {type(item).__name__}"
            )
        inputs.append(_as_array(item[0]))
        targets.append(_as_array(item[1]))
    if not inputs:
        raise DataError(f"client '{name}': holds no samples: leave it out, or give it some")
    try:
        x = np.stack(inputs)
    except ValueError as error:
        raise DataError(
            f"client '{name}': the inputs of its data set differ in shape; crop or pad them"
        ) from error
    return GivenData(name, x, _targets(name, np.stack(targets)))


def _of_hugging_face(name: ClientId, given: Any, label: str | None) -> GivenData:
    """A Hugging Face data set; its column of labels is found where there is only one."""
    from datasets import ClassLabel, DatasetDict

    if isinstance(given, DatasetDict):
        raise DataError(
            f"client '{name}': choose one split of its data set, of {_listed(list(given))}: "
            f"data[{next(iter(given))!r}]"
        )
    features = given.features
    if label is None:
        labels = [each for each, kind in features.items() if isinstance(kind, ClassLabel)]
        if len(labels) != 1:
            raise DataError(
                f"client '{name}': say which column of its data set is to be predicted: "
                f"label=...; it has {_listed(list(features))}"
            )
        (label,) = labels
    if label not in features:
        raise DataError(
            f"client '{name}': no column named '{label}': it holds {_listed(list(features))}"
        )

    names: tuple[str, ...] = ()
    if isinstance(features[label], ClassLabel):
        names = tuple(features[label].names)
    targets = given.with_format(None).select_columns(label).to_pandas()[label]
    x = _hugging_face_inputs(given.remove_columns(label))
    return GivenData(name, x, _targets(name, targets), names, label)


def _hugging_face_inputs(given: Any) -> Array | pd.DataFrame:
    """One column of images or arrays as an array; else a table."""
    from datasets import ClassLabel, Value

    # What `set_format` or `with_transform` make of values is for somebody's training loop.
    given = given.with_format(None)
    features = given.features
    plain = {each for each, kind in features.items() if isinstance(kind, ClassLabel | Value)}
    others = [each for each in features if each not in plain]
    if others:
        if len(others) > 1 or not _are_labels(features, plain):
            raise DataError(
                f"data set: column '{others[0]}' holds arrays or images, and there are other "
                "columns beside it; keep one column of inputs: data.select_columns([...])"
            )
        (column,) = others
        return np.stack([_as_array(value) for value in given[column]])

    frame = given.to_pandas()
    for each, kind in features.items():
        if isinstance(kind, ClassLabel):
            texts = [kind.names[number] if number >= 0 else None for number in frame[each]]
            frame[each] = texts
    return _as_if_read(frame)


def _are_labels(features: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Whether these columns are all named classes, which may stay in new data."""
    from datasets import ClassLabel

    return all(isinstance(features[name], ClassLabel) for name in names)


def _targets(name: ClientId, y: Any) -> Array:
    """Targets as numbers, or as texts that name classes."""
    import pandas as pd

    if isinstance(y, pd.DataFrame) and len(y.columns) == 1:
        y = y.iloc[:, 0]
    if isinstance(y, pd.DataFrame):
        y = y.to_numpy()
    if isinstance(y, pd.Series) and isinstance(y.dtype, pd.CategoricalDtype):
        y = category_texts(y)
    array = _as_array(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # a column of targets is one target for each sample
    if array.dtype.kind not in NUMBER_KINDS:
        # pandas keeps numbers with gaps, and texts, as objects.
        values_in_a_row = pd.Series(array.reshape(-1)).infer_objects()
        array = values_in_a_row.to_numpy().reshape(array.shape)
    if array.dtype.kind in NUMBER_KINDS:
        return array

    if array.ndim != 1:
        raise DataError(
            f"client '{name}': targets must be numbers, or one text for each sample, not "
            f"{array.dtype} of shape {array.shape}"
        )
    values = pd.Series(array)
    missing = int(values.isna().sum())
    if missing:
        raise DataError(
            f"client '{name}': {missing} of its {len(values)} labels are missing: "
            "fill or remove those rows"
        )
    texts: Array = category_texts(values).to_numpy(dtype=str)
    return texts


def _as_array(value: Any) -> Array:
    """A tensor, image, list or number as an array; images become bytes [channels, ...]."""
    from PIL.Image import Image

    if isinstance(value, Image):
        pixels = np.asarray(value)
        if pixels.ndim == 2:
            return pixels[None]
        return pixels.transpose(2, 0, 1)
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return np.asarray(value)


def _items(dataset: Any) -> Iterator[Any]:
    """The items of a torch data set, which need not say where it ends unless it has a length."""
    if hasattr(dataset, "__len__"):
        for place in range(len(dataset)):
            yield dataset[place]
    else:
        yield from dataset


def _input_of(item: Any) -> Any:
    """The input of an item that may be a pair (input, target)."""
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0]
    return item


# What was given.


def _is_frame(given: Any) -> bool:
    import pandas as pd

    return isinstance(given, pd.DataFrame)


def _is_hugging_face(given: Any) -> bool:
    """Told without importing the package, which takes seconds and need not be installed."""
    kind = type(given)
    return kind.__module__.startswith("datasets.") and kind.__name__ in {"Dataset", "DatasetDict"}


def _is_torch_dataset(given: Any) -> bool:
    from torch.utils.data import Dataset as TorchDataset

    return isinstance(given, TorchDataset)


def _refuse_what_is_no_data(name: ClientId, given: Any) -> None:
    """Say how to give what people try first: the name of a data set, and a loader."""
    from torch.utils.data import DataLoader

    if isinstance(given, str | Path):
        remedy = "load it first: pandas.read_csv(...), or datasets.load_from_disk(...)"
        if find_spec("datasets") is None:
            remedy += " (pip install 'federico[datasets]')"
        raise DataError(f"client '{name}': {str(given)!r} is a name, not data; {remedy}")
    if isinstance(given, DataLoader):
        raise DataError(
            f"client '{name}': is a DataLoader, which makes batches; give what it loads from: "
            "loader.dataset"
        )


# All clients together.


def _names_in_data(parts: Sequence[GivenData]) -> Sequence[str] | None:
    """The names of the classes that the data itself has; None if it has none."""
    names = {part.label_names for part in parts}
    if len(names) > 1:
        raise DataError(
            "clients: their data sets name different classes; cast them to the same ClassLabel"
        )
    (found,) = names
    return found or None


def _numbered(y: Array, label_names: Sequence[str] | None) -> tuple[Array, Sequence[str]]:
    """Texts as class numbers, and the names of the classes: those given, or else in order."""
    import pandas as pd

    if label_names is None:
        label_names = find_categories(pd.Series(y))
    number_of = {str(name): number for number, name in enumerate(label_names)}
    others = [text for text in y if text not in number_of]
    if others:
        raise DataError(
            f"clients: the label '{others[0]}' is none of label_names, {_listed(list(number_of))}"
        )
    return np.array([number_of[text] for text in y], dtype=np.int64), label_names


def _frames(parts: Sequence[GivenData]) -> dict[ClientId, pd.DataFrame]:
    """The inputs of those clients that gave frames."""
    import pandas as pd

    return {part.name: part.x for part in parts if isinstance(part.x, pd.DataFrame)}


def _columns(frames: Mapping[ClientId, pd.DataFrame]) -> tuple[TableColumn, ...]:
    """The columns of everybody's frames, with the categories of all clients together."""
    import pandas as pd

    first = next(iter(frames.values()))
    if not len(first.columns):
        raise DataError("clients: no column is left to learn from")
    columns = []
    for column in first.columns:
        by_client = {name: frame[column] for name, frame in frames.items()}
        if not _holds_categories(column, by_client):
            columns.append(TableColumn(column))
            continue
        values: pd.Series = pd.concat([each.astype(object) for each in by_client.values()])
        categories = find_categories(values)
        if len(categories) > max(MANY_CATEGORIES, len(values) // 2):
            raise DataError(
                f"clients: column '{column}' holds {len(categories)} different texts in "
                f"{len(values)} rows, which is no category: drop it, or turn it into numbers"
            )
        columns.append(TableColumn(column, categories))
    return tuple(columns)


def _holds_categories(column: str, by_client: Mapping[ClientId, pd.Series]) -> bool:
    """Whether a column holds categories, on which all clients that have values there agree."""
    numbers = []
    categories = []
    for name, values in by_client.items():
        if values.isna().all():
            continue
        if _content(values, name) == "numbers":
            numbers.append(name)
        else:
            categories.append(name)
    if numbers and categories:
        raise DataError(
            f"clients: column '{column}' holds numbers at '{numbers[0]}' and texts at "
            f"'{categories[0]}'; make them agree"
        )
    return bool(categories)


def _content(values: pd.Series, name: ClientId) -> str:
    """`numbers` or `categories`."""
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype):
        return "categories"
    content = pd.api.types.infer_dtype(values, skipna=True)
    if content in DATES:
        raise DataError(
            f"client '{name}': column '{values.name}' holds dates or times; write them as numbers, "
            "such as days or years, or drop the column"
        )
    return "numbers" if content in NUMBERS else "categories"


def _refuse_different_columns(frames: Mapping[ClientId, pd.DataFrame]) -> None:
    """All frames must have the same columns, in whatever order."""
    first, *others = frames
    for name in others:
        different = set(frames[name].columns) ^ set(frames[first].columns)
        if different:
            raise DataError(
                f"client '{name}': column '{min(different)}' is not in both its frame and that of "
                f"'{first}'; make their columns agree"
            )


def _refuse_different_shapes(what: str, shape_of: Mapping[ClientId, tuple[int, ...]]) -> None:
    """All clients must measure the same things."""
    if len(set(shape_of.values())) > 1:
        raise DataError(
            f"clients: their {what} differ in shape: {dict(shape_of)}; "
            "every client must measure the same things"
        )


def _as_if_read(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame as if read from a file: names of columns are texts, and spaces at ends are gone.

    Rows keep their labels, for messages.
    """
    names = [str(name) for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"two columns of a frame are named '{name}': rename one")
    return without_trailing_spaces(frame.set_axis(names, axis=1))


def _whose(name: ClientId) -> str:
    return f"client '{name}'"


def _listed(names: Sequence[object]) -> str:
    return ", ".join(str(name) for name in names)
