"""The base of every group of options: frozen, and strict about unknown keys."""

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
