from collections.abc import Callable, Sequence

import numpy as np
import pytest
from torch import nn

from federico.learning.client_data import ClientData
from federico.learning.optimizer_options import SGD
from federico.methods.method import Method

Points = Sequence[tuple[float, float]]


@pytest.fixture(scope="session")
def lines(method: Callable[..., Method]) -> Callable[..., Method]:
    """(name, each client's points (x, y)) -> the method on y = w x + b from w = b = 0.

    A round is one step of SGD.

    The loss of a point is e^2 with e = w x + b - y, so a client moves (w, b) by
    -2 rate mean e (x, 1).
    """

    def build(name: str, points: Sequence[Points], rate: float, **options: object) -> Method:
        parts = [(np.array(part)[:, :1], np.array(part)[:, 1:]) for part in points]
        clients = [ClientData(f"c{i}", part, part) for i, part in enumerate(parts)]
        sgd = SGD(learning_rate=rate)
        built = method(
            name, clients, model=lambda: nn.Linear(1, 1), optimizer=sgd, batch_size=9, **options
        )
        built.bank.rows.zero_()
        return built

    return build
