"""Run directories of many clients and rounds, written without training anything."""

from pathlib import Path
from typing import Any

import numpy as np

from federico.runs.records import weights_kept
from federico.runs.table import write_table
from tests.support.results import make_table
from tests.support.run_folders import write_cell

GROUPS = 4
LABELS = 10


def write_large_run(run: Path, clients: int, rounds: int) -> None:
    """FedeRiCo with clients of four distributions that find each other over the rounds."""
    rng = np.random.default_rng(0)
    names = [f"client {number}" for number in range(clients)]
    group = np.arange(clients) % GROUPS
    alike = group[:, None] == group[None, :]
    counts = rng.integers(1, 50, size=(clients, LABELS))
    kept = weights_kept(clients)

    def one_round(number: int) -> dict[str, Any]:
        learned = (number + 1) / rounds
        weights = rng.random((clients, clients)) * np.where(alike, 1.0, 1.0 - learned)
        weights += np.eye(clients)
        weights /= weights.sum(axis=1, keepdims=True)
        largest = np.argsort(-weights, axis=1)[:, :kept]
        posterior = []
        for client in range(clients):
            row = {names[owner]: float(weights[client, owner]) for owner in largest[client]}
            posterior.append(row)
        # What the records of many clients say of the weights that they do not hold.
        said = {}
        if kept < clients:
            said["effective_collaborators"] = (1 / (weights**2).sum(axis=1)).tolist()
            said["on_own_distribution"] = (weights * alike).sum(axis=1).tolist()
        alone = (0.5 + 0.1 * rng.random(clients)).tolist()
        used = (0.5 + 0.3 * learned + 0.1 * rng.random(clients)).tolist()
        return {
            "figures": {"accuracy": used},
            "alone": {"accuracy": alone, "loss": [1.0] * clients},
            "together": {"accuracy": used, "loss": [1.0] * clients},
            "together_share": [0.8] * clients,
            "posterior": posterior,
            **said,
            "neighbors": [[names[(client + 1) % clients]] for client in range(clients)],
            "sent": [40_000] * clients,
            "received": [40_000] * clients,
            "moved": 40_000 * clients,
            "evaluation_sent": [0] * clients,
            "evaluation_received": [0] * clients,
        }

    run.mkdir(parents=True)
    write_table(run, make_table("federico", rounds=rounds, title=f"{clients} clients"))
    write_cell(
        run,
        "federico",
        *[one_round(number) for number in range(rounds)],
        clients=names,
        distribution=group.tolist(),
        train_samples=counts.sum(axis=1).tolist(),
        test_samples=[100] * clients,
        label_names=[str(label) for label in range(LABELS)],
        label_counts=counts.tolist(),
    )
