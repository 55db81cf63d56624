"""How far probabilities are off, with the calibration of FedeRiCo's mixtures and without it.

Usage: python benchmarks/calibration.py FILE [key=value ...]

Every client's personal model predicts the client's own test data twice: as it was saved, and with
the same weights but with the outputs of its models as they are. Figures are means over clients by
the size of their test data, then over seeds. For data that is not a table.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from federico.api.progress import Quiet
from federico.experiment.build import prepare
from federico.experiment.config import load
from federico.experiment.runner import simulate
from federico.runs.bundle import Bundle, open_folder
from federico.runs.client_models import open_client
from federico.runs.score import ClassScore


def without_calibration(bundle: Bundle, folder: Path) -> Bundle:
    """The same mixture, of models whose outputs are read as they are."""
    bundle.save(folder)
    file = folder / "bundle.json"
    header = json.loads(file.read_text(encoding="utf-8"))
    header |= {"temperatures": None, "offsets": None}
    file.write_text(json.dumps(header), encoding="utf-8")
    return open_folder(folder)


def main() -> None:
    """Print accuracy, log loss and calibration error of both, as JSON."""
    file, *settings = sys.argv[1:]
    experiment = load(Path(file), settings)
    found: dict[str, list[list[float]]] = {"as saved": [], "without calibration": []}
    with tempfile.TemporaryDirectory() as folder:
        run = simulate(experiment, Path(folder), Quiet())
        for seed in experiment.seeds:
            clients = prepare(experiment, seed).clients
            sizes = [len(client.test) for client in clients]
            by_client: dict[str, list[list[float]]] = {name: [] for name in found}
            for client in clients:
                saved = open_client(run.cell("federico", seed), client.id)
                plain = without_calibration(saved, Path(folder) / f"plain-{seed}-{client.id}")
                for name, bundle in (("as saved", saved), ("without calibration", plain)):
                    score = ClassScore()
                    score.add(bundle.probabilities(client.test.x), client.test.y)
                    by_client[name].append([*score.figures().values()])
            for name, figures in by_client.items():
                found[name].append(np.average(figures, axis=0, weights=sizes).tolist())

    names = ("accuracy", "loss", "calibration_error")
    command = " ".join(["python benchmarks/calibration.py", *sys.argv[1:]])
    told: dict[str, object] = {"command": command}
    for name, seeds in found.items():
        told[name] = dict(zip(names, np.mean(seeds, axis=0).round(4).tolist(), strict=True))
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
