"""Which models a method has: who owns each, what people call it, and where it starts from."""

from collections.abc import Sequence
from dataclasses import dataclass

GLOBAL = "*global"
"""The random stream of a model that belongs to no client; the star keeps it apart from clients."""


@dataclass(frozen=True)
class ModelOwner:
    """One model of a method."""

    owner: int
    """The client it belongs to, 0 to K-1; models that belong to no client are numbered from K."""
    title: str
    """What people read: a client's name, or what a shared model is."""
    start: str
    """The random stream that its first parameters are drawn from; equal names give equal models."""


def one_per_client(clients: Sequence[str], *, same_start: bool = False) -> list[ModelOwner]:
    """A model for every client, each from a start of its own or all from one."""
    models: list[ModelOwner] = []
    for i, name in enumerate(clients):
        start = GLOBAL if same_start else name
        models.append(ModelOwner(i, name, start))
    return models


def shared_models(
    clients: Sequence[str], titles: Sequence[str], *, same_start: bool = False
) -> list[ModelOwner]:
    """Models that belong to no client, one for each title; the first process hosts them all.

    The first one always starts where FedAvg's global model does.
    """
    models: list[ModelOwner] = []
    for m, title in enumerate(titles):
        start = GLOBAL if m == 0 or same_start else f"{GLOBAL} {m}"
        models.append(ModelOwner(len(clients) + m, title, start))
    return models
