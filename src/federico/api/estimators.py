"""federico in the manner of scikit-learn: `fit` on everybody's data, `predict` for one client."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted
from torch import nn

from federico.api.results import Run
from federico.api.running import run
from federico.api.temporary import TemporaryFolder
from federico.data.from_python import ClientsData, GivenData, read_clients
from federico.data.tabular import Unknown
from federico.errors import ConfigError, DataError, RunError
from federico.own_code import EVERYTHING
from federico.runs.answers import has_answer
from federico.runs.lock import LOCK
from federico.types import Array, FloatArray, Task

NOT_PICKLED = ("checkpoint", LOCK)
"""What of a run is needed only to resume it."""


class _PersonalModels(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor have in common."""

    def __init__(
        self,
        model: Callable[[], nn.Module] | Mapping[str, Any] | None = None,
        *,
        rounds: int = 30,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        directory: str | Path | None = None,
    ) -> None:
        """`model` makes a new module, or is a table such as {"kind": "mlp", "hidden": [50]}.

        Without one, each client trains a small perceptron. `settings` are further keys of an
        experiment file, such as {"federico": {"neighbors": 2}}.
        The run directory is kept below `directory`, where fitting the same again only loads it, and
        fitting something else is refused; without one it lives as long as the estimator, `run_` or
        a personal model of it.

        A fitted estimator can be pickled: the pickle holds the run and its models as the bytes of
        their files, wherever they are kept.
        """
        self.model = model
        self.rounds = rounds
        self.seed = seed
        self.settings = settings
        self.directory = directory

    def _fit(self, clients: ClientsData, task: Task, **more: Any) -> None:
        temporary = None
        directory = self.directory
        if directory is None:
            temporary = TemporaryFolder()
            directory = temporary.path
        given = dict(self.settings or {})
        _refuse_settings_of_its_own(given)
        settings: dict[str, Any] = {"methods": ["federico"], "name": "fit"}
        settings |= given
        settings |= more
        trained = run(
            clients=clients,
            model=self.model,
            task=task,
            rounds=self.rounds,
            seeds=[self.seed],
            directory=directory,
            **settings,
        )
        self.run_ = Run(
            trained.path,
            self._factory,
            trained=trained.trained,
            trust=EVERYTHING,
            folder=temporary,
        )
        self.clients_ = self.run_.clients

    @property
    def _factory(self) -> Callable[[], nn.Module] | None:
        """What makes new modules, where the model is no table."""
        return None if isinstance(self.model, Mapping) else self.model

    def __getstate__(self) -> dict[str, Any]:
        """Parameters and, where it is fitted, the files of its run instead of their folder."""
        state = dict(super().__getstate__())
        if "run_" in state:
            for name, value in self.get_params().items():
                _refuse_what_has_no_name(name, value)
            fitted = state.pop("run_")
            state["files"] = (fitted.path.name, _files_below(fitted.path))
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Put the files of the run into a new temporary folder."""
        rest = dict(state)
        name, files = rest.pop("files", ("", {}))
        super().__setstate__(rest)
        if not files:
            return
        temporary = TemporaryFolder()
        for place, content in files.items():
            file = temporary.path / name / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        self.run_ = Run(temporary.path / name, self._factory, trust=EVERYTHING, folder=temporary)

    def __deepcopy__(self, memo: object) -> Self:
        """New parameters; what fitting has left is never changed, and is the same."""
        copied: Self = clone(self)
        for name, value in vars(self).items():
            if name.endswith("_"):
                setattr(copied, name, value)
        return copied

    def _outputs(self, x: Any, client: str, unknown: Unknown) -> FloatArray:
        check_is_fitted(self, "run_")
        return self.run_.client(client).probabilities(x, unknown=unknown)


def _refuse_what_has_no_name(parameter: str, value: object) -> None:
    """Refuse a function that a pickle cannot name, and say what can be done about it."""
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{parameter}: cannot be pickled ({error}); define it at the top level of a module, or "
            'give the model as a table such as {"kind": "mlp", "hidden": [50]}'
        ) from error


def _files_below(folder: Path) -> dict[str, bytes]:
    """The content of all files of a run, by their places in it."""
    found = {}
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder)
        if file.is_file() and not set(place.parts) & set(NOT_PICKLED):
            found[place.as_posix()] = file.read_bytes()
    return found


def _refuse_settings_of_its_own(settings: Mapping[str, Any]) -> None:
    """Refuse settings that are parameters of the estimator, and methods that it cannot use."""
    for name in ("rounds", "seed", "model", "directory"):
        if name in settings:
            raise ConfigError(f"settings: {name} is a parameter of the estimator: {name}=...")
    for name in ("clients", "task", "label_names"):
        if name in settings:
            raise ConfigError(
                f"settings: {name} follows from the estimator and what it is fitted to"
            )
    if "partition" in settings:
        raise ConfigError(
            "settings: partition: an estimator is fitted to clients as they are; federico.run can "
            "divide data among clients"
        )
    if "seeds" in settings:
        raise ConfigError("settings: seeds: an estimator is fitted with one seed: seed=...")
    if "federico" not in settings.get("methods", ["federico"]):
        raise ConfigError(
            "settings: methods: an estimator predicts with the models of 'federico'; add it, or "
            "train other methods with federico.run"
        )


def _refuse_what_names_no_class(parts: Sequence[GivenData]) -> None:
    """Refuse labels that are missing, and values that somebody may want to have predicted."""
    for part in parts:
        if part.y.dtype.kind != "f":
            continue
        missing = int(np.isnan(part.y).sum())
        if missing:
            raise DataError(
                f"client '{part.name}': {missing} of its {len(part.y)} labels are missing: "
                "fill or remove those rows"
            )
        between = part.y[part.y != np.floor(part.y)]
        if between.size:
            raise DataError(
                f"client '{part.name}': its labels are values such as {between.flat[0]:g}; "
                "FedericoRegressor predicts values; if they name classes, turn them into texts"
            )


class FedericoClassifier(ClassifierMixin, _PersonalModels):  # type: ignore[misc]
    """Personal classifiers of several clients, each with the right collaborators.

    For example:

        model = FedericoClassifier(rounds=30).fit({"north": (X1, y1), "south": (X2, y2)})
        model.predict(X_new, client="north")
        model.run_.posterior()  # who trusts whose model; `run_` is what `federico.run` gives
    """

    def fit(self, clients: ClientsData, label: str | None = None) -> Self:
        """Train on `{"north": (X, y), ...}`; labels may be numbers, texts or categories.

        A client's data may also be a pandas frame or a Hugging Face data set that has the column
        `label`, or a torch data set of pairs: whatever `federico.run` takes.
        """
        parts = read_clients(clients, label)
        _refuse_what_names_no_class(parts)
        classes = np.unique(np.concatenate([part.y for part in parts]))
        numbered = {part.name: (part.x, np.searchsorted(classes, part.y)) for part in parts}
        names = [str(name) for name in classes]
        self.classes_ = classes
        if parts[0].label_names:
            # The data itself has names for its class numbers, even for those that do not occur.
            names = list(parts[0].label_names)
            numbered = {part.name: (part.x, part.y) for part in parts}
            self.classes_ = np.array(names)
        self._fit(numbered, "classification", label_names=names)
        return self

    def predict(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        client: str,
        *,
        unknown: Unknown = "error",
    ) -> Array:
        """The labels that this client's personal model gives.

        `unknown="missing"` takes a category that was not in the training data for a missing value.
        An error if there is a sample for which none of its models has a finite answer: there is no
        label that means that. `predict_proba` gives NaN for it.
        """
        outputs = self._outputs(X, client, unknown)
        unanswered = int((~has_answer(outputs)).sum())
        if unanswered:
            raise RunError(
                f"client {client}: {unanswered} of {len(outputs)} samples have no prediction, "
                "because none of the models has a finite answer for them; leave out those for "
                "which predict_proba is NaN"
            )
        labels: Array = self.classes_[outputs.argmax(axis=1)]
        return labels

    def predict_proba(
        self,
        X: Any,  # noqa: N803
        client: str,
        *,
        unknown: Unknown = "error",
    ) -> FloatArray:
        """Class probabilities [samples, classes], in the order of `classes_`."""
        return self._outputs(X, client, unknown)

    def score(
        self,
        X: Any,  # noqa: N803
        y: Array,
        client: str,
        *,
        unknown: Unknown = "error",
    ) -> float:
        """Accuracy of this client's personal model."""
        return float(accuracy_score(y, self.predict(X, client, unknown=unknown)))


