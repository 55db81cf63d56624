"""The table `[split]`: how much data there is, and what is kept for testing."""

from pydantic import Field, NonNegativeInt, PositiveInt

from federico.options import Options


class Split(Options):
    """How many samples are used, and how each client's are divided for training and testing."""

    samples: PositiveInt | None = None
    """Number of samples to draw before they are distributed among clients; all if not set."""
    test_fraction: float = Field(default=0.2, gt=0, lt=1)
    """Fraction of each client's samples that it is tested on; not used where the data itself says
    which samples to test on."""
    max_train: PositiveInt | None = None
    """Maximum number of training samples per client."""
    validation_fraction: float = Field(default=0.0, ge=0, lt=1)
    """Fraction of each client's training samples to hold out and evaluate on instead of the test
    samples, in order to choose options without looking at test data."""
    seed: NonNegativeInt | None = None
    """Seed of noise, partition and split; the run's own seed if not set."""
