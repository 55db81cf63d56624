"""Decentralised, personalised federated learning with the right collaborators."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from federico import errors
    from federico.api import (
        Callback,
        FedericoClassifier,
        FedericoRegressor,
        Run,
        load,
        load_client,
        run,
    )

__all__ = [
    "Callback",
    "FedericoClassifier",
    "FedericoRegressor",
    "Run",
    "errors",
    "load",
    "load_client",
    "run",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import torch only when something needs it: `federico --help` does not."""
    if name == "errors":
        return import_module("federico.errors")
    if name in __all__:
        from federico import api

        return getattr(api, name)
    raise AttributeError(f"module 'federico' has no attribute {name!r}")
