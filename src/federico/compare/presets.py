"""The paper's tables and figures, and the ablations, as files that come with the package."""

from pathlib import Path

from federico.errors import ConfigError

FOLDER = Path(__file__).parent / "presets"


def names() -> list[str]:
    """What `federico reproduce` knows."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def preset(name: str) -> Path:
    """The file of that name."""
    if name not in names():
        raise ConfigError(
            f"{name}: there is nothing of that name to reproduce; there is {', '.join(names())}"
        )
    return FOLDER / f"{name}.toml"
