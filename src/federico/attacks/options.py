"""The table `[attack]`: who is hostile in a simulation, from which round, and how."""

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from federico.errors import ConfigError
from federico.options import Options
from federico.rng import stream
from federico.types import IntArray, Task

AttackKind = Literal[
    "sign-flip",
    "scaled-flip",
    "noise",
    "alie",
    "ipm",
    "mimic",
    "label-flip",
    "model-replacement",
    "backdoor",
    "good-model-bad-moves",
    "good-model-turned-moves",
    "two-faced",
    "free-rider",
    "echo",
    "echo-disguised",
    "nan-elsewhere",
    "absent",
    "honest",
]

STRENGTHS: dict[AttackKind, float] = {
    "sign-flip": 1.0,
    "scaled-flip": 10.0,
    "noise": 10.0,
    "alie": 1.5,
    "ipm": 0.5,
    "good-model-bad-moves": 10.0,
    "good-model-turned-moves": 1.0,
    "two-faced": 1.0,
    "echo": 10.0,
    "echo-disguised": 10.0,
}
"""How strong an attack is if nothing is said; the other kinds have no strength."""


class AttackOptions(Options):
    """Members of a simulation that are hostile. Reports are about the others."""

    kind: AttackKind
    """What they do. Updates that they send to the owners of models: `sign-flip` (what they have
    computed, backwards), `scaled-flip` (the owner's own update backwards and much longer), `noise`,
    `alie` (a little is enough: the honest mean less some standard deviations), `ipm` (the honest
    mean backwards and short), `mimic` (all send what one honest member sends), `model-replacement`
    (whatever leads to a model that knows nothing), `good-model-bad-moves` (as `scaled-flip`, beside
    an honest model), `good-model-turned-moves` (what one honest member sends, backwards, beside an
    honest model), `two-faced` (the same to every second member, honest updates to the others),
    `free-rider` (zeros), `echo` (as `scaled-flip`, and they serve every reader its own model),
    `echo-disguised` (as `echo`, in other numbers that answer alike: the same is added to the score
    of every class, which makes none more likely). What they train on: `label-flip`, `backdoor` (a
    mark in the input means a label of their choice). `nan-elsewhere`: the models that they serve
    are honest wherever they are measured, and not a number for any test sample of others. `absent`:
    they are not there, which is what an attack is compared with. `honest`: they are like all
    others, only that reports leave them out."""
    count: PositiveInt = 1
    """How many members are hostile, drawn by the seed; those of a smaller count are among them."""
    members: tuple[str, ...] = ()
    """The names of those that are hostile, instead of `count`."""
    from_round: PositiveInt = 1
    """The first round in which they are hostile."""
    strength: PositiveFloat | None = None
    """How long an update is, in lengths of what it is made of; for `alie` the number of standard
    deviations. If not set, 1.5 for `alie`, 0.5 for `ipm`, 1 for `sign-flip`,
    `good-model-turned-moves` and `two-faced`, 10 for others."""
    coefficient: PositiveFloat = 1e6
    """What hostile members say that their updates count for; in `sign-flip` they say the truth."""
    target: NonNegativeInt = 0
    """The label that the mark of a `backdoor` stands for, counted from 0."""
    marked: float = Field(default=0.5, gt=0, le=1)
    """The share of their samples that get the mark in a `backdoor`."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Refuse options that contradict each other or would have no effect."""
        if self.members and "count" in self.model_fields_set:
            raise ValueError("count and members both say who is hostile: give one of them")
        if len(set(self.members)) < len(self.members):
            raise ValueError("members: each name only once")
        if self.strength is not None and self.kind not in STRENGTHS:
            raise ValueError(f"strength: {self.kind} has none; take it out")
        for name in ("target", "marked"):
            if name in self.model_fields_set and self.kind != "backdoor":
                raise ValueError(f"{name} is about a backdoor: take it out, or set kind = backdoor")
        return self

    @property
    def strength_used(self) -> float:
        """The strength that is set, or else the one that is usual for this kind."""
        if self.strength is not None:
            return self.strength
        return STRENGTHS.get(self.kind, 1.0)

    def who(self, names: Sequence[str], seed: int) -> IntArray:
        """The numbers of the hostile clients, in ascending order."""
        for name in self.members:
            if name not in names:
                raise ConfigError(f"attack.members: there is no client {name!r}")
        numbers = [names.index(name) for name in self.members]
        if not numbers:
            order = stream(seed, "hostile members").permutation(len(names))
            numbers = order[: self.count].tolist()
        if len(numbers) >= len(names) or self.count >= len(names):
            raise ConfigError(
                f"attack: of {len(names)} clients at least one must be honest; "
                "make count smaller, or name fewer members"
            )
        return np.sort(np.array(numbers, dtype=np.int64))

    def check(self, task: Task, outputs: int, rounds: int) -> None:
        """Refuse what does not go with the data, or would never happen."""
        if self.from_round > rounds:
            raise ConfigError(
                f"attack.from_round = {self.from_round}: there are {rounds} rounds, so nobody "
                "would ever be hostile; choose an earlier round, or kind = 'honest'"
            )
        if task == "regression" and self.kind in ("backdoor", "echo-disguised"):
            raise ConfigError(f"attack.kind = {self.kind!r}: needs classes; choose another kind")
        if self.kind == "backdoor" and self.target >= outputs:
            raise ConfigError(
                f"attack.target = {self.target}: there are {outputs} labels, counted from 0"
            )
