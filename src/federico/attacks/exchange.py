"""An exchange among whose members some are hostile: it wraps any other exchange.

What hostile members send is made where it arrives, at the owner: there all honest updates are
known, so the same attack gives the same numbers in one process and on many ranks. A hostile member
sends something to every owner in every round, whether it has been sampled or not. The bytes that
are counted are those of an honest member.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from federico.attacks.hostile_updates import HOSTILE_DELTAS, OF_THEIR_OWN_MODEL_TOO, Opportunity
from federico.attacks.options import AttackOptions
from federico.attacks.shown_models import (
    ShownDisguisedEchoes,
    ShownEchoes,
    ShownNanElsewhere,
    without_effect,
)
from federico.exchange.protocol import Exchange, Updates
from federico.learning.bank import Bank
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.rng import stream
from federico.types import IntArray


class HostileExchange:
    """Carries what the wrapped exchange carries, but for what hostile members do."""

    def __init__(
        self,
        inner: Exchange,
        bank: Bank,
        attack: AttackOptions,
        members: IntArray,
        seed: int,
        poison: Callable[[], None],
        outputs: int,
    ) -> None:
        """`poison` spoils the hostile members' samples; it is called once, when they turn hostile.

        `outputs` is how many numbers a model gives for a sample.
        `members` are the hostile ones among all clients, wherever they are hosted.
        """
        self.traffic = inner.traffic
        self._inner = inner
        self._bank = bank
        self._attack = attack
        self._members = members
        self._seed = seed
        self._poison = poison
        self._is_poisoned = False
        self._disguise: Tensor | None = None
        if attack.kind == "echo-disguised":
            added = without_effect(bank.layout, outputs, seed)
            self._disguise = bank.shared.cut(added)

    def withhold(self, owners: IntArray) -> None:
        """See `Exchange.withhold`."""
        self._inner.withhold(owners)

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        """See `Exchange.pull`. Hostile members turn hostile here."""
        self._turn_hostile(round_index)
        return self._inner.pull(round_index, self._possible(round_index, wanted))

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        """See `Exchange.read_models`."""
        return self._inner.read_models(round_index, self._possible(round_index, visits))

    def push(self, round_index: int, updates: Updates) -> None:
        """See `Exchange.push`."""
        self._turn_hostile(round_index)
        self._inner.push(round_index, updates)

    def collect(self, round_index: int) -> Updates:
        """See `Exchange.collect`, with what hostile members send instead."""
        updates = self._inner.collect(round_index)
        if not self._is_hostile(round_index) or len(updates) == 0:
            return updates
        if self._attack.kind == "absent":
            return self._without_members(updates)
        if self._attack.kind in HOSTILE_DELTAS:
            return self._with_hostile_updates(round_index, updates)
        return updates

    def _is_hostile(self, round_index: int) -> bool:
        return round_index >= self._attack.from_round

    def _turn_hostile(self, round_index: int) -> None:
        """Begin with what the attack does beyond messages, once its round has come."""
        if not self._is_hostile(round_index):
            return
        if not self._is_poisoned:
            self._poison()
            self._is_poisoned = True
        if self._attack.kind == "echo":
            self._bank.shown = ShownEchoes(self._members)
        if self._disguise is not None:
            self._bank.shown = ShownDisguisedEchoes(self._members, self._disguise)
        if self._attack.kind == "nan-elsewhere":
            self._bank.shown = ShownNanElsewhere(self._members)

    def _possible(self, round_index: int, visits: Visits) -> Visits:
        """The visits without those to and by members that are absent."""
        if self._attack.kind != "absent" or not self._is_hostile(round_index):
            return visits
        to_absent = np.isin(visits.owners, self._members)
        by_absent = np.isin(visits.clients, self._members)
        is_among_others = ~(to_absent | by_absent)
        is_possible = is_among_others | visits.are_own
        return visits[np.flatnonzero(is_possible)]

    def _without_members(self, updates: Updates) -> Updates:
        """The updates without what hostile members send to others, and others to them."""
        is_theirs = np.isin(updates.contributors, self._members)
        is_to_them = np.isin(updates.owners, self._members)
        is_between_honest = ~(is_theirs | is_to_them)
        arrives = is_between_honest | updates.are_own
        return updates.take(np.flatnonzero(arrives))

    def _with_hostile_updates(self, round_index: int, updates: Updates) -> Updates:
        """The updates with those that hostile members send to every owner in place of theirs."""
        kept: list[int] = []
        owners: list[int] = []
        contributors: list[int] = []
        coefficients: list[float] = []
        deltas: list[Tensor] = []
        rows = updates.rows.as_tensor()
        for owner, positions in updates.by_owner():
            senders = self._members
            if self._attack.kind == "two-faced" and owner % 2 == 0:
                kept += positions.tolist()
                continue
            if owner in self._members:
                if self._attack.kind not in OF_THEIR_OWN_MODEL_TOO:
                    kept += positions.tolist()
                    continue
                # Nobody mends the model of a member that spoils it.
                senders = np.array([owner])
            else:
                is_theirs = np.isin(updates.contributors[positions], self._members)
                kept += positions[~is_theirs].tolist()

            for sender in senders.tolist():
                delta, coefficient = self._hostile_delta(
                    round_index, updates, rows, owner, positions, sender
                )
                if delta is not None:
                    owners.append(owner)
                    contributors.append(sender)
                    coefficients.append(coefficient)
                    deltas.append(delta)
        if not deltas:
            return updates.take(np.array(kept, dtype=np.int64))

        honest = updates.take(np.array(kept, dtype=np.int64))
        together = Updates(
            np.append(honest.owners, owners),
            np.append(honest.contributors, contributors),
            np.append(honest.coefficients, coefficients),
            Rows.of(torch.cat([honest.rows.as_tensor(), torch.stack(deltas)])),
        )
        order = np.lexsort((together.contributors, together.owners))
        return together.take(order)

    def _hostile_delta(
        self,
        round_index: int,
        updates: Updates,
        rows: Tensor,
        owner: int,
        positions: IntArray,
        sender: int,
    ) -> tuple[Tensor | None, float]:
        """What a hostile member sends an owner, and what it says that this counts for."""
        contributors = updates.contributors[positions]
        is_known = ~np.isin(contributors, self._members) | (contributors == owner)
        known = positions[is_known] if is_known.any() else positions
        deltas = rows[known]
        is_own = updates.contributors[known] == owner
        own = deltas[is_own][0] if is_own.any() else deltas.mean(0)
        others = deltas[~is_own]

        computed = positions[contributors == sender]
        coefficient = self._attack.coefficient
        if self._attack.kind == "sign-flip":
            if len(computed) == 0:
                return None, 0.0  # it turns round what it has computed, and there is nothing
            coefficient = float(updates.coefficients[computed[0]])

        model = self._bank.rows[int(self._bank.places(np.array([owner]))[0])]
        replacement = model
        if self._attack.kind == "model-replacement":
            whole = self._bank.layout.initial(self._seed, f"replacement by {sender}")
            replacement = self._bank.shared.cut(whole)
        chance = Opportunity(
            model=model,
            own_delta=own,
            honest_deltas=deltas,
            mimicked=others[0] if len(others) else own,
            computed=rows[computed[0]] if len(computed) else own,
            replacement=replacement.to(model.device),
            strength=self._attack.strength_used,
            rng=stream(self._seed, "attack", sender, owner, round_index),
        )
        return HOSTILE_DELTAS[self._attack.kind](chance), coefficient
