"""Which samples are for testing, where the data itself says so."""

import numpy as np

from federico.errors import DataError
from federico.types import Array, BoolArray

FOR_TESTING = ("test", "1", "true", "yes")
FOR_TRAINING = ("train", "0", "false", "no")


def marked_for_testing(texts: Array, origin: object, name: str) -> BoolArray:
    """Whether each of these texts marks a sample to test on.

    Errors name the `origin`, and the array or column by its `name`.
    """
    known = dict.fromkeys(FOR_TESTING, True) | dict.fromkeys(FOR_TRAINING, False)
    marks: list[bool] = []
    for text in texts.tolist():
        mark = known.get(str(text).lower())
        if mark is None:
            raise DataError(
                f"{origin}: '{name}' holds '{text}': "
                f"mark samples to test on with {FOR_TESTING[0]} or {FOR_TESTING[1]}, "
                f"the others with {FOR_TRAINING[0]} or {FOR_TRAINING[1]}"
            )
        marks.append(mark)
    return np.array(marks, dtype=np.bool_)
