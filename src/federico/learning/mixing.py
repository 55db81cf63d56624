"""How answers of models are mixed when any of them may be no answer at all.

A model that somebody else sent can be sound where it was measured and not a number elsewhere. It is
left out of just the samples for which it has no finite answer, and the rest weigh more there.
"""

import torch
from torch import Tensor

FARTHEST = 20.0
"""How far a prediction of standardised values counts, in spreads; more is taken for that much.

So no single model can carry a mixture further away than that.
"""


def counted(
    answers: Tensor, weights: Tensor, farthest: float | None = None
) -> tuple[Tensor, Tensor]:
    """The answers times their weights, and the weights: both are 0 where there is no answer.

    `answers` is [..., samples, outputs]. An answer is one only if all of its outputs are finite; it
    is brought to at most `farthest` from 0. The weights come back as [..., samples, 1].
    """
    is_answer = answers.isfinite().all(dim=-1, keepdim=True)
    bounded = answers if farthest is None else answers.clamp(-farthest, farthest)
    weighted = torch.where(is_answer, weights * bounded, 0.0)
    counted_weights = torch.where(is_answer, weights, 0.0)
    return weighted, counted_weights


def rest_weighs_more(mixed: Tensor, counted_weight: Tensor, whole_weight: Tensor) -> Tensor:
    """The sum of weighted answers as if those that were left out had never had a weight.

    Not a number where nobody had an answer. Where nobody was left out not even the last digit
    changes.
    """
    rescaled = mixed * (whole_weight / counted_weight)
    return torch.where(counted_weight == whole_weight, mixed, rescaled)
