"""One client's personal model as an ordinary module: from samples as people have them to answers.

Inputs are encoded and scaled, every model of the mixture is asked, its answer is read as its
calibration says, answers are mixed under the posterior, and values are put into the units of the
targets. All of it is tensors: `state_dict`, `.to` and `torch.export` work as for any module.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from federico.data.dataset import Schema, TableColumn
from federico.data.standardizer import Standardizer, TargetScale
from federico.learning.batches import to_input
from federico.learning.calibration import Calibration
from federico.learning.layout import ModelLayout
from federico.learning.mixing import FARTHEST, counted, rest_weighs_more
from federico.types import FloatArray, Task


class TableInputs(nn.Module):
    """Turns one number for each column into the inputs of a model, without gaps and standardised.

    Takes [rows, columns]: the number of a column of numbers, the position of the category (counted
    from 0) of a column of categories. NaN is a missing value, and so is a position that no category
    has, such as -1.
    """

    median: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, columns: Sequence[TableColumn], standardizer: Standardizer) -> None:
        super().__init__()
        self.categories: list[int | None] = [
            None if column.categories is None else column.width for column in columns
        ]
        self.register_buffer("median", torch.from_numpy(standardizer.median.copy()))
        self.register_buffer("mean", torch.from_numpy(standardizer.mean.copy()))
        self.register_buffer("scale", torch.from_numpy(standardizer.scale.copy()))

    def forward(self, x: Tensor) -> Tensor:
        """The inputs [rows, inputs]."""
        x = x.to(self.median.dtype)
        parts = []
        for place, categories in enumerate(self.categories):
            values = x[:, place : place + 1]
            if categories is not None:
                values = _one_hot(values, categories)
            parts.append(values)
        inputs = torch.cat(parts, dim=1)
        filled = torch.where(torch.isnan(inputs), self.median, inputs)
        return (filled - self.mean) / self.scale


class PersonalModel(nn.Module):
    """A few models under a client's posterior, asked together.

    Gives class probabilities [samples, classes], or for regression values [samples, outputs] in the
    units of the targets. It works in the precision of its own numbers: double as it is made, single
    after `.float()`.
    """

    weights: Tensor
    temperatures: Tensor
    offsets: Tensor
    target_mean: Tensor
    target_spread: Tensor

    def __init__(
        self,
        models: Sequence[nn.Module],
        weights: FloatArray,
        schema: Schema,
        standardizer: Standardizer | None = None,
        calibration: Calibration | None = None,
        target_scale: TargetScale | None = None,
    ) -> None:
        """`weights[k]` is the client's trust in `models[k]`, all in evaluation mode."""
        super().__init__()
        self.task: Task = schema.task
        self.farthest = None if target_scale is None else FARTHEST
        """How far from 0 a model's prediction counts; more is taken for that much."""
        self.inputs: nn.Module = nn.Identity()
        if schema.columns and standardizer is not None:
            self.inputs = TableInputs(schema.columns, standardizer)
        self.models = nn.ModuleList(models)
        self.register_buffer("weights", torch.tensor(weights, dtype=torch.float64))

        if schema.task == "classification":
            temperatures = torch.ones(len(models), dtype=torch.float64)
            offsets = torch.zeros(len(models), schema.outputs, dtype=torch.float64)
            if calibration is not None:
                temperatures = torch.tensor(calibration.temperatures)
                offsets = torch.tensor(calibration.offsets)
            self.register_buffer("temperatures", temperatures)
            self.register_buffer("offsets", offsets)
        else:
            mean = torch.zeros(schema.outputs, dtype=torch.float64)
            spread = torch.ones(schema.outputs, dtype=torch.float64)
            if target_scale is not None:
                mean = torch.tensor(target_scale.mean)
                spread = torch.tensor(target_scale.spread)
            self.register_buffer("target_mean", mean)
            self.register_buffer("target_spread", spread)

    def forward(self, x: Tensor) -> Tensor:
        """What the mixture predicts."""
        return self.in_units(self.mixed(self.answers(x)))

    def mixed_and_separate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the mixture predicts, and each model alone [samples, models, outputs]."""
        answers = self.answers(x)
        separate = torch.stack(answers, dim=1)
        return self.in_units(self.mixed(answers)), self.in_units(separate)

    def mixed(self, answers_of_models: Sequence[Tensor]) -> Tensor:
        """The answers, mixed: class probabilities, or values that are still standardised.

        Where a model has no finite answer for a sample it is left out, and the rest weigh more;
        without any finite answer the prediction is not a number.
        """
        nothing = torch.zeros((), dtype=self.weights.dtype, device=self.weights.device)
        mixed = nothing
        counted_weight = nothing
        whole_weight = nothing
        for k, answers in enumerate(answers_of_models):
            weighted, weight = counted(answers, self.weights[k], self.farthest)
            mixed = mixed + weighted
            counted_weight = counted_weight + weight
            whole_weight = whole_weight + self.weights[k]
        return rest_weighs_more(mixed, counted_weight, whole_weight)

    def answers(self, x: Tensor) -> list[Tensor]:
        """What each model predicts: class probabilities, or values that are still standardised."""
        dtype = next(self.models.parameters()).dtype
        inputs = to_input(self.inputs(x), dtype)
        answers = []
        for k, model in enumerate(self.models):
            outputs = model(inputs).to(self.weights.dtype)
            if self.task == "classification":
                # Probabilities are mixed, not logits.
                calibrated = outputs / self.temperatures[k] + self.offsets[k]
                outputs = torch.softmax(calibrated, dim=-1)
            answers.append(outputs)
        return answers

    def decided_by(self, x: Tensor) -> Tensor:
        """Each model's part in the predictions.

        For classes, its share of the probability of the predicted class [samples, models, 1], which
        is 0 for a model without a finite answer; for values, what it alone predicts [samples,
        models, outputs].
        """
        answers = torch.stack(self.answers(x), dim=1)  # [samples, models, outputs]
        if self.task == "regression":
            return self.in_units(answers)
        weighted, _ = counted(answers, self.weights[:, None])
        mixed = weighted.sum(1, keepdim=True)  # [samples, 1, classes]
        best = mixed.argmax(2, keepdim=True)

        # What each model adds to the probability of the predicted class, of what all add.
        models = weighted.shape[1]
        by_model = weighted.gather(2, best.expand(-1, models, 1))
        by_all = mixed.gather(2, best)
        return by_model / by_all

    def in_units(self, predicted: Tensor) -> Tensor:
        """Values in the units of the targets; probabilities as they are."""
        if self.task == "classification":
            return predicted
        return predicted * self.target_spread + self.target_mean


def models_of(layout: ModelLayout, rows: Sequence[Tensor]) -> list[nn.Module]:
    """A module for each row, with numbers of its own, to predict with."""
    # As views of one row, saving one of its tensors would save all of them. What is frozen is
    # copied once for all models.
    frozen = {slot.name: slot.view(layout.base).clone() for slot in layout.base_slots}
    models = []
    for row in rows:
        model = layout.bind(row, layout.initial_counters())
        tensors: dict[str, Tensor] = {
            **dict(model.named_parameters()),
            **dict(model.named_buffers()),
        }
        for slot in layout.slots:
            tensors[slot.name].data = tensors[slot.name].data.clone()
        for name, tensor in frozen.items():
            tensors[name].data = tensor
        models.append(model.eval())
    return models


def _one_hot(positions: Tensor, width: int) -> Tensor:
    """An input for each category [rows, width]: all NaN where the position is that of none."""
    categories = torch.arange(width, dtype=positions.dtype, device=positions.device)
    is_category = positions == categories  # [rows, width]
    inputs = is_category.to(positions.dtype)
    found = inputs.sum(dim=1, keepdim=True)
    return torch.where(found > 0, inputs, torch.nan)
