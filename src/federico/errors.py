"""Errors a user can act on.

Every message names the key or the file at fault and the remedy. The command line prints the message alone and
leaves with the class's exit code; anything that is not a `FedericoError` is a bug and keeps its traceback.
"""


class FedericoError(Exception):
    """Base of all errors that federico raises on purpose."""

    exit_code = 1


class ConfigError(FedericoError):
    """An experiment, an option or an argument is not valid."""

    exit_code = 2


class DataError(FedericoError):
    """A file is missing, damaged, or does not hold what was asked of it."""

    exit_code = 3


class RunError(FedericoError):
    """A run directory cannot be used: another experiment, damaged beyond its checkpoints, disk full."""

    exit_code = 4


class MissingDependencyError(FedericoError):
    """An optional package is needed; the message holds the line that installs it."""

    exit_code = 5


class IdentityError(FedericoError):
    """A key, a certificate or a name does not belong to the federation."""

    exit_code = 6


class NetworkError(FedericoError):
    """A peer cannot take part: an address in use, nobody reachable, a federation that others do not know."""

    exit_code = 7


class ProtocolError(FedericoError):
    """A peer sent what it may not send. Its doing, not the user's: the message is dropped and the peer noted for it."""
