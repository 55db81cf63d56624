from collections.abc import Callable

import pytest

from federico.methods.method import Method, Round


def play_rounds(method: Method, rounds: int, first: int = 1) -> list[Round]:
    """What each of these rounds left."""
    return [method.round(round_index) for round_index in range(first, first + rounds)]


@pytest.fixture(scope="session")
def play() -> Callable[..., list[Round]]:
    return play_rounds
