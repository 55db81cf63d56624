from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from federico.data.sources import OfficeHome
from federico.errors import DataError


def write(path: Path, domain: list[int]) -> OfficeHome:
    np.savez(
        path,
        x=np.ones((3, 4), dtype=np.float16),
        y=np.array([0, 1, 1], dtype=np.uint8),
        domain=np.array(domain, dtype=np.uint8),
        class_names=np.array(["bed", "clock"]),
        domain_names=np.array(["Art", "Product"]),
    )
    return OfficeHome(path=path)


def test_domains_are_owners(tmp_path: Path) -> None:
    dataset = write(tmp_path / "a.npz", [0, 1, 0]).load(tmp_path, 0)
    assert dataset.owners is not None
    assert dataset.owners.tolist() == ["Art", "Product", "Art"]
    assert (dataset.samples.x.dtype, dataset.labels.tolist()) == (np.float32, [0, 1, 1])
    assert dataset.schema.label_names == ("bed", "clock")


def test_a_domain_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.npz: domain 2 where 2 are named"):
        write(tmp_path / "a.npz", [0, 1, 2]).load(tmp_path, 0)


def test_the_real_features_need_no_scaling(real_data: Callable[[str], Path]) -> None:
    dataset = OfficeHome().load(real_data(str(OfficeHome().path)), 0)
    assert (dataset.samples.x.shape, dataset.schema.outputs) == ((15588, 512), 65)
    assert dataset.samples.x.std() == pytest.approx(1, abs=0.01)
    assert dataset.owners is not None
    assert len(set(dataset.owners)) == 4


def test_a_negative_domain_is_refused(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz",
        x=np.ones((2, 4)),
        y=np.array([0, 1]),
        domain=np.array([0, -1]),
        class_names=np.array(["bed", "clock"]),
        domain_names=np.array(["Art", "Product"]),
    )
    with pytest.raises(DataError, match=r"a\.npz: domain -1 where 2 are named"):
        OfficeHome(path=tmp_path / "a.npz").load(tmp_path, 0)
