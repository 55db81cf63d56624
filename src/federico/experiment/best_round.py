"""Keeps the personal model of each client's best round, by samples that it has set aside for that.

Every client chooses for itself. The record of an evaluated round has the figures of what clients
would keep if it were the last one, so what tables report are the models that are kept.

A simulation that resumes plays the same rounds again, and comes to keep the same. A peer does not:
it notes beside its records what it keeps, which may be of a round after its last checkpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from federico.errors import RunError
from federico.experiment.build import Setup
from federico.experiment.personal_models import save_hosted_clients
from federico.methods.method import Method, Mixtures
from federico.runs.atomic import publish_text
from federico.runs.records import Record, read_last_evaluated
from federico.types import FloatArray

T = TypeVar("T")
BEST_FILE = "best.json"
Figures: TypeAlias = dict[str, list[float | None]]


@dataclass(frozen=True)
class KeptModels:
    """What each of some clients keeps: of which round, how good it is, and what it is compared to.

    The parts are those of `Record` with the same names.
    """

    kept_rounds: list[int]
    kept_losses: list[float | None]
    without_gain: list[int]
    figures: Figures | None
    alone: Figures | None
    together: Figures | None
    together_share: list[float] | None
    together_chance: list[float | None] | None = None
    """None also in what older versions noted."""

    @classmethod
    def of(cls, record: Record | None, places: Sequence[int] | None = None) -> "KeptModels | None":
        """What a record says of the clients at these places, by default all; None if nothing."""
        if record is None or record.kept_rounds is None:
            return None
        if record.kept_losses is None or record.without_gain is None:
            return None
        some = range(len(record.kept_rounds)) if places is None else places
        together_share = record.together_share
        together_chance = record.together_chance
        return cls(
            kept_rounds=[record.kept_rounds[place] for place in some],
            kept_losses=[record.kept_losses[place] for place in some],
            without_gain=[record.without_gain[place] for place in some],
            figures=_some_figures(record.figures, some),
            alone=_some_figures(record.alone, some),
            together=_some_figures(record.together, some),
            together_share=None if together_share is None else [together_share[k] for k in some],
            together_chance=(
                None if together_chance is None else [together_chance[k] for k in some]
            ),
        )


KEPT = TypeAdapter(KeptModels)


def kept_by_peer(state_folder: Path) -> KeptModels | None:
    """What the peer of this state folder has kept so far."""
    recorded = KeptModels.of(read_last_evaluated(state_folder))
    file = state_folder / BEST_FILE
    if not file.exists():
        return recorded
    try:
        noted = KEPT.validate_json(file.read_bytes())
    except ValidationError:
        raise RunError(
            f"{file}: damaged: it does not say which round is the best; delete it to choose among "
            "the rounds that are recorded and those to come"
        ) from None
    # Both know of the same model: then the records know how long ago that was.
    is_recorded = recorded is not None and recorded.kept_rounds == noted.kept_rounds
    return recorded if is_recorded else noted


class BestRounds:
    """Saves what the clients of one process keep, as rounds are evaluated."""

    def __init__(
        self,
        folder: Path,
        setup: Setup,
        method: Method,
        kept: KeptModels | None,
        *,
        notes: Path | None = None,
    ) -> None:
        """`folder` is where personal models go; `kept` what was kept before a run resumes.

        `notes`: the folder in which a peer notes what it keeps.
        """
        self._folder = folder
        self._setup = setup
        self._method = method
        self._kept = kept
        self._notes = notes

    def keep(self, record: Record, mixtures: Mixtures) -> Record:
        """Save the models of those for whom this round is the best so far.

        Returns the record of the round with the figures of what each client keeps.
        """
        losses = self._losses(mixtures)
        improved = [self._is_better(place, loss) for place, loss in enumerate(losses)]
        record = _with_kept(record, losses, improved, self._kept)
        kept = KeptModels.of(record)
        assert kept is not None, "the round was evaluated"
        self._kept = kept

        clients = self._method.context.hosted[np.array(improved, dtype=bool)]
        save_hosted_clients(
            self._folder,
            self._setup,
            self._method,
            mixtures,
            record.comparisons,
            only=set(clients.tolist()),
        )
        if self._notes is not None and any(improved):
            noted = KEPT.dump_json(kept).decode()
            publish_text(self._notes / BEST_FILE, noted)
        return record

    def gains_no_more(self, patience: int | None) -> bool:
        """Whether no client here has gained for this many evaluated rounds; never without a number.

        Hostile clients of a simulation are not asked.
        """
        if patience is None or self._kept is None:
            return False
        hostile = set(self._setup.hostile.tolist())
        hosted = self._method.context.hosted.tolist()
        waited = [
            rounds
            for client, rounds in zip(hosted, self._kept.without_gain, strict=True)
            if client not in hostile
        ]
        return all(rounds >= patience for rounds in waited)

    def _losses(self, mixtures: Mixtures) -> list[float | None]:
        """Each client's loss on what it has set aside; None where there is nothing to measure."""
        personal = mixtures.personal()
        scores = self._method.learner.score(
            personal.bank, personal.visits, personal.weights, "set aside", personal.calibration
        )
        losses: FloatArray = scores.figures["loss"][self._method.context.hosted]
        return [loss if isfinite(loss) else None for loss in losses.tolist()]

    def _is_better(self, place: int, loss: float | None) -> bool:
        """Whether this client keeps its model of this round instead of what it has kept.

        Who has nothing to choose by keeps that of the last round.
        """
        client = self._method.context.hosted[place]
        set_aside = self._method.learner.data["set aside"]
        has_evidence = set_aside.counts[client] > 0
        if self._kept is None or not has_evidence:
            return True
        return _lower(loss, self._kept.kept_losses[place])


