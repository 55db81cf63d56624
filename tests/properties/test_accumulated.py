"""Accumulated losses drive the posterior to one peer; a moving average keeps several (figure 5)."""

from collections.abc import Callable

import numpy as np

from federico.learning.client_data import ClientData
from federico.learning.optimizer_options import SGD
from federico.methods.federico import Federico
from federico.methods.method import Round

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Federico]
Play = Callable[..., list[Round]]


def test_accumulated_tends_to_one_hot_where_ema_stays_spread(
    method: Build, blobs: Clients, play: Play
) -> None:
    # Models that hardly learn have losses that hardly change: what differs is the tracking alone.
    still = {"sampler": "everyone", "optimizer": SGD(learning_rate=1e-6), "solo_rounds": 0}
    still |= {"preset": "paper", "worse_than_guess": "tracked"}
    tops = {}
    for tracking in ("ema", "accumulated"):
        rounds = play(method("federico", blobs((20,) * 4), tracking=tracking, **still), 60)
        tops[tracking] = np.array(
            [[row.weights.max() for row in played.posteriors] for played in rounds]
        )
    assert (np.diff(tops["accumulated"], axis=0) > -1e-9).all(), "ever more certain"
    assert (tops["accumulated"][-1] > 0.99).all()
    assert (tops["ema"][-1] < 0.9).all()
    np.testing.assert_allclose(tops["ema"][-1], tops["ema"][-20], atol=1e-3)
