"""The base of every group of options: frozen, strict about unknown keys, described where it is defined."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

ADDED_LATER: Final = "added later"
"""Mark of an option that runs of the first release did not know: `option: Annotated[float, ADDED_LATER] = 0.0`. As long
as it has its default, runs are named as before and need not be run again."""


class Options(BaseModel):
    """A table of an experiment file. Each field carries its sentence of documentation as `description`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    def as_named(self, dumped: Mapping[str, Any]) -> dict[str, Any]:
        """What is dumped of these options without those that were added later and have their default."""
        own = {name: getattr(self, name, None) for name in dumped}
        left_out = {
            name
            for name, field in type(self).model_fields.items()
            if ADDED_LATER in field.metadata
            and own.get(name) == field.get_default(call_default_factory=True)
        }
        inner = {
            name: value.as_named(dumped[name])
            for name, value in own.items()
            if isinstance(value, Options)
        }
        return {name: value for name, value in {**dumped, **inner}.items() if name not in left_out}
