"""What a personal model comes with, beside the numbers of its models."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, InstanceOf, TypeAdapter, ValidationError

from federico.bounded_files import read_bounded
from federico.data.dataset import Schema
from federico.data.standardizer import Standardizer, TargetScale
from federico.data.tabular import TableOrigin
from federico.errors import RunError
from federico.learning.calibration import Calibration
from federico.learning.model_options import ModelOptions
from federico.runs.comparison import Comparison
from federico.runs.distilling import Distillation
from federico.types import Array

FORMAT = 1


def _standardizer(value: Any) -> Standardizer | None:
    if value is None:
        return None
    return Standardizer(**_numbers(value, ("median", "mean", "scale")))


def _target_scale(value: Any) -> TargetScale | None:
    if value is None:
        return None
    return TargetScale(**_numbers(value, ("mean", "spread")))


def _numbers(value: Any, names: Sequence[str]) -> dict[str, Array]:
    """Arrays of these names, where a file has lists."""
    if not isinstance(value, dict) or set(value) != set(names):
        raise ValueError(f"a table of {', '.join(names)} was expected")
    found = {}
    for name in names:
        numbers = np.asarray(value[name])
        if numbers.dtype.kind not in "fiu":
            raise ValueError(f"{name}: numbers were expected")
        found[name] = numbers
    return found


@dataclass(frozen=True)
class Header:
    """Everything about a personal model but the numbers of its models."""

    client: str
    method: str
    seed: int
    schema: Schema
    standardizer: Annotated[InstanceOf[Standardizer] | None, BeforeValidator(_standardizer)]
    model: ModelOptions
    dtype: Literal["float32", "float64"]
    target_scale: Annotated[InstanceOf[TargetScale] | None, BeforeValidator(_target_scale)]
    """How the targets were standardised; None where models predict them in their own units."""
    table: TableOrigin | None
    """How the training table was read; None if it was no table."""
    input_dtype: Literal["uint8", "float32", "float64"]
    """The type of the training samples: bytes of images are scaled, other numbers are not."""
    owners: list[str]
    """Whose models make up the mixture, in the order they are stored."""
    weights: list[float]
    temperatures: list[float] | None = None
    """T of each model of the mixture: its class probabilities are read as p^(1/T) w."""
    offsets: list[list[float]] | None = None
    """log w of each model of the mixture and each class."""
    comparison: Comparison | None = None
    """What the client reached alone, with its collaborators and with this model, on its test data;
    None where the method trains no model alone."""
    distillation: Distillation | None = None
    """What this model has lost against the mixture it was distilled from; None for a mixture."""
    has_base: bool = False
    """Whether the models share tensors that were frozen, which are stored once."""
    format: int = FORMAT

    def __post_init__(self) -> None:
        """Refuse numbers under which a prediction would not be one."""
        weights = np.array(self.weights)
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError("weights: must be finite and not negative")
        if self.temperatures is not None:
            temperatures = np.array(self.temperatures)
            if not (np.isfinite(temperatures) & (temperatures > 0)).all():
                raise ValueError("temperatures: must be finite and above 0")
        if self.offsets is not None:
            for offsets in self.offsets:
                if len(offsets) != self.schema.outputs or not np.isfinite(offsets).all():
                    raise ValueError("offsets: one finite number is needed for each class")

    @property
    def calibration(self) -> Calibration | None:
        """How the outputs of each model of the mixture are read; None: as they are."""
        if self.temperatures is None or self.offsets is None:
            return None
        return Calibration(np.array(self.temperatures), np.array(self.offsets))


HEADER = TypeAdapter(Header)


def read_json_header(path: Path) -> dict[str, Any]:
    """The content of a header file."""
    try:
        found = json.loads(read_bounded(path))
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: not a client's bundle: {error}") from None
    if not isinstance(found, dict):
        raise RunError(f"{path}: not a client's bundle: a table was expected")
    return found


def validated_header(raw: dict[str, Any], path: Path) -> Header:
    """The header that a file describes."""
    try:
        header = HEADER.validate_python(raw)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RunError(f"{path}: not a client's bundle: {place}: {first['msg']}") from None
    _check_lengths(header, path)
    return header


def _check_lengths(header: Header, path: Path) -> None:
    """Refuse what does not fit the number of models and their outputs."""
    models = len(header.owners)
    for name, values in (("weights", header.weights), ("temperatures", header.temperatures)):
        if values is not None and len(values) != models:
            raise RunError(f"{path}: not a client's bundle: {name}: one for each owner belongs")
    _check_scale(header.standardizer, tuple(header.schema.input_shape), "standardizer", path)
    _check_scale(header.target_scale, (header.schema.outputs,), "target_scale", path)
    if header.offsets is None:
        return
    lengths = [len(offsets) for offsets in header.offsets]
    if lengths != [header.schema.outputs] * models:
        raise RunError(
            f"{path}: not a client's bundle: offsets: one for each owner and output belongs"
        )


def _check_scale(
    fitted: Standardizer | TargetScale | None, shape: tuple[int, ...], name: str, path: Path
) -> None:
    """Refuse a scale of other inputs or targets than the client has."""
    if fitted is None:
        return
    if any(values.shape != shape for values in asdict(fitted).values()):
        raise RunError(
            f"{path}: not a client's bundle: {name}: one number for each input or output belongs"
        )


def header_as_json(header: Header) -> dict[str, Any]:
    """The content of a header file."""
    content: dict[str, Any] = HEADER.dump_python(
        header, mode="json", exclude={"standardizer", "target_scale"}
    )
    content["standardizer"] = _scale_as_json(header.standardizer)
    content["target_scale"] = _scale_as_json(header.target_scale)
    return content


def _scale_as_json(fitted: Standardizer | TargetScale | None) -> dict[str, list[float]] | None:
    """What was done to a client's table or targets, as lists of numbers."""
    if fitted is None:
        return None
    return {name: values.tolist() for name, values in asdict(fitted).items()}
