"""federico in the manner of scikit-learn."""

import copy
import gc
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from torch import nn

from federico import FedericoClassifier, FedericoRegressor
from federico.errors import ConfigError, DataError, RunError

RNG = np.random.default_rng(0)
X = {name: RNG.normal(size=(60, 3)) for name in ("north", "south", "west")}
FAST = {"training": {"optimizer": {"kind": "adam", "learning_rate": 0.03}, "batch_size": 10}}


def net() -> nn.Module:
    return nn.Linear(3, 2)


def fitted(**parameters: object) -> FedericoClassifier:
    clients = {name: (x, np.where(x[:, 0] > 0, "ill", "fit")) for name, x in X.items()}
    return FedericoClassifier(rounds=2, settings=FAST, **parameters).fit(clients)


def unpickled(content: bytes) -> FedericoClassifier:
    estimator: FedericoClassifier = pickle.loads(content)  # noqa: S301 (made by the test)
    return estimator


def test_a_classifier_predicts_each_clients_own_labels() -> None:
    clients = {name: (x, np.where(x[:, 0] > 0, "ill", "fit")) for name, x in X.items()}
    model = FedericoClassifier(rounds=10, settings=FAST).fit(clients)
    assert list(model.classes_) == ["fit", "ill"]
    x, y = clients["north"]
    assert model.score(x, y, client="north") > 0.9
    assert model.predict_proba(x, client="north").sum(axis=1) == pytest.approx(1)
    assert set(model.predict(x, client="west")) == {"fit", "ill"}


def test_a_regressor_predicts_values_in_their_own_units() -> None:
    clients = {name: (x, 100 + 10 * x[:, 0]) for name, x in X.items()}
    model = FedericoRegressor(rounds=10, settings=FAST).fit(clients)
    x, y = clients["south"]
    assert model.predict(x, client="south").shape == y.shape
    assert model.score(x, y, client="south") > 0.8


def test_parameters_can_be_read_set_and_cloned() -> None:
    model = FedericoClassifier(rounds=7).set_params(seed=3)
    assert clone(model).get_params() == model.get_params()
    assert clone(model).get_params()["seed"] == 3
    with pytest.raises(NotFittedError):
        model.predict(X["north"], client="north")


def test_frames_with_categories_and_gaps_are_learned_and_predicted(tmp_path: Path) -> None:
    frames = {}
    for name, x in X.items():
        frame = pd.DataFrame(x, columns=["age", "weight", "height"])
        frame["ward"] = pd.Categorical(np.where(x[:, 0] > 0, "red", "blue"))
        frame.loc[::7, "age"] = None
        frames[name] = frame.assign(outcome=np.where(x[:, 0] > 0, "ill", "fit"))
    model = FedericoClassifier(rounds=8, settings=FAST).fit(frames, label="outcome")
    north = frames["north"]
    assert model.score(north, north["outcome"], client="north") > 0.9

    # The column of labels is not looked at, and a plain file is read the same way.
    labels = model.predict(north.drop(columns="outcome"), client="north")
    north.drop(columns="outcome").to_csv(tmp_path / "new.csv", index=False)
    bundle = model.run_.client("north")
    assert list(bundle.predict(bundle.read(tmp_path / "new.csv"))) == list(labels)


def test_there_is_no_label_where_no_model_has_an_answer() -> None:
    clients = {name: (np.zeros((8, 2)), np.arange(8) % 2) for name in ("a", "b")}
    model = FedericoClassifier(rounds=1).fit(clients)
    far = np.array([[0.0, 0.0], [np.finfo(np.float64).max] * 2])
    with pytest.raises(RunError, match="1 of 2 samples have no prediction"):
        model.predict(far, client="a")


@pytest.mark.parametrize("model", [None, net])
def test_a_pickled_estimator_predicts_when_the_original_is_gone(model: object) -> None:
    estimator = fitted(model=model)
    expected = estimator.predict_proba(X["north"], client="north")
    path = estimator.run_.path
    content = pickle.dumps(estimator)
    del estimator
    gc.collect()
    assert not path.exists()

    back = unpickled(content)
    np.testing.assert_array_equal(back.predict_proba(X["north"], client="north"), expected)
    assert set(back.predict(X["west"], client="west")) == {"fit", "ill"}
    assert list(back.run_.posterior().index) == ["north", "south", "west"]
    assert back.get_params()["rounds"] == 2
    again = unpickled(pickle.dumps(back))
    np.testing.assert_array_equal(again.predict_proba(X["north"], client="north"), expected)


