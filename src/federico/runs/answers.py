"""Which predictions are answers, and what is said where none are.

A mixture leaves out a model that is not a number for a row. If that is so of all its models, there
is no prediction for the row: neither a label nor a value.
"""

import warnings

import numpy as np

from federico.errors import RunError
from federico.types import BoolArray, FloatArray


def has_answer(outputs: FloatArray) -> BoolArray:
    """For which rows of [rows, outputs] there is a prediction."""
    answered: BoolArray = np.logical_and.reduce(np.isfinite(outputs), axis=1)
    return answered


def refuse_no_answers(unanswered: int, rows: int, client: str) -> None:
    """An error if there is no prediction for any of these rows."""
    if rows and unanswered == rows:
        raise RunError(
            f"the personal model of {client}: none of its models has a finite answer for any of "
            f"the {rows} rows, so there is nothing to predict: check the inputs, or take the model "
            "of another round or run"
        )


def tell_unanswered(outputs: FloatArray, client: str) -> BoolArray:
    """The same as `has_answer`, with a warning for some rows and an error for all of them."""
    answered = has_answer(outputs)
    unanswered = int((~answered).sum())
    refuse_no_answers(unanswered, len(outputs), client)
    if unanswered:
        warnings.warn(
            f"the personal model of {client}: {unanswered} of {len(outputs)} rows have no "
            "prediction, because none of its models has a finite answer for them",
            stacklevel=3,
        )
    return answered
