from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from federico.data.sources import Cifar10, Cifar100
from federico.errors import DataError


def record(*labels: int, red: int = 0) -> bytes:
    return bytes(labels) + bytes([red]) + bytes(3071)


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    """A small copy of two classes whose files were not written in order."""
    place = tmp_path / "cifar-10-batches-bin"
    place.mkdir()
    (place / "batches.meta.txt").write_text("cat\ndog\n\n")
    (place / "data_batch_2.bin").write_bytes(record(1, red=30))
    (place / "data_batch_1.bin").write_bytes(record(0, red=10) + record(1, red=20))
    (place / "test_batch.bin").write_bytes(record(0))
    return place


def test_training_batches_are_read_in_order(ten: Path) -> None:
    dataset = Cifar10().load(ten.parent, 0)
    assert (dataset.samples.x.dtype, dataset.samples.x.shape) == (np.uint8, (3, 3, 32, 32))
    assert dataset.samples.x[:, 0, 0, 0].tolist() == [10, 20, 30]
    assert dataset.labels.tolist() == [0, 1, 1]
    assert dataset.schema.label_names == ("cat", "dog")


def test_fine_labels_are_taken(tmp_path: Path) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    (place / "fine_label_names.txt").write_text("apple\nbear\nbee\n")
    (place / "train.bin").write_bytes(record(9, 2, red=10) + record(9, 1, red=20))
    dataset = Cifar100(path=place).load(tmp_path, 0)
    assert dataset.labels.tolist() == [2, 1]
    assert dataset.samples.x[:, 0, 0, 0].tolist() == [10, 20]


@pytest.mark.parametrize(("source", "name"), [(Cifar10(), "cifar10"), (Cifar100(), "cifar100")])
def test_a_missing_folder_tells_how_to_get_it(
    source: Cifar10 | Cifar100, name: str, tmp_path: Path
) -> None:
    with pytest.raises(
        DataError, match=f"not found: run `federico data get {name}`, or set FEDERICO_DATA"
    ):
        source.load(tmp_path, 0)


def test_a_cut_off_file_is_named(ten: Path) -> None:
    (ten / "data_batch_2.bin").write_bytes(record(1)[:-1])
    with pytest.raises(
        DataError, match=r"data_batch_2\.bin: 3072 bytes are not a multiple of 3073"
    ):
        Cifar10().load(ten.parent, 0)


def test_a_strange_label_is_named(ten: Path) -> None:
    (ten / "data_batch_2.bin").write_bytes(record(2))
    with pytest.raises(DataError, match=r"data_batch_2\.bin: label 2 where 2 are named"):
        Cifar10().load(ten.parent, 0)


def test_a_folder_without_batches_is_refused(ten: Path) -> None:
    for file in ten.glob("data_batch_*.bin"):
        file.unlink()
    with pytest.raises(DataError, match="cifar-10-batches-bin: holds no training images"):
        Cifar10().load(ten.parent, 0)


def test_empty_batches_are_refused(ten: Path) -> None:
    for file in ten.glob("data_batch_*.bin"):
        file.write_bytes(b"")
    with pytest.raises(DataError, match="holds no samples"):
        Cifar10().load(ten.parent, 0)


def test_missing_label_names_are_named(ten: Path) -> None:
    (ten / "batches.meta.txt").unlink()
    with pytest.raises(DataError, match=r"batches\.meta\.txt: not found"):
        Cifar10().load(ten.parent, 0)


@pytest.mark.parametrize(("source", "classes"), [(Cifar10(), 10), (Cifar100(), 100)])
def test_the_real_copy(
    source: Cifar10 | Cifar100, classes: int, real_data: Callable[[str], Path]
) -> None:
    dataset = source.load(real_data(str(source.path)), 0)
    assert dataset.samples.x.shape[1:] == (3, 32, 32)
    assert len(dataset.schema.label_names) == classes
    assert len(set(np.bincount(dataset.labels, minlength=classes))) == 1
    assert 100 < dataset.samples.x[:1000].mean() < 140
