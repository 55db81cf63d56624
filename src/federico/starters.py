"""What `federico init` writes: an experiment to start from, with the data it needs."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from federico.config_file import nearest
from federico.errors import ConfigError
from federico.own_code import remember_own
from federico.runs.atomic import disk_errors

EXAMPLES = Path(__file__).parent / "examples"
"""One folder for each starting point; all its files are copied."""
IMAGES_PER_DIGIT = 60
DIGITS_AS_IMAGES = 6
"""The images are those of the digits 0 to 5."""


@dataclass(frozen=True)
class Starter:
    """Something to start from."""

    summary: str
    next_step: str
    """The command to type when its files are there."""


STARTERS = {
    "digits": Starter("eight clients with handwritten digits", "federico run digits.toml"),
    "table": Starter("a table of patients at four hospitals", "federico run patients.toml"),
    "images": Starter("a folder of images", "federico run images.toml"),
    "model": Starter("your own torch.nn.Module", "federico run own-model.toml"),
    "notebook": Starter(
        "two notebooks: a first federation, and hospitals",
        "open first-federation.ipynb where you use notebooks, or: "
        "pip install jupyterlab && jupyter lab first-federation.ipynb",
    ),
    "federation": Starter("three real peers on this machine", "sh start.sh"),
    "sine": Starter("regression: pieces of a noisy sine", "federico run sine.toml"),
    "cifar10": Starter("CIFAR-10 as in the paper", "federico data get cifar10"),
    "cifar100": Starter("CIFAR-100 as in the paper", "federico data get cifar100"),
    "heart": Starter("heart disease at four hospitals (UCI)", "federico doctor heart.toml"),
    "office-home": Starter("Office-Home features", "federico doctor office-home.toml"),
}
"""All starting points, those that need no other data first."""


def write_starter(kind: str, folder: Path) -> list[Path]:
    """Write the files of this starting point; nothing is written if one of them is there."""
    if kind not in STARTERS:
        listed = ", ".join(STARTERS)
        raise ConfigError(
            f"{kind}: there is no such kind{nearest(kind, STARTERS)}; known: {listed}"
        )

    # An installer may have put a folder of compiled Python beside them.
    sources = sorted(path for path in (EXAMPLES / kind).iterdir() if path.is_file())
    written = [folder / source.name for source in sources]
    if kind == "images":
        written.append(folder / "images")
    for target in written:
        if target.exists():
            raise ConfigError(
                f"{target.absolute()}: is there already and is not overwritten; "
                "choose another --directory, or move it away"
            )

    with disk_errors(folder.absolute()):
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources:
            shutil.copyfile(source, folder / source.name)
            if source.suffix == ".py":  # whoever asks for it wants to run it
                remember_own(folder / source.name)
        if kind == "images":
            _write_images(folder / "images")
    return written


def _write_images(folder: Path) -> None:
    """Real handwritten digits, as PNG files in one folder per label."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    for label in range(DIGITS_AS_IMAGES):
        (folder / str(label)).mkdir(parents=True)
        images = digits.images[digits.target == label][:IMAGES_PER_DIGIT]
        for number, image in enumerate(images):
            pixels = (image * 255 / 16).astype(np.uint8)
            Image.fromarray(pixels).save(folder / str(label) / f"{number:02d}.png")
