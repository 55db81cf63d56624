import pytest
from pydantic import ValidationError

from federico.network.limits import Limits


def test_defaults_agree_with_each_other() -> None:
    assert Limits().clip < Limits().refuse


def test_what_is_refused_cannot_be_shortened() -> None:
    with pytest.raises(ValidationError, match="clip = 5 is above refuse = 2"):
        Limits(clip=5, refuse=2)
