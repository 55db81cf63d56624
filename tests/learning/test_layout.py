from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from federico import compat
from federico.errors import ConfigError
from federico.learning.layout import ModelLayout


class Everything(nn.Module):
    """A frozen parameter, a convolution, a float buffer, an index drawn at random and a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(2), requires_grad=False)
        self.conv = nn.Conv2d(2, 3, (2, 1))
        self.norm = nn.BatchNorm2d(3)
        self.register_buffer("index", torch.randperm(12))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(self.conv(x * self.scale[:, None, None]))
        return hidden.flatten(1)[:, self.index]


class Tied(nn.Module):
    """Two layers that share one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


@pytest.fixture
def everything() -> ModelLayout:
    return ModelLayout(Everything, torch.float64)


X = torch.arange(12.0, dtype=torch.float64).view(1, 2, 3, 2) ** 2


def bound(layout: ModelLayout, row: Tensor) -> nn.Module:
    return layout.bind(row, layout.initial_counters())


def test_a_row_holds_parameters_then_float_buffers_without_gaps(everything: ModelLayout) -> None:
    names = [slot.name for slot in everything.slots]
    assert names[: len(everything.parameter_slots)] == [
        name for name, _ in Everything().named_parameters()
    ]
    assert names[len(everything.parameter_slots) :] == ["norm.running_mean", "norm.running_var"]
    covered = [
        slot.view(torch.arange(everything.size)).flatten().tolist() for slot in everything.slots
    ]
    assert [sorted(part) for part in covered] == [
        list(range(min(part), max(part) + 1)) for part in covered
    ]
    assert sorted(place for part in covered for place in part) == list(range(everything.size))


def test_counters_stay_out_of_the_row_and_index_buffers_out_of_both(
    everything: ModelLayout,
) -> None:
    assert everything.counters == ("norm.num_batches_tracked",)
    assert everything.size == everything.parameters + 6


def test_a_bound_module_computes_as_the_module_it_was_flattened_from(
    everything: ModelLayout,
) -> None:
    module = everything.new().eval()
    nn.init.normal_(module.get_parameter("conv.weight"))
    rebuilt = bound(everything, everything.flatten(module)).eval()
    torch.testing.assert_close(rebuilt(X), module(X))


def test_bound_tensors_are_views_both_ways(everything: ModelLayout) -> None:
    row = everything.initial(0, "a")
    module = bound(everything, row)
    with torch.no_grad():
        module.get_parameter("conv.weight").fill_(7)
        module.get_buffer("norm.running_mean").fill_(8)
    assert (row == 7).sum() == 12
    assert (row == 8).sum() == 3
    row.zero_()
    assert all(
        (tensor == 0).all() for name, tensor in module.state_dict().items() if name != "index"
    )


def test_bound_counters_are_views(everything: ModelLayout) -> None:
    counters = torch.tensor([41])
    everything.bind(everything.initial(0, "a"), counters).train()(X.repeat(2, 1, 1, 1))
    assert counters.tolist() == [42]


def test_a_frozen_parameter_stays_frozen(everything: ModelLayout) -> None:
    trainable = {
        name: p.requires_grad
        for name, p in bound(everything, everything.initial(0, "a")).named_parameters()
    }
    assert [name for name, learns in trainable.items() if not learns] == ["scale"]


def test_an_index_drawn_at_random_is_the_same_wherever_the_model_is_bound(
    everything: ModelLayout,
) -> None:
    torch.manual_seed(5)
    one = bound(everything, everything.initial(0, "a")).get_buffer("index")
    torch.manual_seed(6)
    other = bound(ModelLayout(Everything), everything.initial(0, "b").float()).get_buffer("index")
    assert one.tolist() == other.tolist()


def test_tied_weights_are_one_and_stay_tied() -> None:
    layout = ModelLayout(Tied, torch.float64)
    assert layout.parameters == 12
    module = bound(layout, layout.initial(0, "a"))
    assert module.get_parameter("first.weight") is module.get_parameter("second.weight")
    original = Tied().double()
    rebuilt = bound(layout, layout.flatten(original))
    x = torch.rand(2, 3, dtype=torch.float64)
    torch.testing.assert_close(rebuilt(x), original(x))


