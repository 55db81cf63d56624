"""The modules of the built-in models, and how a class of one's own is imported."""

from collections.abc import Callable
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional

from federico.errors import ConfigError
from federico.own_code import import_object

Factory = Callable[[], nn.Module]


def linear(inputs: int, outputs: int) -> nn.Sequential:
    """One linear layer on the flattened input."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, outputs))


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


def cnn2(channels: int, features: int, outputs: int) -> nn.Sequential:
    """Three unpadded convolutions that make `features` numbers of an image, and a linear layer."""
    layers: list[nn.Module] = []
    for fan_in in (channels, 128, 128):
        layers.append(nn.Conv2d(fan_in, 128, 3))
        layers.append(nn.MaxPool2d(2))
        layers.append(nn.ReLU())

    layers.append(nn.Flatten())
    layers.append(nn.Linear(features, outputs))
    return nn.Sequential(*layers)


def resnet18(channels: int, outputs: int, stem: str) -> nn.Sequential:
    """He et al. 2016, table 1, with the stem for large (`imagenet`) or `small` images."""
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


def import_class(path: str) -> type[nn.Module]:
    """The class of modules that `file.py:Class` or `package.module:Class` names."""
    found = import_object(path, "model.path")
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ConfigError(f"model.path: {path!r} is not a class derived from torch.nn.Module")
    return found
