"""Which round's personal models are kept: the last, or the best on samples set aside for that."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from federico.exchange.processes import ProcessGroup
from federico.methods.method import Method, Mixtures
from federico.runs.atomic import publish_text

BEST_FILE = "best.json"


@dataclass(frozen=True)
class BestRound:
    """The round whose personal models are kept, and their mean loss on what was set aside."""

    round: int
    loss: float


def mean_loss(method: Method, mixtures: Mixtures, team: ProcessGroup) -> float:
    """The mean, over all clients, of the loss of their predictors on what they have set aside."""
    personal = mixtures.personal()
    scores = method.learner.score(
        personal.bank,
        personal.visits,
        personal.weights,
        "set aside",
        personal.calibration,
    )
    own = scores.take(method.context.hosted).figures["loss"]
    of_all = team.gather(own)
    mean = float("inf")
    if team.rank == 0:
        losses = np.concatenate(of_all)
        mean = float(np.mean(losses[~np.isnan(losses)]))
    return team.broadcast(mean)


def is_best(folder: Path, loss: float) -> bool:
    """Whether this loss is below that of the best round so far."""
    best = read_best(folder)
    return best is None or loss < best.loss


def note_best(folder: Path, round_index: int, loss: float) -> None:
    """Note that the models of this round, which must have been saved, are the best so far."""
    publish_text(folder / BEST_FILE, json.dumps(asdict(BestRound(round_index, loss))))


def read_best(folder: Path) -> BestRound | None:
    """The best round so far of the cell or peer in this folder, if one was noted."""
    file = folder / BEST_FILE
    if not file.exists():
        return None
    return BestRound(**json.loads(file.read_text(encoding="utf-8")))
