"""State that a method declares once, as named arrays per client, model or pair.

    class FedEM(Method):
        proportions = PerClient[FloatArray]()

`start` gives it its first value. Saving, resuming, and what each of several processes holds follow
from the declaration: a process holds the entries of the clients or models that it hosts, and laid
end to end the parts of all processes are the state of one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from federico.algorithm.peer_table import PeerTable
from federico.types import Array, FloatArray, IntArray

T = TypeVar("T")
A = TypeVar("A", FloatArray, IntArray, Tensor)


@dataclass(frozen=True)
class SavedPlaces:
    """Where the entries of this process are in a saved state, which may be that of all."""

    clients: IntArray
    models: IntArray


class DeclaredState(ABC, Generic[T]):
    """One named part of a method's state."""

    name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, method: None, kind: type) -> Self: ...

    @overload
    def __get__(self, method: object, kind: type) -> T: ...

    def __get__(self, method: object | None, kind: type) -> Self | T:
        if method is None:
            return self
        if self.name not in vars(method):
            raise AttributeError(f"{kind.__name__}.{self.name} has no value: `start` must set it")
        value: T = vars(method)[self.name]
        return value

    def __set__(self, method: object, value: T) -> None:
        vars(method)[self.name] = value

    @abstractmethod
    def save(self, value: T, copy: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        """What to write into a checkpoint; `copy` copies a large tensor to where there is room."""

    @abstractmethod
    def restore(self, value: T, saved: Mapping[str, Tensor], places: SavedPlaces) -> T:
        """What was saved, in the place of the value that `start` has set where that is possible."""

    @property
    def key(self) -> str:
        """The name in a checkpoint, which no part of every method's own state has."""
        return f"state.{self.name}"


class _Entries(DeclaredState[A]):
    """An array whose first dimension runs over clients or models."""

    def __init__(self, *, where_missing: float | None = None) -> None:
        """`where_missing`: what it is in checkpoints of older versions, which do not say it.

        Without it such a checkpoint cannot be resumed from.
        """
        self.where_missing = where_missing

    def save(self, value: A, copy: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        """See `DeclaredState.save`."""
        if isinstance(value, Tensor):
            return {self.key: copy(value)}
        return {self.key: torch.from_numpy(value.copy())}

    def _restored(self, value: A, state: Mapping[str, Tensor], places: IntArray) -> A:
        if self.key not in state and self.where_missing is not None:
            value[:] = self.where_missing
            return value

        saved = state[self.key]
        if not isinstance(value, Tensor):
            # As it was saved: rounds may have changed the type or shape that `start` gave it.
            return saved.numpy()[places]

        same_shape = value.shape[1:] == saved.shape[1:]
        if value.dtype != saved.dtype or not same_shape:
            return saved[torch.from_numpy(places)].to(value.device)
        # One by one: a copy of all may not fit into memory.
        for k, place in enumerate(places.tolist()):
            value[k].copy_(saved[place])
        return value


class PerClient(_Entries[A]):
    """An array or tensor with an entry for each client: [hosted clients, ...]."""

    def restore(self, value: A, saved: Mapping[str, Tensor], places: SavedPlaces) -> A:
        """See `DeclaredState.restore`."""
        return self._restored(value, saved, places.clients)


class PerModel(_Entries[A]):
    """An array or tensor with an entry for each hosted model, in the order of `bank.owners`."""

    def restore(self, value: A, saved: Mapping[str, Tensor], places: SavedPlaces) -> A:
        """See `DeclaredState.restore`."""
        return self._restored(value, saved, places.models)


B = TypeVar("B", bound=PeerTable)


class PerPair(DeclaredState[dict[int, B]]):
    """For each hosted client, by number, a table of the models it has met.

    class MyMethod(Method):
        visited = PerPair[Visited]()  # Visited declares its columns, see `PeerTable`
    """

    def save(self, value: dict[int, B], copy: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        """See `DeclaredState.save`: the arrays of all clients end to end, and how long each is."""
        arrays = [pairs.state() for pairs in value.values()]
        saved: dict[str, Tensor] = {}
        for key in arrays[0]:
            columns = [named[key] for named in arrays]
            saved[f"{self.key}.{key}"] = torch.from_numpy(np.concatenate(columns))
            # The arrays of a client are all of one length, so the last column tells.
            lengths = [len(column) for column in columns]
            saved[f"{self.key}.lengths"] = torch.tensor(lengths)
        return saved

    def restore(
        self, value: dict[int, B], saved: Mapping[str, Tensor], places: SavedPlaces
    ) -> dict[int, B]:
        """See `DeclaredState.restore`."""
        lengths = saved[f"{self.key}.lengths"].numpy()
        ends = np.cumsum(lengths)
        starts = ends - lengths
        for pairs, place in zip(value.values(), places.clients.tolist(), strict=True):
            entries = slice(starts[place], ends[place])
            own: dict[str, Array] = {}
            for key in pairs.state():
                own[key] = saved[f"{self.key}.{key}"][entries].numpy()
            pairs.restore(own)
        return value


def declared_state(kind: type) -> list[DeclaredState[Any]]:
    """The state that this class and those it derives from declare."""
    found: dict[str, DeclaredState[Any]] = {}
    for each in reversed(kind.__mro__):
        for name, value in vars(each).items():
            if isinstance(value, DeclaredState):
                found[name] = value
    return list(found.values())
