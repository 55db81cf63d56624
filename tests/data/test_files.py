import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from federico.data.files import data_folder, read_npz
from federico.errors import DataError


def test_data_folder_is_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEDERICO_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("FEDERICO_DATA")
    assert data_folder() == Path("data")


def test_arrays_come_in_the_order_asked(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", one=np.ones(1), two=np.ones(2))
    assert [len(array) for array in read_npz(tmp_path / "a.npz", "two", "one")] == [2, 1]


def test_a_missing_file_names_itself_and_the_variable(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.npz: not found: .*FEDERICO_DATA"):
        read_npz(tmp_path / "gone.npz", "x")


def test_of_very_many_arrays_an_error_lists_some(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{f"a{number}": np.ones(1) for number in range(100)})
    with pytest.raises(DataError, match=r"it holds a0, a1, .*, a19 and 80 more$"):
        read_npz(tmp_path / "a.npz", "x")


def test_a_missing_array_lists_what_is_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", one=np.ones(1), two=np.ones(2))
    with pytest.raises(DataError, match=r"a\.npz: no array named 'x': it holds one, two"):
        read_npz(tmp_path / "a.npz", "x")


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{}], dtype=object))
    with pytest.raises(DataError, match=r"a\.npz: not a readable npz file \(Object arrays"):
        read_npz(tmp_path / "a.npz", "x")


@pytest.mark.parametrize("damage", [b"", b"no zip at all", b"PK\x03\x04 cut off"])
def test_damaged_files_are_named(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(damage)
    with pytest.raises(DataError, match=r"a\.npz: not a readable npz"):
        read_npz(tmp_path / "a.npz", "x")


def test_damaged_contents_are_named(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(1000))
    raw = bytearray((tmp_path / "a.npz").read_bytes())
    raw[100:160] = b"\xff" * 60
    (tmp_path / "a.npz").write_bytes(raw)
    with pytest.raises(DataError, match=r"a\.npz: not a readable npz"):
        read_npz(tmp_path / "a.npz", "x")


def test_a_single_array_is_no_npz(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    with pytest.raises(DataError, match=r"a\.npy: not a readable npz"):
        read_npz(tmp_path / "a.npy", "x")


def test_what_would_fill_the_memory_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "bomb.npz"
    bomb = np.broadcast_to(np.float32(0), (1 << 14, 1 << 11))  # 128 MiB of zeros
    np.savez_compressed(file, x=bomb, y=np.zeros(3))
    with pytest.raises(DataError, match=r"bomb\.npz: x\.npy takes .* unpack to 134,217,856.*savez"):
        read_npz(file, "x")
    (labels,) = read_npz(file, "y")
    assert len(labels) == 3


@pytest.mark.parametrize("shape", [(10**12,), (10**6, 10**6), (-1, 3)])
def test_an_array_that_claims_more_numbers_than_it_has_is_refused(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    file = io.BytesIO()
    npy.write_array_header_1_0(file, header)
    with zipfile.ZipFile(tmp_path / "claim.npz", "w") as archive:
        archive.writestr("x.npy", file.getvalue() + bytes(80))
    with pytest.raises(DataError, match=r"claim\.npz: x\.npy says that it has the shape"):
        read_npz(tmp_path / "claim.npz", "x")
