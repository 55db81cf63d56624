"""What a curious owner reads off an update, as the page on privacy says it."""

from typing import Any

import pytest

from benchmarks.privacy import RECOGNISABLE, invert


def attacked(samples: int, optimizer: str, **privacy: Any) -> dict[str, Any]:
    """One victim on each of two seeds."""
    return invert(samples, 10, optimizer, privacy, seeds=range(2), victims=1)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_client_with_one_sample_sends_nothing_to_look_at(optimizer: str) -> None:
    assert attacked(1, optimizer)["updates sent"] == 0


def test_without_the_floor_one_sample_is_seen_as_it_is() -> None:
    """So the test above is about something."""
    assert attacked(1, "sgd", least_samples=1)["mean PSNR"] > 100


def test_with_sgd_some_samples_can_be_read_off_an_update_and_with_adam_none() -> None:
    assert 1 <= attacked(60, "sgd")["recognisable"] * 60 <= 12
    assert attacked(60, "adam")["best PSNR"] < RECOGNISABLE


@pytest.mark.parametrize("samples", [8, 60])
def test_with_an_epsilon_of_eight_no_reconstruction_reaches_twelve_decibels(samples: int) -> None:
    pytest.importorskip("opacus")
    figures = attacked(samples, "sgd", least_samples=1, epsilon=8.0)
    assert figures["updates sent"] == 2
    assert figures["best PSNR"] < 12
