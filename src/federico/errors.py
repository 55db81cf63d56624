"""Errors that a user can act on.

Every message names the key or the file at fault and says what to do about it. The command line
prints the message alone and exits with the code of its class. Any other exception is a bug and
keeps its traceback.
"""


class FedericoError(Exception):
    """Base class of all errors that federico raises on purpose."""

    exit_code = 1


class ConfigError(FedericoError):
    """An experiment file, an option or an argument is not valid."""

    exit_code = 2


class UntrustedCodeError(ConfigError):
    """A file names Python code that would run, and nobody has said that it may."""


class DataError(FedericoError):
    """A data file is missing, is damaged, or does not hold what was asked of it."""

    exit_code = 3


class MissingFileError(DataError):
    """A data file is not where it was looked for."""


class RunError(FedericoError):
    """A run directory cannot be used.

    It belongs to another experiment, it is damaged beyond its checkpoints, or the disk is full.
    """

    exit_code = 4


class MissingDependencyError(FedericoError):
    """An optional package is needed; the message holds the line that installs it."""

    exit_code = 5


class IdentityError(FedericoError):
    """A key, a certificate or a name does not belong to the federation."""

    exit_code = 6


class NetworkError(FedericoError):
    """A peer cannot take part in its federation.

    Its address is in use, nobody can be reached, or the others know another federation.
    """

    exit_code = 7


class PeerDownError(FedericoError):
    """A peer that should run does not run, or gives no sign of life."""

    exit_code = 8


class ProtocolError(FedericoError):
    """Another peer sent something that it may not send.

    The user cannot mend this: the message is dropped and counts against the peer that sent it.
    """


class SignedProtocolError(ProtocolError):
    """Another peer has signed something that it may not send.

    Nobody between the two can have made it up, so it counts even where a relay passes messages on.
    """