class FedericoRegressor(RegressorMixin, _PersonalModels):  # type: ignore[misc]
    """Personal regressors of several clients, each with the right collaborators.

    For example:

        model = FedericoRegressor(rounds=30).fit({"north": (X1, y1), "south": (X2, y2)})
        model.score(X_new, y_new, client="north")
    """

    def fit(self, clients: ClientsData, label: str | None = None) -> Self:
        """Train on `{"north": (X, y), ...}`; y is one value for each sample, or several.

        A client's data may also be a pandas frame or a Hugging Face data set that has the column
        `label`, or a torch data set of pairs: whatever `federico.run` takes.
        """
        parts = read_clients(clients, label)
        self._fit({part.name: (part.x, part.y) for part in parts}, "regression")
        first = parts[0].y
        self.n_outputs_ = 1 if first.ndim == 1 else first.shape[1]
        return self

    def predict(
        self,
        X: Any,  # noqa: N803
        client: str,
        *,
        unknown: Unknown = "error",
    ) -> FloatArray:
        """The values that this client's personal model gives: [samples] where y has one each.

        `unknown="missing"` takes a category that was not in the training data for a missing value.
        """
        values = self._outputs(X, client, unknown)
        if self.n_outputs_ == 1:
            return values[:, 0]
        return values

    def score(
        self,
        X: Any,  # noqa: N803
        y: Array,
        client: str,
        *,
        unknown: Unknown = "error",
    ) -> float:
        """R2 of this client's personal model."""
        return float(r2_score(y, self.predict(X, client, unknown=unknown)))