def _lower(loss: float | None, than: float | None) -> bool:
    return (inf if loss is None else loss) < (inf if than is None else than)


def _with_kept(
    record: Record,
    losses: Sequence[float | None],
    improved: Sequence[bool],
    before: KeptModels | None,
) -> Record:
    """The record of a round, with what was kept before where nothing has improved."""
    now = KeptModels(
        kept_rounds=[record.round] * len(losses),
        kept_losses=list(losses),
        without_gain=[0] * len(losses),
        figures=record.figures,
        alone=record.alone,
        together=record.together,
        together_share=record.together_share,
        together_chance=record.together_chance,
    )
    if before is not None:
        waited = []
        for place, loss in enumerate(losses):
            gained = _lower(loss, before.kept_losses[place])
            waited.append(0 if gained else before.without_gain[place] + 1)
        now = KeptModels(
            kept_rounds=_chosen(improved, now.kept_rounds, before.kept_rounds),
            kept_losses=_chosen(improved, now.kept_losses, before.kept_losses),
            without_gain=waited,
            figures=_chosen_figures(improved, now.figures, before.figures),
            alone=_chosen_figures(improved, now.alone, before.alone),
            together=_chosen_figures(improved, now.together, before.together),
            together_share=(
                None
                if now.together_share is None or before.together_share is None
                else _chosen(improved, now.together_share, before.together_share)
            ),
            together_chance=_chosen_chances(improved, now.together_chance, before.together_chance),
        )
    return replace(record, **vars(now))


def _chosen(improved: Sequence[bool], now: Sequence[T], before: Sequence[T]) -> list[T]:
    """Client by client, what is so now where it has improved, and else what was before."""
    return [new if better else old for better, new, old in zip(improved, now, before, strict=True)]


def _chosen_chances(
    improved: Sequence[bool],
    now: Sequence[float | None] | None,
    before: Sequence[float | None] | None,
) -> list[float | None] | None:
    """The same of chances, which nobody noted in older versions."""
    if now is None:
        return None
    if before is None:
        before = [None] * len(now)
    return _chosen(improved, now, before)


def _chosen_figures(
    improved: Sequence[bool], now: Figures | None, before: Figures | None
) -> Figures | None:
    """The same for each metric. Records of many clients do not have all figures of every round."""
    if now is None or before is None:
        return now
    return {name: _chosen(improved, values, before[name]) for name, values in now.items()}


def _some_figures(
    figures: Mapping[str, Sequence[float | None]] | None, places: Sequence[int]
) -> Figures | None:
    if figures is None:
        return None
    return {name: [values[place] for place in places] for name, values in figures.items()}
