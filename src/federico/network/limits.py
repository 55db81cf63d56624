"""How patient peers are with each other, and how strict."""

from typing import Literal, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from federico.options import Options


class Limits(Options):
    """What members agree on about each other's messages."""

    deadline: PositiveFloat = 60.0
    """Seconds that a peer gives its pulls of a round, and again its pushes; what has not come by
    then is left out."""
    patience: PositiveFloat = 20.0
    """Seconds that a request may stay unanswered before it is sent again; on slow lines, longer
    than a window of chunks takes."""
    grace: NonNegativeFloat = 3.0
    """Seconds that a transfer waits for a peer that has vanished in the middle of it. One that had
    fallen silent before was cut off rather than ended: it gets as long again as that had lasted."""
    precision: Literal["float16", "bfloat16", "float32", "float64"] | None = None
    """The type of the numbers that travel; not set: that of the model, unrounded."""
    chunk_bytes: int = Field(default=1 << 20, ge=1 << 10, le=1 << 21)
    """Models travel in chunks of this size; 256 KiB suits slow lines. A large model cannot travel
    in tiny chunks, because one message must announce them all."""
    window: PositiveInt = Field(default=4, le=64)
    """How many chunks of a transfer are under way at a time."""
    staleness: NonNegativeInt = 2
    """An update may be computed on a model this many of its owner's rounds old; older ones are
    refused."""
    clip: PositiveFloat = 10.0
    """An update longer than this many times the owner's own is shortened to it."""
    refuse: PositiveFloat = 1000.0
    """An update longer than this many times the longest that the owner has made itself, and than as
    many times its model, is refused, and counts as a strike."""
    samples: PositiveFloat = 1e6
    """The most training samples anybody has: the largest coefficient an update may claim."""
    strikes: PositiveInt = 3
    """Messages against the rules before a peer is paused: it gets no requests and no answers."""
    pause: PositiveFloat = 60.0
    """Seconds of a pause."""
    pauses: NonNegativeInt = 2
    """Pauses before a peer is in quarantine until this one starts again."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.clip > self.refuse:
            raise ValueError(
                f"clip = {self.clip:g} is above refuse = {self.refuse:g}: "
                "nothing would be shortened"
            )
        return self
