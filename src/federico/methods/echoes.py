"""Finds models of others that are a reader's own: nobody is to earn trust with an echo.

An echo of a peer's own model fits the peer's samples as well as its own model does, so it would be
trusted like that of a true collaborator. Each peer remembers sketches of its own model after every
round: a few numbers each, whose distance tells that of the models, and how differently they answer.
A model that is as close to one of them as a part of what a round usually changes is an echo.
"""

import logging
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from federico.learning.bank import Bank
from federico.learning.visits import Visits
from federico.methods.answers import NUMBERS as ANSWER_NUMBERS
from federico.rng import stream
from federico.types import BoolArray, FloatArray, IntArray

log = logging.getLogger(__name__)

REMEMBERED = 32
"""Rounds after which a peer still knows its model of then."""
NUMBERS = 32
"""Numbers in a sketch: distances are right to about an eighth."""
CLOSE = 0.01
"""A model that is closer to one's own than this part of how far one's own usually moves in a round
is an echo of it."""
CLOSE_ANSWERS = 0.1
"""A model whose answers are closer to one's own than this part of how far one's own usually change
in a round is an echo of it. Honest models of an easy problem come closer than half a round's.
"""
STEPS_TO_COMPARE = 5
"""Rounds after which answers are compared: before, one's own change too much from round to round.
"""
MOST_NUMBERS = 1 << 22
"""Numbers of models that are copied at a time to sketch them."""
MET_TOGETHER = 4096
"""Sketches that are compared with trails at a time."""


class Echoes:
    """Knows what the models of the clients hosted here were, and finds copies of them."""

    def __init__(self, bank: Bank, hosted: IntArray, names: Sequence[str], seed: int) -> None:
        """`names` are those of all clients."""
        self._bank = bank
        self._hosted = hosted
        self._names = names
        size = bank.row_layout.size
        signs = stream(seed, "sketches of models").choice([-1, 1], size).astype(np.int8)
        self._signs = torch.from_numpy(signs).to(bank.rows.device)
        self._reported: set[tuple[int, int]] = set()

    def nothing_yet(self) -> Tensor:
        """The trail of clients that have not played a round: [hosted, rounds, numbers]."""
        return torch.full((len(self._hosted), REMEMBERED, NUMBERS), torch.nan)

    def nothing_answered_yet(self) -> Tensor:
        """The same of what their models answer."""
        return torch.full((len(self._hosted), REMEMBERED, ANSWER_NUMBERS), torch.nan)

    def remember(self, trail: Tensor) -> None:
        """Add the clients' models, as they are now, to the end of their trail."""
        places = self._bank.places(self._hosted)
        _add(trail, self._sketches(places))

    def remember_answers(self, trail: Tensor, answers: FloatArray) -> None:
        """Add what the clients' models answer now, [hosted, numbers], to the end of their trail."""
        _add(trail, torch.from_numpy(answers).float())

    def among(
        self, visits: Visits, trail: Tensor, answers: FloatArray, answer_trail: Tensor
    ) -> BoolArray:
        """Which visits meet an echo of the visitor's own model, [visits].

        `answers` are sketches of what each visit's model answers, [visits, numbers].
        """
        belongs_to_client = visits.owners < len(self._names)
        to_others = np.flatnonzero(belongs_to_client & ~visits.are_own)
        met = self._sketches_met(visits[to_others])

        visitors = np.searchsorted(self._hosted, visits.clients[to_others])
        same_numbers = _are_close(met, trail, visitors, CLOSE)
        answered = torch.from_numpy(answers[to_others]).float()
        same_answers = _are_close(
            answered, answer_trail, visitors, CLOSE_ANSWERS, least_steps=STEPS_TO_COMPARE
        )
        is_echo = np.zeros(len(visits), dtype=bool)
        is_echo[to_others] = same_numbers | same_answers
        self._report(visits[np.flatnonzero(is_echo)])
        return is_echo

    def _sketches_met(self, visits: Visits) -> Tensor:
        """The sketches of the models that these visits meet, [visits, numbers]."""
        places = self._bank.places_met(visits)
        distinct, which = torch.unique(places, return_inverse=True)
        met = self._sketches(distinct)[which]
        for position in np.flatnonzero(self._bank.shown.are_disguised(visits)).tolist():
            row = self._bank.rows_met(visits[np.array([position])])
            met[position] = self._sketch(row)[0]
        return met

    def _sketches(self, places: Tensor) -> Tensor:
        """The sketches of the models at these places, [places, numbers]."""
        sketched = [torch.empty(0, NUMBERS)]
        at_a_time = max(1, MOST_NUMBERS // max(1, len(self._signs)))
        for some in torch.split(places, at_a_time):
            sketched.append(self._sketch(self._bank.rows[some]))
        return torch.cat(sketched)

    def _sketch(self, rows: Tensor) -> Tensor:
        """The sketches of these models, [models, numbers].

        A model is cut into as many parts as a sketch has numbers; each number is the sum of a part,
        with a sign for each of its numbers that was drawn once for all models.
        """
        parts = rows.tensor_split(NUMBERS, dim=1)
        signs = self._signs.tensor_split(NUMBERS)
        sums: list[Tensor] = []
        for part, sign in zip(parts, signs, strict=True):
            # In double precision: numbers of both signs cancel out.
            sums.append(part.double() @ sign.double())
        sketches = torch.stack(sums, dim=1)
        return sketches.float().cpu()

    def _report(self, echoes: Visits) -> None:
        """Say once who gives whom an echo."""
        for client, owner in echoes.pairs:
            if (client, owner) not in self._reported:
                self._reported.add((client, owner))
                theirs = self._names[owner]
                reader = self._names[client]
                log.info("the model of %s is that of %s itself: it is not trusted", theirs, reader)


def _add(trail: Tensor, newest: Tensor) -> None:
    """Add sketches [hosted, numbers] to the end of a trail, and forget the oldest."""
    trail[:, :-1] = trail[:, 1:].clone()
    trail[:, -1] = newest


def _are_close(
    met: Tensor, trail: Tensor, visitors: IntArray, part: float, *, least_steps: int = 0
) -> BoolArray:
    """Which of the sketches [met, numbers] are about one of the visitor's own.

    `visitors` are the places [met] of those who met them in the trail [hosted, rounds, numbers].
    About means closer than this part of a usual step; a visitor that has made fewer than
    `least_steps` does not know a usual one.
    """
    # A round that is not remembered is NaN: it counts for no step, and is close to nothing.
    steps = _lengths(trail[:, 1:] - trail[:, :-1])  # [hosted, rounds - 1]
    usual_step = steps.nanmedian(dim=1).values
    usual_step[torch.isfinite(steps).sum(1) < least_steps] = torch.nan

    are_close = np.zeros(len(met), dtype=bool)
    can_be_close = np.flatnonzero(~usual_step.isnan().numpy()[visitors])
    for first in range(0, len(can_be_close), MET_TOGETHER):
        some = can_be_close[first : first + MET_TOGETHER]
        own = trail[visitors[some]]  # [some, rounds, numbers]
        distances = _lengths(met[some][:, None] - own)  # [some, rounds]
        close = distances < part * usual_step[visitors[some]][:, None]
        are_close[some] = close.any(1).numpy()
    return are_close


def _lengths(differences: Tensor) -> Tensor:
    """The Euclidean length of each difference of sketches, which is about that of the models."""
    lengths: Tensor = torch.linalg.vector_norm(differences, dim=-1)
    return lengths
