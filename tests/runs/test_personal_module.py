import numpy as np
import pytest
import torch
from torch import nn

from federico.data.dataset import Schema, TableColumn
from federico.data.standardizer import Standardizer
from federico.learning.layout import ModelLayout
from federico.runs.personal_module import PersonalModel, TableInputs, models_of
from federico.types import FloatArray, Task

WEIGHTS = np.array([0.2, 0.8])
X = torch.from_numpy(np.random.default_rng(0).standard_normal((7, 3)))
NAN = float("nan")


@pytest.fixture
def layout() -> ModelLayout:
    return ModelLayout(lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.9)), torch.float64)


def personal(layout: ModelLayout, task: Task) -> PersonalModel:
    rows = [10 * layout.initial(0, name) for name in "ab"]
    return PersonalModel(models_of(layout, rows), WEIGHTS, Schema(task, (3,), 4)).eval()


def outputs(layout: ModelLayout) -> list[FloatArray]:
    rows = [10 * layout.initial(0, name) for name in "ab"]
    return [X.numpy() @ row[:12].view(4, 3).numpy().T + row[12:].numpy() for row in rows]


def softmax(logits: FloatArray) -> FloatArray:
    scores: FloatArray = np.exp(logits)
    return scores / scores.sum(1, keepdims=True)


def test_probabilities_are_mixed_and_not_logits(layout: ModelLayout) -> None:
    a, b = outputs(layout)
    predicted = personal(layout, "classification")(X).detach().numpy()
    np.testing.assert_allclose(predicted, 0.2 * softmax(a) + 0.8 * softmax(b), atol=1e-12)
    assert not np.allclose(predicted, softmax(0.2 * a + 0.8 * b), atol=1e-3)
    np.testing.assert_allclose(predicted.sum(1), 1)


def test_values_are_mixed_for_regression(layout: ModelLayout) -> None:
    a, b = outputs(layout)
    predicted = personal(layout, "regression")(X).detach().numpy()
    np.testing.assert_allclose(predicted, 0.2 * a + 0.8 * b, atol=1e-12)


def test_bytes_are_scaled_as_in_training() -> None:
    layout = ModelLayout(lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 1)), torch.float64)
    row = torch.tensor([1.0, 0, 0, 0, 0]).double()
    schema = Schema("regression", (1, 2, 2), 1)
    mixed = PersonalModel(models_of(layout, [row]), np.ones(1), schema)
    pixels = torch.tensor([[[[0, 9], [9, 9]]], [[[255, 9], [9, 9]]]], dtype=torch.uint8)
    assert mixed(pixels).tolist() == [[-2.0], [2.0]]


def test_every_number_is_the_modules_own_and_is_saved_once(layout: ModelLayout) -> None:
    state = personal(layout, "classification").state_dict()
    storages = {tensor.untyped_storage().data_ptr() for tensor in state.values()}
    assert len(storages) == len(state)
    other = personal(layout, "classification")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(state)
    torch.testing.assert_close(other(X), personal(layout, "classification")(X))


def test_it_works_in_single_precision_where_that_is_asked_for(layout: ModelLayout) -> None:
    single = personal(layout, "classification").float()
    predicted = single(X.float())
    assert predicted.dtype == torch.float32
    double = personal(layout, "classification")(X)
    torch.testing.assert_close(predicted.double(), double, atol=1e-5, rtol=0)


def test_the_numbers_of_a_table_become_inputs_without_gaps() -> None:
    columns = (TableColumn("age"), TableColumn("kind", ("a", "b", "c")))
    fitted = Standardizer(
        median=np.array([50.0, 0.0, 1.0, 0.0]),
        mean=np.array([40.0, 0.5, 0.0, 0.0]),
        scale=np.array([10.0, 0.5, 1.0, 2.0]),
    )
    rows = torch.tensor([[60.0, 0], [NAN, 2], [40, NAN], [40, -1], [40, 7], [40, 0.5]])
    missing_kind = [0.0, -1.0, 1.0, 0.0]
    assert TableInputs(columns, fitted)(rows).tolist() == [
        [2.0, 1.0, 0.0, 0.0],
        [1.0, -1.0, 0.0, 0.5],
        missing_kind,
        missing_kind,
        missing_kind,
        missing_kind,
    ]


def test_shares_are_those_of_the_predicted_class(layout: ModelLayout) -> None:
    a, b = (softmax(logits) for logits in outputs(layout))
    mixed = 0.2 * a + 0.8 * b
    every = np.arange(len(mixed))
    best = mixed.argmax(1)
    shares = personal(layout, "classification").decided_by(X).detach().numpy()[:, :, 0]
    np.testing.assert_allclose(shares[:, 0], 0.2 * a[every, best] / mixed[every, best])
    np.testing.assert_allclose(shares.sum(1), 1)


def test_a_model_without_a_finite_answer_decides_nothing(layout: ModelLayout) -> None:
    whole, broken = layout.initial(0, "a"), layout.initial(0, "b") * NAN
    schema = Schema("classification", (3,), 4)
    module = PersonalModel(models_of(layout, [whole, broken]), WEIGHTS, schema).eval()
    assert module.decided_by(X)[:, :, 0].tolist() == [[1.0, 0.0]] * len(X)
