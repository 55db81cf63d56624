"""Which models a method has: who owns each, what people call it, and where it starts from."""

from collections.abc import Sequence
from dataclasses import dataclass

GLOBAL = "*global"
"""The random stream of a model that belongs to no client; the star keeps it apart from clients."""


@dataclass(frozen=True)
class ModelOwner:
    """One model of a method."""

    owner: int
    """The client it belongs to, 0 to K-1; private models and those that belong to no client are
    numbered from K."""
    title: str
    """What people read: a client's name, or what a shared model is."""
    start: str
    """The random stream that its first parameters are drawn from; equal names give equal models."""
    private_to: int | None = None
    """The only client that ever sees it, if it is a private model."""


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


def private_models(clients: Sequence[str], what: str, first: int) -> list[ModelOwner]:
    """A model for every client that only this client sees, from where training alone starts.

    They are numbered from `first`; `what` says what each is for.
    """
    models: list[ModelOwner] = []
    for i, name in enumerate(clients):
        title = f"{name} ({what})"
        models.append(ModelOwner(first + i, title, start=name, private_to=i))
    return models
