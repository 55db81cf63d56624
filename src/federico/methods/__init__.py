"""The methods: each a file of its own. `METHODS` has the built-in ones by name."""

from federico.methods.registry import METHODS

__all__ = ["METHODS"]
