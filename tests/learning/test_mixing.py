import torch

from federico.learning.mixing import counted, rest_weighs_more

NAN, INF = float("nan"), float("inf")


def test_what_is_no_answer_has_no_weight() -> None:
    answers = torch.tensor([[0.25, 0.75], [NAN, 0.5], [INF, 0.0]])
    weighted, weights = counted(answers, torch.tensor(0.5))
    assert weighted.tolist() == [[0.125, 0.375], [0.0, 0.0], [0.0, 0.0]]
    assert weights.tolist() == [[0.5], [0.0], [0.0]]


def test_an_answer_counts_no_further_than_the_farthest() -> None:
    weighted, _ = counted(torch.tensor([[1e30], [-3.0]]), torch.tensor(0.5), farthest=20.0)
    assert weighted.tolist() == [[10.0], [-1.5]]


def test_the_rest_weighs_as_much_as_all_and_nobody_is_not_a_number() -> None:
    mixed = torch.tensor([[0.1], [0.1], [0.0]])
    counted_weight = torch.tensor([[0.5], [1.0], [0.0]])
    rescaled = rest_weighs_more(mixed, counted_weight, torch.ones(3, 1))
    assert rescaled[0].item() == 2 * mixed[0].item()
    assert rescaled[1].item() == mixed[1].item()
    assert rescaled[2].isnan().item()
