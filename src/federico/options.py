"""The base of every group of options: frozen, strict about unknown keys, described where it is defined."""

from pydantic import BaseModel, ConfigDict


class Options(BaseModel):
    """A table of an experiment file. Each field carries its sentence of documentation as `description`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
