"""Weights that models start from, from a safetensors file: nothing in it can be executed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from federico.errors import ConfigError

MOST_LISTED = 5
"""Names of tensors that a sentence lists."""


def read_pretrained(file: Path | None) -> dict[str, Tensor]:
    """The tensors of the file that `training.pretrained` names; none if it names no file."""
    if file is None:
        return {}
    try:
        return load_file(file)
    except FileNotFoundError:
        raise ConfigError(f"training.pretrained: there is no file {file.absolute()}") from None
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"training.pretrained: {file} cannot be read as a safetensors file: {error}; write one "
            "with safetensors.torch.save_file(model.state_dict(), path)"
        ) from None


def refuse_strange_start(start: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> None:
    """Refuse tensors that the model, given by its state dict, does not have in this shape."""
    unknown = [name for name in start if name not in model]
    if unknown:
        raise ConfigError(
            f"training.pretrained: the model has no {_listed(unknown)}; it has {_listed([*model])}"
        )
    for name, tensor in start.items():
        if tensor.shape != model[name].shape:
            raise ConfigError(
                f"training.pretrained: {name} has the shape {tuple(tensor.shape)} in the file and "
                f"{tuple(model[name].shape)} in the model; take it out of the file to start at "
                "random"
            )


def start_hints(start: Mapping[str, Tensor], names: Sequence[str]) -> list[str]:
    """What a person should know of a start, given the names of the model's tensors."""
    missing = [name for name in names if name not in start]
    if not start or not missing:
        return []
    return [f"training.pretrained: the file has no {_listed(missing)}, which start at random"]


def _listed(names: list[str]) -> str:
    """The first few names."""
    shown = ", ".join(names[:MOST_LISTED])
    if len(names) > MOST_LISTED:
        shown += f" and {len(names) - MOST_LISTED} more"
    return shown
