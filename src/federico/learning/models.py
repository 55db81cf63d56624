"""The models an experiment can name, and how to bring one's own."""

from collections.abc import Callable
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from federico.errors import ConfigError
from federico.options import Options
from federico.own_code import absolute_reference, import_object

Shape = tuple[int, ...]
Factory = Callable[[], nn.Module]


class Linear(Options):
    """One linear layer on the flattened input."""

    kind: Literal["linear"] = "linear"

    def factory(self, inputs: Shape, outputs: int) -> Factory:
        """Makes new models for data of this shape."""
        return lambda: nn.Sequential(nn.Flatten(), nn.Linear(prod(inputs), outputs))


class MLP(Options):
    """A multi-layer perceptron with ReLU on the flattened input."""

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[PositiveInt, ...] = (64,)
    """Widths of the hidden layers, first to last."""

    def factory(self, inputs: Shape, outputs: int) -> Factory:
        """Makes new models for data of this shape."""
        return lambda: perceptron((prod(inputs), *self.hidden, outputs))


class CNN2(Options):
    """The paper's CIFAR-10 network.

    Three unpadded 3x3 convolutions of 128 channels and one linear layer.
    """

    kind: Literal["cnn2"] = "cnn2"

    def factory(self, inputs: Shape, outputs: int) -> Factory:
        """Makes new models for images of this shape."""
        channels, height, width = _image("cnn2", inputs)
        for _ in range(3):  # an unpadded 3x3 convolution, then pooling
            height = (height - 2) // 2
            width = (width - 2) // 2
        if min(height, width) < 1:
            raise ConfigError(
                f"model: cnn2 needs images of 22x22 or larger, the data has {inputs[1]}x{inputs[2]}"
            )
        features = 128 * height * width
        return lambda: _cnn2(channels, features, outputs)


class ResNet18(Options):
    """ResNet-18, not pretrained."""

    kind: Literal["resnet18"] = "resnet18"
    stem: Literal["imagenet", "small"] = "small"
    """`small`: a 3x3 stem without pooling for 32x32 images; `imagenet`: the 7x7 stem of the
    original."""

    def factory(self, inputs: Shape, outputs: int) -> Factory:
        """Makes new models for images of this shape."""
        channels, _, _ = _image("resnet18", inputs)
        return lambda: _resnet18(channels, outputs, self.stem)


class Imported(Options):
    """Your own torch.nn.Module class."""

    kind: Literal["import"]
    path: str = Field(pattern=r"^[^:]+:\w+$")
    """Where the class is: `package.module:Class`, or `file.py:Class` relative to the folder of the
    file that says so."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments for the class."""

    def factory(self, inputs: Shape, outputs: int) -> Factory:
        """Makes new models by calling the class."""
        cls = _import_class(self.path)
        try:
            cls(**self.arguments)
        except Exception as error:
            raise ConfigError(
                f"model.arguments: {self.path} cannot be made from them: {error}"
            ) from error
        return lambda: cls(**self.arguments)


class PythonModel(Options):
    """A model given to `federico.run` as a Python function; only Python can bring it back."""

    kind: Literal["python"]

    def factory(self, inputs: Shape, outputs: int) -> Factory:
        """Always refused: the function itself has to be passed along."""
        raise ConfigError(
            "model: it was made in Python and is not stored; pass it: federico.load(run, model=...)"
        )


ModelOptions = Annotated[
    Linear | MLP | CNN2 | ResNet18 | Imported | PythonModel, Field(discriminator="kind")
]


def beside(model: ModelOptions, folder: Path) -> ModelOptions:
    """The same model; if its class is in a file, that is looked for in this folder."""
    if not isinstance(model, Imported):
        return model
    return model.model_copy(update={"path": absolute_reference(model.path, folder)})


def perceptron(widths: tuple[int, ...]) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them."""
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in pairwise(widths):
        layers.append(nn.Linear(fan_in, fan_out))
        layers.append(nn.ReLU())

    layers.pop()  # no ReLU after the last layer
    return nn.Sequential(*layers)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch norm and a shortcut."""

    def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(fan_out)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(fan_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or fan_in != fan_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(fan_in, fan_out, 1, stride, bias=False), nn.BatchNorm2d(fan_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        """He et al. 2016, figure 2."""
        out = self.bn1(self.conv1(x))
        out = functional.relu(out, inplace=True)
        out = self.bn2(self.conv2(out))
        out = out + self.shortcut(x)
        return functional.relu(out, inplace=True)


def _cnn2(channels: int, features: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for fan_in in (channels, 128, 128):
        layers.append(nn.Conv2d(fan_in, 128, 3))
        layers.append(nn.MaxPool2d(2))
        layers.append(nn.ReLU())

    layers.append(nn.Flatten())
    layers.append(nn.Linear(features, outputs))
    return nn.Sequential(*layers)


def _resnet18(channels: int, outputs: int, stem: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    if stem == "small":
        layers.append(nn.Conv2d(channels, 64, 3, 1, 1, bias=False))
    else:
        layers.append(nn.Conv2d(channels, 64, 7, 2, 3, bias=False))
    layers.append(nn.BatchNorm2d(64))
    layers.append(nn.ReLU(inplace=True))
    if stem == "imagenet":
        layers.append(nn.MaxPool2d(3, 2, 1))

    for fan_in, fan_out, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers.append(BasicBlock(fan_in, fan_out, stride))
        layers.append(BasicBlock(fan_out, fan_out, 1))

    layers.append(nn.AdaptiveAvgPool2d(1))
    layers.append(nn.Flatten())
    layers.append(nn.Linear(512, outputs))
    return nn.Sequential(*layers)


def _image(model: str, inputs: Shape) -> tuple[int, int, int]:
    if len(inputs) != 3:
        raise ConfigError(
            f"model: {model} needs images (channels, height, width), "
            f"the data has inputs of shape {inputs}"
        )
    return inputs[0], inputs[1], inputs[2]


def _import_class(path: str) -> type[nn.Module]:
    found = import_object(path, "model.path")
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ConfigError(f"model.path: {path!r} is not a class derived from torch.nn.Module")
    return found
