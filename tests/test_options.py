import pytest
from pydantic import ValidationError

from federico.options import Options


class Pace(Options):
    """How fast something goes."""

    speed: float = 1.0
    """Steps per second."""


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="sped"):
        Pace.model_validate({"sped": 2.0})


@pytest.mark.parametrize("speed", [float("inf"), float("nan")])
def test_numbers_are_finite(speed: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Pace(speed=speed)


def test_options_cannot_be_changed() -> None:
    pace = Pace()
    with pytest.raises(ValidationError, match="frozen"):
        pace.speed = 2.0  # type: ignore[misc]


def test_the_sentence_under_an_option_is_its_description() -> None:
    assert Pace.model_fields["speed"].description == "Steps per second."
