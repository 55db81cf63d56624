from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.workloads import WORKLOADS, Workload
from federico.experiment.build import prepare


@pytest.mark.parametrize("work", WORKLOADS.values(), ids=WORKLOADS)
def test_workload_is_a_valid_experiment_of_federico_alone(work: Workload) -> None:
    experiment = work.load(7, "system.threads=1")
    assert (experiment.name, experiment.methods, experiment.seeds) == (
        work.name,
        ("federico",),
        (0,),
    )
    assert (experiment.rounds, experiment.system.threads, experiment.federico.neighbors) == (
        7,
        1,
        3,
    )


@pytest.mark.parametrize(
    ("name", "needs", "clients", "samples"),
    [
        ("linear", "", 64, 24),
        ("mlp", "office-home", 10, 958),
        ("cnn2", "cifar-10-batches-bin", 8, 100),
        ("resnet18", "cifar-100-binary", 8, 50),
    ],
)
def test_clients_have_the_data_that_the_page_says(
    real_data: Callable[[str], Path], name: str, needs: str, clients: int, samples: int
) -> None:
    if needs:
        real_data(needs)
    setup = prepare(WORKLOADS[name].load(1), 0)
    assert len(setup.clients) == clients
    assert min(len(client.train) for client in setup.clients) == samples
