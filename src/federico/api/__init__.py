"""federico from Python: run an experiment, look at what it left, predict."""

from federico.api.estimators import FedericoClassifier, FedericoRegressor
from federico.api.results import Run
from federico.api.running import load, load_client, run
from federico.experiment.observer import Callback

__all__ = [
    "Callback",
    "FedericoClassifier",
    "FedericoRegressor",
    "Run",
    "load",
    "load_client",
    "run",
]
