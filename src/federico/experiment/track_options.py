"""The table `[track]` of an experiment file."""

from typing import Literal

from pydantic import Field, NonNegativeInt

from federico.options import Options

Tracker = Literal["tensorboard", "mlflow", "wandb"]


class TrackOptions(Options):
    """Where to write the figures of every round, beside the records of the run directory.

    Everything stays on this machine unless the trackers' own variables say otherwise
    (`WANDB_MODE`, `MLFLOW_TRACKING_URI`).
    """

    to: tuple[Tracker, ...] = ()
    """Any of `tensorboard`, `mlflow` and `wandb`."""
    module: str = Field(default="wandb", pattern=r"^[A-Za-z_][\w.]*$")
    """Module with the interface of wandb, for `to = ["wandb"]`: `wandb`, or `trackio`."""
    clients: NonNegativeInt = 20
    """Figures of each client are written for this many clients, the first ones; means over all
    clients always."""
    models: bool = False
    """Whether trackers that keep artefacts also keep the clients' personal models."""