def test_the_name_and_the_seed_decide_the_initial_model(everything: ModelLayout) -> None:
    torch.manual_seed(1)
    first = everything.initial(3, "a")
    torch.manual_seed(2)
    assert torch.equal(everything.initial(3, "a"), first)
    assert not torch.equal(everything.initial(3, "b"), first)
    assert not torch.equal(everything.initial(4, "a"), first)


@pytest.mark.parametrize(
    "use",
    [lambda: ModelLayout(Everything), lambda: ModelLayout(Everything).initial(0, "a")],
    ids=["made", "initial"],
)
def test_nothing_disturbs_torchs_own_generator(use: Callable[[], object]) -> None:
    before = torch.get_rng_state()
    use()
    assert torch.equal(torch.get_rng_state(), before)


def test_named_tensors_look_like_a_state_dict_and_come_back(everything: ModelLayout) -> None:
    row = everything.initial(0, "a")
    named = everything.named(row, torch.empty_like(row))
    states = bound(everything, row).state_dict()
    assert all(torch.equal(states[name], tensor) for name, tensor in named.items())
    assert all(tensor.is_contiguous() for tensor in named.values())
    assert torch.equal(everything.from_named(named), row)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda named: named | {"scale": torch.zeros(3)},
        lambda named: {name: tensor for name, tensor in named.items() if name != "scale"},
        lambda named: named | {"more": torch.zeros(1)},
        lambda named: named | {"conv.weight": named["conv.weight"].permute(1, 0, 2, 3)},
    ],
    ids=["shape", "missing", "additional", "transposed"],
)
def test_from_named_refuses_tensors_of_another_model(
    everything: ModelLayout, spoil: Callable[[dict[str, Tensor]], dict[str, Tensor]]
) -> None:
    row = everything.initial(0, "a")
    with pytest.raises(ConfigError, match="not those of this model"):
        everything.from_named(spoil(everything.named(row, torch.empty_like(row))))


def test_a_model_without_parameters_is_refused() -> None:
    with pytest.raises(ConfigError, match="no parameters"):
        ModelLayout(nn.Flatten)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"torch\.nn\.Module, got int"):
        ModelLayout(lambda: 3)  # type: ignore[arg-type, return-value]


def test_a_function_that_returns_one_module_again_and_again_is_refused() -> None:
    net = nn.Linear(2, 2)
    with pytest.raises(ConfigError, match="returns the same module every time"):
        ModelLayout(lambda: net)


def test_a_function_whose_modules_share_a_part_is_refused() -> None:
    norm = nn.BatchNorm1d(2, affine=False)
    with pytest.raises(ConfigError, match="or one with the same parts"):
        ModelLayout(lambda: nn.Sequential(norm, nn.Linear(2, 2)))
    assert norm.running_mean is not None
    assert norm.running_mean.device.type == "cpu", "nothing of the caller's is touched"


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_recurrent_layer_computes_with_the_row(kind: type[nn.RNNBase]) -> None:
    """It keeps a list of its weights, which has to follow them."""
    layout = ModelLayout(lambda: kind(2, 3))
    row = layout.initial(0, "a")
    module = layout.bind(row, layout.initial_counters())
    before, _ = module(torch.ones(1, 2))
    row.zero_()
    after, _ = module(torch.ones(1, 2))
    assert before.any()
    assert not after.any(), "all weights are 0 now, so nothing comes out"


def test_a_new_model_seeds_the_generator_it_draws_from_and_no_other(
    everything: ModelLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`torch.manual_seed` tells every kind of device, which took four seconds for 10,000 models."""
    monkeypatch.setattr(compat, "accelerator", lambda: None)
    monkeypatch.setattr(torch, "manual_seed", lambda _: pytest.fail("slow, once per client"))
    assert torch.equal(everything.initial(3, "a"), everything.initial(3, "a"))
    assert not torch.equal(everything.initial(3, "a"), everything.initial(3, "b"))


def test_a_model_made_in_another_precision_is_converted() -> None:
    layout = ModelLayout(lambda: nn.Linear(2, 3, dtype=torch.float64), torch.float32)
    row = layout.initial(0, "a")
    assert row.dtype == torch.float32
    module = layout.new(0)
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float32}
