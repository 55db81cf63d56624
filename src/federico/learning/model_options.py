"""The models a file can name, and how to bring one's own.

They are read without torch, which is imported where a model is made.
"""

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, PositiveInt

from federico.errors import ConfigError
from federico.options import Options
from federico.own_code import absolute_reference

if TYPE_CHECKING:
    from federico.learning.models import Factory

Shape = tuple[int, ...]
Shared: TypeAlias = Literal["all", "trainable", "body", "head"] | tuple[str, ...]
"""What clients exchange of a model: see `training.shared`."""


class Linear(Options):
    """One linear layer on the flattened input."""

    kind: Literal["linear"] = "linear"

    def factory(self, inputs: Shape, outputs: int) -> "Factory":
        """Makes new models for data of this shape."""
        from federico.learning import models

        return lambda: models.linear(prod(inputs), outputs)


class MLP(Options):
    """A multi-layer perceptron with ReLU on the flattened input."""

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[PositiveInt, ...] = (64,)
    """Widths of the hidden layers, first to last."""

    def factory(self, inputs: Shape, outputs: int) -> "Factory":
        """Makes new models for data of this shape."""
        from federico.learning import models

        return lambda: models.perceptron((prod(inputs), *self.hidden, outputs))


class CNN2(Options):
    """The paper's CIFAR-10 network.

    Three unpadded 3x3 convolutions of 128 channels and one linear layer.
    """

    kind: Literal["cnn2"] = "cnn2"

    def factory(self, inputs: Shape, outputs: int) -> "Factory":
        """Makes new models for images of this shape."""
        from federico.learning import models

        channels, height, width = _image("cnn2", inputs)
        for _ in range(3):  # an unpadded 3x3 convolution, then pooling
            height = (height - 2) // 2
            width = (width - 2) // 2
        if min(height, width) < 1:
            raise ConfigError(
                f"model: cnn2 needs images of 22x22 or larger, the data has {inputs[1]}x{inputs[2]}"
            )
        features = 128 * height * width
        return lambda: models.cnn2(channels, features, outputs)


class ResNet18(Options):
    """ResNet-18, not pretrained."""

    kind: Literal["resnet18"] = "resnet18"
    stem: Literal["imagenet", "small"] = "small"
    """`small`: a 3x3 stem without pooling for 32x32 images; `imagenet`: the 7x7 stem of the
    original."""

    def factory(self, inputs: Shape, outputs: int) -> "Factory":
        """Makes new models for images of this shape."""
        from federico.learning import models

        channels, _, _ = _image("resnet18", inputs)
        return lambda: models.resnet18(channels, outputs, self.stem)


class Imported(Options):
    """Your own torch.nn.Module class."""

    kind: Literal["import"]
    path: str = Field(pattern=r"^[^:]+:\w+$")
    """Where the class is: `package.module:Class`, or `file.py:Class` relative to the folder of the
    file that says so."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments for the class."""

    def factory(self, inputs: Shape, outputs: int) -> "Factory":
        """Makes new models by calling the class."""
        from federico.learning import models

        cls = models.import_class(self.path)
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

    def factory(self, inputs: Shape, outputs: int) -> "Factory":
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


def _image(model: str, inputs: Shape) -> tuple[int, int, int]:
    if len(inputs) != 3:
        raise ConfigError(
            f"model: {model} needs images (channels, height, width), "
            f"the data has inputs of shape {inputs}"
        )
    return inputs[0], inputs[1], inputs[2]
