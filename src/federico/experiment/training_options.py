"""The table `[training]`: how every client trains, whatever the method.

It is read without torch, as a site file must be.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from federico.learning.augmentation import Augmentation
from federico.learning.model_options import Shared
from federico.learning.optimizer_options import Adam, OptimizerOptions
from federico.learning.schedules import Constant, Schedule
from federico.options import Options
from federico.own_code import absolute_reference, is_reference

if TYPE_CHECKING:
    from federico.learning.training_rules import TrainingRules


class Training(Options):
    """Local training, the same for every method."""

    optimizer: OptimizerOptions = Adam()
    """What each client trains with."""
    batch_size: PositiveInt = 50
    """Samples per step; the last batch of an epoch may be smaller and is not dropped."""
    local_epochs: PositiveInt = 1
    """Passes over a client's data per round."""
    standardize_targets: bool = True
    """Whether regression scales targets to mean 0 and deviation 1, by what each client's own
    training samples show. Predictions and all figures of a report are in the targets' own units
    either way."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision in which layers compute. `bfloat16` halves the time for convolutions on processors
    that support it; results differ by more than rounding. Models, losses, optimizers and messages
    keep their precision, and `federico predict` does not use it."""
    shared: Shared = "all"
    """Which part of a model clients exchange: `all`; with `trainable` the parameters that have
    `requires_grad`, such as a head on a frozen backbone, or LoRA; `head` (the last module with
    parameters of its own) or `body` (all but the head); or a list of names of modules and tensors.
    What is not `all` leaves out what is frozen: it is the same for all clients and held once. The
    rest of what is learned stays with each client, which completes with it every model it meets."""
    pretrained: Path | None = None
    """A safetensors file with weights that every model starts from, named as in the model's
    `state_dict` and looked for beside this file. Tensors that are not in it start at random."""
    loss: str | None = Field(default=None, pattern=r"^[^:]+:\w+$")
    """Your own loss, `file.py:function` (relative to this file) or `package.module:function`; in
    Python the function itself. It is given outputs and targets of a batch and returns the loss of
    each sample. Models are trained by it; all figures, and the trust in models, stay as they are.
    """
    class_weights: Literal["balanced"] | tuple[PositiveFloat, ...] | None = None
    """How much the samples of each class count in training: a number for each class in the order of
    the labels, or `balanced`, by which all classes of a client count the same."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay, as of AdamW: before each step all parameters are multiplied by
    1 - learning rate * this."""
    clip_norm: PositiveFloat | None = None
    """The largest length of a gradient; longer ones are scaled down to it. No clipping if not
    set."""
    schedule: Schedule = Constant()
    """How the learning rate changes from round to round."""

    augment: Augmentation | None = None
    """What is done to images before a model trains on them; nothing if not set."""
    keep_best: float = Field(default=0.0, ge=0, le=0.5)
    """Fraction of each client's training samples that is set aside, never trained on, to find the
    evaluated round whose personal model it keeps: the one with its lowest loss on them. 0 sets
    nothing aside and keeps those of the last round."""
    patience: PositiveInt | None = None
    """End a simulation once no client has gained for this many evaluated rounds on what `keep_best`
    has set aside. A peer of a real federation trains no more once it has not gained for so many,
    and serves the others until they are done. All rounds are played if not set."""

    @model_validator(mode="after")
    def _patience_needs_evidence(self) -> Self:
        """Without samples set aside nobody would know what a gain is."""
        if self.patience is not None and self.keep_best == 0:
            raise ValueError("patience needs samples to see a gain by: set keep_best, such as 0.2")
        return self

    def rules(self) -> "TrainingRules":
        """What the learner does around each step; somebody's own loss is imported."""
        from federico.learning.training_rules import TrainingRules, import_loss

        return TrainingRules(
            loss=None if self.loss is None else import_loss(self.loss),
            class_weights=self.class_weights,
            weight_decay=self.weight_decay,
            clip_norm=self.clip_norm,
            schedule=self.schedule,
            augmentation=self.augment,
        )

    def meaning(self) -> dict[str, Any]:
        """All that can change a number, with the content of files instead of their places."""
        meaning = self.model_dump(mode="json")
        if self.pretrained is not None:
            meaning["pretrained"] = _content_hash(self.pretrained)
        if self.loss is not None:
            place, _, name = self.loss.rpartition(":")
            if place.endswith(".py"):
                meaning["loss"] = f"{_content_hash(Path(place))}:{name}"
        return meaning


def files_beside(tables: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The tables of a file in this folder, with absolute paths in the table `training`."""
    training = tables.get("training")
    if not isinstance(training, Mapping):
        return dict(tables)

    located = dict(training)
    pretrained = training.get("pretrained")
    if isinstance(pretrained, str | Path):
        located["pretrained"] = str((folder / pretrained).resolve())
    loss = training.get("loss")
    if isinstance(loss, str) and is_reference(loss):
        located["loss"] = absolute_reference(loss, folder)
    return {**tables, "training": located}


def _content_hash(file: Path) -> str:
    """SHA-256 of a file; of nothing if it is not there, which is said when it is used."""
    if not file.is_file():
        return ""
    return hashlib.sha256(file.read_bytes()).hexdigest()
