"""Parts of a model, on a network small enough to count its columns by hand."""

import pytest
import torch
from torch import nn

from federico.errors import ConfigError
from federico.learning.layout import ModelLayout
from federico.learning.parts import ModelPart


class Network(nn.Module):
    """A body with batch norm, a head, and a parameter that belongs to the model itself."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.body = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        self.head = nn.Linear(3, 1)


@pytest.fixture
def layout() -> ModelLayout:
    """scale 0-1, body.0 2-10, body.1 11-16, head 17-20, statistics of body.1 21-26."""
    return ModelLayout(Network)


def slices(part: ModelPart) -> list[tuple[int, int]]:
    return [(columns.start, columns.stop) for columns in part.slices]


def test_the_whole_is_one_slice(layout: ModelLayout) -> None:
    assert slices(ModelPart.whole(layout)) == [(0, 27)]
    assert ModelPart.whole(layout).size == layout.size == 27


def test_parameters_come_before_buffers(layout: ModelLayout) -> None:
    assert slices(ModelPart.parameters(layout)) == [(0, 21)]
    assert slices(ModelPart.buffers(layout)) == [(21, 27)]


def test_a_model_without_buffers_has_an_empty_part_of_them() -> None:
    part = ModelPart.buffers(ModelLayout(lambda: nn.Linear(2, 1)))
    assert (slices(part), part.size) == ([], 0)


def test_the_head_is_the_last_module_with_parameters(layout: ModelLayout) -> None:
    assert slices(ModelPart.head(layout)) == [(17, 21)]


def test_the_body_is_everything_else_with_its_statistics(layout: ModelLayout) -> None:
    body = ModelPart.body(layout)
    assert slices(body) == [(0, 17), (21, 27)]
    assert body.size == 23


def test_a_head_that_keeps_statistics_keeps_them_in_its_part() -> None:
    layout = ModelLayout(lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    assert slices(ModelPart.head(layout)) == [(9, 21)]
    assert slices(ModelPart.body(layout)) == [(0, 9)]


def test_a_head_can_be_named(layout: ModelLayout) -> None:
    names = ["body.1", "head"]
    assert slices(ModelPart.head(layout, names)) == [(11, 27)]
    assert slices(ModelPart.body(layout, names)) == [(0, 11)]


def test_names_may_be_those_of_modules_or_of_tensors(layout: ModelLayout) -> None:
    assert slices(ModelPart.named(layout, ["body"])) == [(2, 17), (21, 27)]
    assert slices(ModelPart.named(layout, ["head.bias", "scale"])) == [(0, 2), (20, 21)]
    assert slices(ModelPart.named(layout, ["body", "body.0"])) == [(2, 17), (21, 27)], "once each"


@pytest.mark.parametrize("unknown", ["bod", "body.00", ""])
def test_an_unknown_name_is_refused_with_the_names_there_are(
    layout: ModelLayout, unknown: str
) -> None:
    with pytest.raises(ConfigError, match=f"'{unknown}'; there are scale, body.0, body.1, head$"):
        ModelPart.named(layout, ["head", unknown])


def test_the_rest_is_what_a_part_is_not(layout: ModelLayout) -> None:
    body, head = ModelPart.body(layout), ModelPart.head(layout)
    assert body.rest(layout) == head
    assert head.rest(layout) == body
    assert ModelPart.whole(layout).rest(layout).size == 0


def test_a_part_is_laid_out_as_rows_of_its_own(layout: ModelLayout) -> None:
    body = ModelPart.body(layout)
    rows = body.laid_out(layout)
    assert (rows.size, rows.parameters) == (body.size, layout.parameters - 4)
    whole = torch.arange(layout.size)
    cut = body.cut(whole[None])[0]
    starts = {slot.name: slot.start for slot in layout.slots}
    for slot in rows.slots:
        assert cut[slot.start] == whole[starts[slot.name]]
    assert ModelPart.whole(layout).laid_out(layout) is layout
