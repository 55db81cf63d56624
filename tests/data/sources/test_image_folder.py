from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from federico.data.sources import ImageFolder
from federico.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One red PNG dog, one grey JPEG cat, and a file that is no image."""
    for name in ("dog", "cat"):
        (tmp_path / name).mkdir()
    Image.new("RGB", (20, 10), (255, 0, 0)).save(tmp_path / "dog" / "a.png")
    Image.new("L", (5, 5), 100).save(tmp_path / "cat" / "b.JPG")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    return tmp_path


def test_images_are_resized_and_labelled_by_folder(folder: Path) -> None:
    dataset = ImageFolder(path=folder, size=8).load(folder, 0)
    assert (dataset.samples.x.shape, dataset.samples.x.dtype) == ((2, 3, 8, 8), np.uint8)
    assert dataset.schema.label_names == ("cat", "dog")
    assert dataset.labels.tolist() == [0, 1]
    assert dataset.samples.x[1].max(axis=(1, 2)).tolist() == [255, 0, 0]


def test_a_broken_image_is_named(folder: Path) -> None:
    whole = (folder / "dog" / "a.png").read_bytes()
    (folder / "dog" / "b.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"b\.png: not a readable image"):
        ImageFolder(path=folder).load(folder, 0)


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no PNG or JPEG images found"):
        ImageFolder(path=tmp_path).load(tmp_path, 0)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="pets: not found"):
        ImageFolder(path=Path("pets")).load(tmp_path, 0)


def test_hidden_folders_are_no_labels(tmp_path: Path) -> None:
    for label in ("cat", ".checkpoints"):
        (tmp_path / label).mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / label / "a.png")
    dataset = ImageFolder(path=tmp_path, size=4).load(tmp_path, 0)
    assert dataset.schema.label_names == ("cat",)
    assert len(dataset) == 1
