"""Fed-Heart-Disease of the FLamby benchmark, with its fixed split."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from federico.data.dataset import Dataset
from federico.data.sources.base import SourceOptions
from federico.data.sources.table import Table
from federico.data.tabular import TableOrigin
from federico.errors import DataError
from federico.types import BoolArray, IntArray

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
ATTRIBUTES = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak",
    "slope", "ca", "thal", "num",
)  # fmt: skip
MOSTLY_MISSING = ("slope", "ca", "thal")
"""Attributes that FLamby leaves out, because hospitals other than Cleveland hardly have them."""
TRAIN_FRACTION = 0.66
SPLIT_SEED = 43
LEAST_OF_A_CLASS = 3
"""FLamby keeps the shares of the classes in both parts where each class has as many patients."""


class FedHeartDisease(SourceOptions):
    """Fed-Heart-Disease: 740 patients of four hospitals, cut and split as in FLamby."""

    kind: Literal["fed-heart-disease"] = "fed-heart-disease"
    """The four hospitals of UCI Heart Disease, cut as in the FLamby benchmark."""
    path: Path = Path("heart-disease")
    """Folder of the files processed.cleveland.data, processed.hungarian.data,
    processed.switzerland.data and processed.va.data."""
    fixed_split: bool = True
    """Whether to test on the patients that FLamby tests on; else `[split]` divides each hospital's
    patients at random."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """The patients without a gap in ten attributes, each owned by the hospital."""
        dataset = self._table().load(folder, seed)
        if not self.fixed_split:
            return dataset
        return replace(dataset, is_test=_test_rows(dataset, folder / self.path))

    def table_origin(self) -> TableOrigin:
        """See `SourceOptions`."""
        return self._table().table_origin()

    def _table(self) -> Table:
        """The four hospitals as tables, with what FLamby leaves out left out."""
        files = {name: self.path / f"processed.{name}.data" for name in HOSPITALS}
        return Table(
            path=files,
            names=ATTRIBUTES,
            label="num",
            label_above=0,
            categorical=("cp", "restecg"),
            ignore=MOSTLY_MISSING,
            incomplete="drop",
        )


def _test_rows(dataset: Dataset, origin: Path) -> BoolArray:
    """FLamby's split, hospital by hospital, in the order of the files."""
    if dataset.owners is None:
        raise DataError(f"{origin}: the patients have no hospital")
    is_test = np.zeros(len(dataset), dtype=np.bool_)
    for hospital in HOSPITALS:
        patients = np.flatnonzero(dataset.owners == hospital)
        if len(patients) < 2:
            raise DataError(f"{origin}: {hospital} has too few patients: copy the files again")
        is_test[patients[_test_positions(dataset.labels[patients])]] = True
    return is_test


def _test_positions(labels: IntArray) -> IntArray:
    """The positions of one hospital's patients to test on, drawn with scikit-learn as FLamby does.

    Switzerland has a single healthy patient among the complete rows, so it is not stratified.
    """
    from sklearn.model_selection import train_test_split

    _, counts = np.unique(labels, return_counts=True)
    stratified = len(counts) > 1 and counts.min() >= LEAST_OF_A_CLASS
    _, test = train_test_split(
        np.arange(len(labels)),
        train_size=TRAIN_FRACTION,
        test_size=1 - TRAIN_FRACTION,
        random_state=SPLIT_SEED,
        stratify=labels if stratified else None,
    )
    positions: IntArray = test
    return positions