def test_a_pickled_estimator_does_not_need_the_directory_it_was_given(tmp_path: Path) -> None:
    estimator = fitted(directory=tmp_path / "first")
    expected = estimator.predict_proba(X["south"], client="south")
    content = pickle.dumps(estimator)
    (tmp_path / "first").rename(tmp_path / "moved")
    back = unpickled(content)
    np.testing.assert_array_equal(back.predict_proba(X["south"], client="south"), expected)


def test_a_run_and_a_personal_model_outlive_their_estimator() -> None:
    bundle = fitted().run_.client("north")
    gc.collect()
    assert len(bundle.predict(X["north"])) == 60
    plot = fitted().run_.plot
    gc.collect()
    plot.posterior()
    with pytest.raises(RunError, match="cannot be pickled; pickle the estimator"):
        pickle.dumps(fitted().run_)


def test_a_model_without_a_name_can_be_copied_but_not_pickled() -> None:
    estimator = fitted(model=lambda: nn.Linear(3, 2))
    with pytest.raises(ConfigError, match=r"model: cannot be pickled .*; define it at the top"):
        pickle.dumps(estimator)
    copied = copy.deepcopy(estimator)
    expected = estimator.predict_proba(X["north"], client="north")
    del estimator
    gc.collect()
    np.testing.assert_array_equal(copied.predict_proba(X["north"], client="north"), expected)
    with pytest.raises(NotFittedError):
        clone(copied).predict(X["north"], client="north")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.where(X["north"][:, 0] > 0, 1.0, np.nan), "of its 60 labels are missing"),
        (pd.array([pd.NA] + [1] * 59, dtype="Int64"), "1 of its 60 labels are missing"),
        (X["north"][:, 0], "FedericoRegressor predicts values"),
    ],
)
def test_a_classifier_refuses_labels_that_name_no_class(labels: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        FedericoClassifier().fit({"north": (X["north"], labels)})


def test_a_regressor_refuses_texts() -> None:
    values = (100 + X["north"][:, 0]).astype(str)
    with pytest.raises(DataError, match=r"texts such as .* as in y.astype\(float\)"):
        FedericoRegressor().fit({"north": (X["north"], values)})


def test_a_column_of_labels_is_one_label_for_each_sample() -> None:
    clients = {}
    for name, x in X.items():
        clients[name] = (x, pd.DataFrame({"outcome": np.where(x[:, 0] > 0, 1, 0)}))
    model = FedericoClassifier(rounds=2, settings=FAST).fit(clients)
    assert model.predict(X["north"], client="north").shape == (60,)


def test_an_unknown_category_may_be_taken_for_a_missing_value() -> None:
    clients = {}
    for name, x in X.items():
        frame = pd.DataFrame(x).assign(ward=np.where(x[:, 0] > 0, "red", "blue"))
        clients[name] = (frame, np.where(x[:, 0] > 0, "ill", "fit"))
    model = FedericoClassifier(rounds=1, settings=FAST).fit(clients)
    new = clients["north"][0].assign(ward="green")
    with pytest.raises(DataError, match="in Python unknown='missing'"):
        model.predict(new, client="north")
    assert len(model.predict(new, client="north", unknown="missing")) == 60
    with pytest.raises(DataError, match="give a pandas frame with the columns 0, 1, 2, ward"):
        model.predict(new.iloc[0], client="north")


def test_scikit_learn_knows_what_they_are() -> None:
    assert is_classifier(FedericoClassifier())
    assert is_regressor(FedericoRegressor())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 3}, "rounds is a parameter of the estimator"),
        ({"task": "regression"}, "task follows from the estimator"),
        ({"partition": {"kind": "iid"}}, "fitted to clients as they are"),
        ({"seeds": [0, 1]}, "fitted with one seed"),
        ({"methods": ["local"]}, "predicts with the models of 'federico'"),
    ],
)
def test_settings_that_an_estimator_cannot_use_are_refused(
    settings: dict[str, object], message: str
) -> None:
    clients = {name: (x, np.where(x[:, 0] > 0, 1, 0)) for name, x in X.items()}
    with pytest.raises(ConfigError, match=message):
        FedericoClassifier(settings=settings).fit(clients)


def test_the_name_of_a_file_is_no_data() -> None:
    with pytest.raises(DataError, match=r"'new.csv' is a name, not data; client.read"):
        fitted().predict("new.csv", client="north")
