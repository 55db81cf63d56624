"""Small experiment files, and finished runs to look at."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from federico.cli.main import main

TINY = """
methods = ["federico", "local"]
rounds = 2
split = { samples = 200 }
partition = { kind = "label-groups", clients = 4, groups = 2 }
model = { kind = "mlp", hidden = [6] }
federico = { neighbors = 2 }
system = { threads = 1 }
"""

HOSPITALS = """
methods = ["federico", "local"]
rounds = 2
data = { kind = "table", path = "people.csv", label = "sick", client = "site" }
partition = { kind = "natural" }
model = { kind = "linear" }
federico = { neighbors = 1 }
system = { threads = 1 }
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """An experiment on the digits that is over in a moment."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def run_inside(folder: Path, file: str) -> Path:
    """The run directory of an experiment, for fixtures that outlive a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("FEDERICO_DATA", str(folder))
        patch.setattr(sys, "argv", ["federico", "run", file, "-q"])
        with pytest.raises(SystemExit) as leaving:
            main()
    assert not leaving.value.code
    return folder / "runs" / Path(file).stem


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the digits; a test that writes into it takes `run` instead."""
    folder = tmp_path_factory.mktemp("digits")
    (folder / "tiny.toml").write_text(TINY)
    return run_inside(folder, "tiny.toml")


@pytest.fixture
def run(digits_run: Path, tmp_path: Path) -> Path:
    """A copy of the finished run that a test may change."""
    return shutil.copytree(digits_run, tmp_path / "runs" / "tiny")


@pytest.fixture(scope="session")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a table of two hospitals with telling names.

    The table lies beside `runs`.
    """
    folder = tmp_path_factory.mktemp("hospitals")
    rng = np.random.default_rng(0)
    rows = [
        f"{site},{age:.1f},{pressure:.1f},{'yes' if age > 50 else 'no'}"
        for site in ("St. Mary/East <b>", "[/b] West", "North")
        for age, pressure in rng.normal((50, 120), 10, size=(20, 2))
    ]
    (folder / "people.csv").write_text("\n".join(["site,age,pressure,sick", *rows]) + "\n")
    (folder / "wards.toml").write_text(HOSPITALS)
    return run_inside(folder, "wards.toml")
