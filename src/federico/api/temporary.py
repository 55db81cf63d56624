"""A folder for a run that nobody has asked to keep."""

from __future__ import annotations

import shutil
import weakref
from pathlib import Path
from tempfile import mkdtemp
from typing import NoReturn

from federico.errors import RunError


class TemporaryFolder:
    """A folder that is deleted with the last object that needs what lies in it."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="federico-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __reduce__(self) -> NoReturn:
        """Refused: whoever reads the pickle would find no folder."""
        raise RunError(
            f"{self.path}: is deleted with this process, so what refers to it cannot be pickled; "
            "pickle the estimator, or save a personal model with client.save(folder)"
        )
