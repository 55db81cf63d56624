"""The paper's tables and figures, and the ablations, as experiment files of the package."""

from pathlib import Path

from federico.errors import ConfigError

FOLDER = Path(__file__).parent / "presets"


def names() -> list[str]:
    """The names that `federico reproduce` knows."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def preset(name: str) -> Path:
    """The experiment file of that name."""
    known = names()
    if name not in known:
        listed = ", ".join(known)
        raise ConfigError(f"{name}: there is nothing of that name to reproduce; there is {listed}")
    return FOLDER / f"{name}.toml"
