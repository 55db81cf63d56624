"""The methods by name."""

from federico.methods.clustered import Clustered
from federico.methods.fedavg import FedAvg
from federico.methods.fedavg_plus import FedAvgPlus
from federico.methods.fedem import FedEM
from federico.methods.federico import Federico
from federico.methods.fedfomo import FedFomo
from federico.methods.local import Local
from federico.methods.method import Method

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (Federico, Local, FedAvg, FedAvgPlus, Clustered, FedEM, FedFomo)
}
