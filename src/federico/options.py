"""The base of every group of options: frozen, and strict about unknown keys."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


class Options(BaseModel):
    """A table of a configuration file.

    The sentence under each field documents that option: it becomes the field's `description`, from
    which help texts and the reference page are written.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    implied_before: ClassVar[Mapping[str, Any]] = {}
    """Of options that were added when there were results already: the value that these were made
    with. At this value an option is not part of what results are told apart by."""
