"""federico in the manner of scikit-learn: `fit` on everybody's data, `predict` for one client."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted
from torch import nn

from federico.api.running import run
from federico.errors import DataError
from federico.types import Array, FloatArray, Task


class _PersonalModels(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor have in common."""

    def __init__(
        self,
        model: Callable[[], nn.Module] | None = None,
        *,
        rounds: int = 30,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        directory: str | Path | None = None,
    ) -> None:
        """`model` makes a new module; without one, each client trains a small perceptron.

        `settings` are further keys of an experiment file, such as {"federico": {"neighbors": 2}}.
        The run directory is kept below `directory`, where fitting the same again only loads it, and
        fitting something else is refused; without one it is deleted with the estimator.
        """
        self.model = model
        self.rounds = rounds
        self.seed = seed
        self.settings = settings
        self.directory = directory

    def _fit(self, clients: Mapping[str, tuple[Array, Array]], task: Task, **more: Any) -> None:
        directory = self.directory
        if directory is None:
            directory = mkdtemp(prefix="federico-")
            weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        settings: dict[str, Any] = {"methods": ["federico"], "name": "fit"}
        settings |= self.settings or {}
        settings |= more
        self.run_ = run(
            clients=clients,
            model=self.model,
            task=task,
            rounds=self.rounds,
            seeds=[self.seed],
            directory=directory,
            **settings,
        )
        self.clients_ = self.run_.clients

    def _outputs(self, x: Array, client: str) -> FloatArray:
        check_is_fitted(self, "run_")
        return self.run_.client(client).probabilities(np.asarray(x))


class FedericoClassifier(_PersonalModels):
    """Personal classifiers of several clients, each with the right collaborators."""

    def fit(self, clients: Mapping[str, tuple[Array, Array]]) -> Self:
        """Train on `{"north": (X, y), ...}`; labels may be numbers or texts."""
        if not clients:
            raise DataError("clients: there are none; give a dictionary of name -> (X, y)")
        labels = {name: np.asarray(y) for name, (_, y) in clients.items()}
        classes = np.unique(np.concatenate(list(labels.values())))
        numbered = {}
        for name, (x, _) in clients.items():
            numbered[name] = np.asarray(x), np.searchsorted(classes, labels[name])
        self._fit(numbered, "classification", label_names=[str(name) for name in classes])
        self.classes_ = classes
        return self

    def predict(self, X: Array, client: str) -> Array:  # noqa: N803 (scikit-learn's name)
        """The labels that this client's personal model gives."""
        best = self._outputs(X, client).argmax(axis=1)
        labels: Array = self.classes_[best]
        return labels

    def predict_proba(self, X: Array, client: str) -> FloatArray:  # noqa: N803
        """Class probabilities [samples, classes], in the order of `classes_`."""
        return self._outputs(X, client)

    def score(self, X: Array, y: Array, client: str) -> float:  # noqa: N803
        """Accuracy of this client's personal model."""
        return float(accuracy_score(y, self.predict(X, client)))


class FedericoRegressor(_PersonalModels):
    """Personal regressors of several clients, each with the right collaborators."""

    def fit(self, clients: Mapping[str, tuple[Array, Array]]) -> Self:
        """Train on `{"north": (X, y), ...}`; y is one value for each sample, or several."""
        values = {}
        for name, (x, y) in clients.items():
            values[name] = np.asarray(x), np.asarray(y, dtype=np.float64)
        self._fit(values, "regression")
        self.n_outputs_ = 1
        for _, y in values.values():
            self.n_outputs_ = 1 if y.ndim == 1 else y.shape[1]
        return self

    def predict(self, X: Array, client: str) -> FloatArray:  # noqa: N803
        """The values that this client's personal model gives: [samples] where y has one each."""
        values = self._outputs(X, client)
        if self.n_outputs_ == 1:
            return values[:, 0]
        return values

    def score(self, X: Array, y: Array, client: str) -> float:  # noqa: N803
        """R2 of this client's personal model."""
        return float(r2_score(y, self.predict(X, client)))
