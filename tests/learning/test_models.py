import random
import sys
from pathlib import Path

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from federico.errors import ConfigError
from federico.learning.layout import ModelLayout
from federico.learning.model_options import (
    CNN2,
    MLP,
    Imported,
    Linear,
    ModelOptions,
    PythonModel,
    ResNet18,
)

pytestmark = pytest.mark.usefixtures("trusted")

OWN_MODEL = """
from torch import nn

class Net(nn.Linear):
    def __init__(self, width=2):
        super().__init__(3, width)

def make():
    return Net()
"""


def count(factory: object) -> int:
    return sum(p.numel() for p in factory().parameters())  # type: ignore[operator]


def test_cnn2_has_the_papers_parameters() -> None:
    assert count(CNN2().factory((3, 32, 32), 10)) == 303_882


def test_the_office_home_perceptron_has_the_papers_parameters() -> None:
    assert count(MLP(hidden=(1000, 200)).factory((512,), 65)) == 726_265


def test_linear_flattens_its_input() -> None:
    model = Linear().factory((2, 3), 4)()
    assert count(lambda: model) == 28
    assert model(torch.zeros(5, 2, 3)).shape == (5, 4)


def test_mlp_without_hidden_layers_is_linear() -> None:
    assert count(MLP(hidden=()).factory((6,), 4)) == 28


def test_cnn2_pools_before_its_relu_three_times() -> None:
    kinds = [type(layer) for layer in CNN2().factory((3, 32, 32), 10)()]
    assert kinds == [nn.Conv2d, nn.MaxPool2d, nn.ReLU] * 3 + [nn.Flatten, nn.Linear]


def test_cnn2_takes_images_of_22_pixels_and_no_smaller() -> None:
    assert CNN2().factory((1, 22, 22), 3)()(torch.zeros(2, 1, 22, 22)).shape == (2, 3)
    with pytest.raises(ConfigError, match="22x22 or larger"):
        CNN2().factory((1, 21, 22), 3)


@pytest.mark.parametrize(
    ("stem", "size", "parameters", "last"),
    [("small", 32, 11_220_132, 4), ("imagenet", 64, 11_227_812, 2)],
)
def test_resnet18_has_the_known_shapes(stem: str, size: int, parameters: int, last: int) -> None:
    model = ResNet18.model_validate({"stem": stem}).factory((3, size, size), 100)().eval()
    assert count(lambda: model) == parameters
    before_pooling = nn.Sequential(*list(model)[:-3])
    with torch.no_grad():
        assert before_pooling(torch.zeros(1, 3, size, size)).shape == (1, 512, last, last)
        assert model(torch.zeros(2, 3, size, size)).shape == (2, 100)


@pytest.mark.parametrize("options", [CNN2(), ResNet18()])
def test_image_models_refuse_what_is_no_image(options: CNN2 | ResNet18) -> None:
    with pytest.raises(ConfigError, match="needs images"):
        options.factory((64,), 10)


def test_the_kind_chooses_the_options() -> None:
    adapter: TypeAdapter[object] = TypeAdapter(ModelOptions)
    assert adapter.validate_python({"kind": "mlp", "hidden": [3]}) == MLP(hidden=(3,))
    with pytest.raises(ValidationError):
        adapter.validate_python({"kind": "mlp", "hiden": [3]})


def test_a_class_of_an_installed_module_is_imported() -> None:
    model = Imported(
        kind="import", path="torch.nn:Linear", arguments={"in_features": 3, "out_features": 2}
    )
    assert isinstance(model.factory((3,), 2)(), nn.Linear)


def test_a_class_of_a_file_is_imported_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(OWN_MODEL)
    model = Imported(kind="import", path=f"{tmp_path / 'net.py'}:Net", arguments={"width": 5})
    assert ModelLayout(model.factory((3,), 5)).parameters == 20


def test_a_file_takes_no_other_modules_place(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text(OWN_MODEL)
    Imported(kind="import", path=f"{tmp_path / 'random.py'}:Net").factory((3,), 2)
    assert sys.modules["random"] is random


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("os:system", "not a class derived from torch.nn.Module"),
        ("subprocess:Popen", "not a class derived from torch.nn.Module"),
        ("torch.nn.init:zeros_", "not a class derived from torch.nn.Module"),
        ("torch.nn:Missing", "cannot be imported"),
        ("no_such_module:Net", "cannot be imported"),
        ("no_such_file.py:Net", "cannot be imported"),
    ],
)
def test_only_module_classes_are_accepted(path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Imported(kind="import", path=path).factory((3,), 2)


def test_a_function_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(OWN_MODEL)
    with pytest.raises(ConfigError, match="not a class"):
        Imported(kind="import", path=f"{tmp_path / 'net.py'}:make").factory((3,), 2)


def test_a_path_without_a_class_is_refused() -> None:
    with pytest.raises(ValidationError):
        Imported(kind="import", path="torch.nn")


def test_wrong_arguments_are_named() -> None:
    model = Imported(kind="import", path="torch.nn:Linear", arguments={"inputs": 3})
    with pytest.raises(ConfigError, match=r"model\.arguments.*inputs"):
        model.factory((3,), 2)


def test_a_model_from_python_has_to_be_passed_again() -> None:
    with pytest.raises(ConfigError, match="pass it"):
        PythonModel(kind="python").factory((3,), 2)
