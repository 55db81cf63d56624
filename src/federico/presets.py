"""The experiment files that come with the package: studies, and the paper's tables and figures."""

from pathlib import Path

from federico.errors import ConfigError

STUDIES = Path(__file__).parent / "studies"
"""Experiments on data that comes in clients of its own, or is divided in a way that is common."""
PAPER = Path(__file__).parent / "paper" / "presets"
"""The paper's tables and figures, and the ablations."""


def study_names() -> list[str]:
    """The names of the studies."""
    return _stems(STUDIES)


def paper_names() -> list[str]:
    """The names of the paper's tables and figures, and of the ablations."""
    return _stems(PAPER)


def names() -> list[str]:
    """The names that `federico reproduce` knows: studies first, then the paper."""
    return study_names() + paper_names()


def preset(name: str) -> Path:
    """The experiment file of that name."""
    if name in study_names():
        return STUDIES / f"{name}.toml"
    if name in paper_names():
        return PAPER / f"{name}.toml"
    listed = ", ".join(names())
    raise ConfigError(f"{name}: there is nothing of that name to reproduce; there is {listed}")


def _stems(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.toml"))
