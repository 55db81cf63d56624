"""Augmentation of images: each epoch sees them flipped, shifted or noisy, as a stream says.

What is wanted is read from a file without torch, which is imported where an image is changed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import NonNegativeFloat, NonNegativeInt

from federico.options import Options

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Augmentation(Options):
    """What is done to the images of a batch before a model trains on them."""

    flip: bool = False
    """Whether half of the images, drawn anew in each epoch, are mirrored left to right."""
    shift: NonNegativeInt = 0
    """Pixels by which an image is moved at most, up or down and left or right; its edges are
    repeated where nothing is left."""
    noise: NonNegativeFloat = 0.0
    """Standard deviation of noise that is added to every number of an image, as the model sees it:
    bytes are scaled to a spread near 1."""

    def batch(self, x: "Tensor", generators: "Sequence[Generator]", size: int) -> "Tensor":
        """The augmented images of a batch, [visits, samples, channels, height, width].

        Visit k draws from generators[k], always for `size` samples: what it draws does not depend
        on who else is in the batch.
        """
        import torch

        augmented = [self._images(x[k], generators[k], size) for k in range(len(x))]
        return torch.stack(augmented)

    def _images(self, x: "Tensor", generator: "Generator", size: int) -> "Tensor":
        """The augmented images of one visit, [samples, channels, height, width]."""
        import torch

        samples, channels, height, width = x.shape
        mirrored = torch.rand(size, generator=generator)[:samples] < 0.5
        moves = torch.randint(-self.shift, self.shift + 1, (size, 2), generator=generator)[:samples]

        # Where the pixel at each place comes from, [samples, height] and [samples, width].
        rows = (torch.arange(height) + moves[:, :1]).clamp(0, height - 1)
        columns = (torch.arange(width) + moves[:, 1:]).clamp(0, width - 1)
        if self.flip:
            columns = torch.where(mirrored[:, None], columns.flip(1), columns)

        which = torch.arange(samples)[:, None, None, None]
        channel = torch.arange(channels)[None, :, None, None]
        moved = x[
            which.to(x.device),
            channel.to(x.device),
            rows[:, None, :, None].to(x.device),
            columns[:, None, None, :].to(x.device),
        ]
        if self.noise:
            drawn = torch.randn(size, channels, height, width, generator=generator)[:samples]
            moved = moved + self.noise * drawn.to(moved)
        return moved
