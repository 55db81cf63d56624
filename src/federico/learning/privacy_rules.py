"""What the privacy of clients' samples asks of training: a floor of samples, and a budget."""

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Floor:
    """Clients with less than this send nothing that was trained on their samples."""

    samples: int = 1
    batches: int = 1

    def allows(self, samples: int, batch_size: int) -> bool:
        """Whether a client that trains on this many samples may send."""
        batches = ceil(samples / batch_size)
        return samples >= self.samples and batches >= self.batches


@dataclass(frozen=True)
class PrivacyRules:
    """What may be learned about one sample of a client from all that the client sends."""

    epsilon: float
    """The budget of a client for the whole run."""
    delta: float
    clip: float
    """The largest length of the gradient of one sample."""
    noise: float | None
    """Noise of a step, in units of `clip`; None: as little as the planned visits need."""
    planned_visits: int
    """A client makes at most this many visits to models that others see in the run."""
    secret: int
    """Seed of the noise. Anyone who knows it can take the noise away."""
