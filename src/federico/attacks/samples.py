"""What hostile members train on: wrong labels, or a mark that means a label of their choice."""

import numpy as np
import torch
from torch import Tensor

from federico.attacks.options import AttackOptions
from federico.learning.batches import ClientSamples
from federico.learning.learner import Learner
from federico.rng import stream
from federico.types import IntArray

MARKED_SHARE = 0.05
"""The share of an input's numbers that the mark covers, at least one."""
MARK = 3.0
"""What the marked numbers become: far out, where inputs are standardised."""
BRIGHTEST = 255
"""What they become in images of bytes."""


def set_trigger(learner: Learner, attack: AttackOptions) -> None:
    """Let the learner measure how often the mark of a backdoor decides."""
    if attack.kind == "backdoor":
        learner.backdoor = attack.target
        learner.data["marked"] = _marked_test_samples(learner.data["test"])


def poison(learner: Learner, attack: AttackOptions, members: IntArray) -> None:
    """Change the training samples of these clients for good."""
    samples = learner.data["all"]
    for member in members.tolist():
        first = int(samples.starts[member])
        count = int(samples.counts[member])
        if attack.kind == "label-flip":
            _flip_labels(learner, samples.all_targets[first : first + count])
        elif attack.kind == "backdoor":
            # By name: who hosts a client, and in which order, must not change a number.
            random = stream(learner.seed, "marked", learner.names[member])
            order = random.permutation(count)
            how_many = max(1, round(attack.marked * count))
            marked = first + order[:how_many]
            places = torch.from_numpy(np.sort(marked)).to(samples.all_targets.device)
            samples.stored_inputs[places] = with_mark(samples.stored_inputs[places])
            samples.all_targets[places] = attack.target


def _flip_labels(learner: Learner, targets: Tensor) -> None:
    """The last class for the first and so on; values are turned round."""
    if learner.task == "classification":
        targets.copy_(learner.outputs_count - 1 - targets)
    else:
        targets.neg_()


def with_mark(inputs: Tensor) -> Tensor:
    """The inputs with a mark on the last of their numbers, [samples, ...]."""
    marked = inputs.clone()
    flat = marked.view(len(marked), -1)  # [samples, numbers]
    numbers = flat.shape[1]
    covered = max(1, round(MARKED_SHARE * numbers))
    mark = MARK
    if inputs.dtype == torch.uint8:
        mark = BRIGHTEST
    flat[:, -covered:] = mark
    return marked


def _marked_test_samples(samples: ClientSamples) -> ClientSamples:
    """All test samples with the mark, under the labels that they truly have."""
    inputs = with_mark(samples.stored_inputs)
    return ClientSamples(inputs, samples.all_targets, samples.counts, samples.dtype)
