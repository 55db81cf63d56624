"""The table `[privacy]`: what may be learned about a client's samples from what it sends.

It is read without torch, as a site file must be.
"""

from typing import TYPE_CHECKING, Any

from pydantic import Field, PositiveFloat, PositiveInt

from federico.errors import ConfigError
from federico.experiment.training_options import Training
from federico.learning.privacy_rules import Floor, PrivacyRules
from federico.options import Options

if TYPE_CHECKING:
    from federico.learning.layout import ModelLayout
    from federico.methods.method import Method

LEAST_SAMPLES = {"adam": 10, "sgd": 40}
"""`least_samples` by the optimizer, from `python -m benchmarks.privacy inversion`."""


class PrivacyOptions(Options):
    """Protection of clients' samples. `docs/explanation-privacy.md` says what it is worth."""

    least_samples: PositiveInt | None = None
    """A client that trains on fewer samples sends nothing that was trained on them, neither updates
    nor a model of its own: from so few, samples can be reconstructed. It still pulls the models of
    others, and trains its private model. If not set, 10 with Adam and 40 with SGD, whose updates
    show more; with SGD a few samples can be read off an update however many there are."""
    least_batches: PositiveInt = 1
    """The same for a client whose samples fill fewer batches: from a single batch more can be
    reconstructed than from several."""
    epsilon: PositiveFloat | None = None
    """Differential privacy of each sample: all that a client sends in the whole run costs at most
    this much. Then models that others see are trained by DP-SGD, and a client whose budget is used
    up sends nothing more. No differential privacy if not set. Needs
    `pip install 'federico[privacy]'`."""
    delta: float = Field(default=1e-5, gt=0, lt=1)
    """The probability with which the bound of `epsilon` may fail; choose it well below one over the
    number of samples of a client."""
    clip: PositiveFloat = 1.0
    """With `epsilon`: the largest length of the gradient of one sample; longer ones are shortened.
    """
    noise: PositiveFloat | None = None
    """With `epsilon`: the deviation of the noise in every step, in units of `clip`. If not set, the
    least with which the budget lasts for all rounds, however many collaborators there are."""

    def meaning(self, method: str, training: Training) -> dict[str, Any]:
        """The settings that can change a number of this method.

        Left out is what changes nothing: a floor where nobody sends anything, and what differential
        privacy is like where there is none.
        """
        meaning: dict[str, Any] = {}
        if self.epsilon is not None:
            meaning = self.model_dump(mode="json", exclude={"least_samples", "least_batches"})
        if method != "local":
            floor = self.floor(training)
            meaning["least_samples"] = floor.samples
            meaning["least_batches"] = floor.batches
        return meaning

    def floor(self, training: Training) -> Floor:
        """Below what nothing is sent."""
        least_samples = self.least_samples
        if least_samples is None:
            least_samples = LEAST_SAMPLES[training.optimizer.kind]
            if self.epsilon is not None:
                least_samples = min(LEAST_SAMPLES.values())  # the noise protects the rest
        return Floor(least_samples, self.least_batches)

    def rules(
        self, method: "type[Method]", options: Options, clients: int, rounds: int, secret: int
    ) -> PrivacyRules | None:
        """How samples are protected in training; None without differential privacy."""
        if self.epsilon is None:
            return None
        return PrivacyRules(
            epsilon=self.epsilon,
            delta=self.delta,
            clip=self.clip,
            noise=self.noise,
            planned_visits=rounds * method.most_visits(options, clients),
            secret=secret,
        )

    def check(
        self, method: "type[Method]", options: Options, training: Training, layout: "ModelLayout"
    ) -> None:
        """Refuse what the accountant cannot cover."""
        from federico.learning.privacy import check_private_training

        if self.epsilon is None:
            return
        if not method.is_accountable(options):
            raise ConfigError(
                f"privacy.epsilon: what {method.title} sends with these options is more than "
                "models trained by DP-SGD, and its cost is not known; use federico with "
                "m_step = 'epochs', fedavg or local"
            )
        if training.class_weights == "balanced":
            raise ConfigError(
                "privacy.epsilon: training.class_weights = 'balanced' depends on all samples "
                "together, which no noise protects; give a number for each class"
            )
        if training.augment is not None:
            raise ConfigError("privacy.epsilon: cannot be used with training.augment yet")
        check_private_training(layout)
