"""Training alone is the floor, with default options, where nobody's data are those of others.

Each client has a rule of its own and nearly enough samples to learn it. Others help in the first
rounds, before it knows as much as they do, and are in its way later.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import federico

CLIENTS = 8
SAMPLES = 400
INPUTS = 8


def clients_with_rules_of_their_own(seed: int) -> dict[str, tuple[np.ndarray, ...]]:
    """Samples of linear rules that lie around a common one."""
    random = np.random.default_rng([seed, 13])
    common = random.normal(size=INPUTS)
    common /= np.linalg.norm(common)
    clients: dict[str, tuple[np.ndarray, ...]] = {}
    for k in range(CLIENTS):
        x = random.normal(size=(SAMPLES, INPUTS)).astype(np.float32)
        rule = common + 0.2 * random.normal(size=INPUTS)
        y = x @ rule + 0.5 * random.normal(size=SAMPLES)
        clients[f"c{k}"] = (x, y)
    return clients


def test_who_needs_nobody_in_the_end_is_not_worse_than_alone(tmp_path: Path) -> None:
    gains: list[float] = []
    for seed in range(3):
        run = federico.run(
            clients=clients_with_rules_of_their_own(seed),
            model={"kind": "linear"},
            methods=["federico"],
            rounds=30,
            seeds=[seed],
            task="regression",
            split={"test_fraction": 0.5},
            training={"batch_size": 50},
            system={"threads": 1, "evaluate_every": 30},
            directory=tmp_path / str(seed),
            progress=False,
        )
        last: pd.DataFrame = run.frame(last=True)
        gains.append(float((last["r2"] - last["alone_r2"]).mean()))
    assert np.mean(gains) > -0.005
