"""The work that is measured: experiments of this repository, at sizes that fit a benchmark."""

from dataclasses import dataclass

from benchmarks.pace import Plan
from benchmarks.store import ROOT
from federico.experiment.config import Experiment, load

EXPERIMENTS = ROOT / "experiments"
EVERY_ROUND = "system.checkpoint_every=1"
"""More often than the default: the twins start from what is in them."""
ALL_TRAINED = ("federico.preset=paper", "federico.worse_than_guess=tracked")
"""All that is visited is trained: how much work a round has must not hang on who is worth what by
then."""


@dataclass(frozen=True)
class Workload:
    """An experiment, and which of its rounds are measured."""

    name: str
    title: str
    experiment: str
    changes: tuple[str, ...]
    warm: int
    """Rounds played once before all measurements, so that posteriors are what a real run has."""
    plan: Plan
    note: str
    """What a reader must know of its size."""

    def load(self, rounds: int, *more: str) -> Experiment:
        """The experiment of that many rounds, FedeRiCo alone."""
        own = (f'name="{self.name}"', 'methods=["federico"]', "seeds=[0]", f"rounds={rounds}")
        common = (EVERY_ROUND, *ALL_TRAINED)
        return load(EXPERIMENTS / f"{self.experiment}.toml", (*own, *common, *self.changes, *more))


WORKLOADS = {
    work.name: work
    for work in (
        Workload(
            "linear",
            "linear, sine, K=64",
            "sine",
            # The twin compares values in their own units.
            ("data.clients=64", "training.standardize_targets=false"),
            20,
            Plan(5, 5),
            "64 clients, 24 training samples each, M = 3; every sixth of rounds 21 to 50",
        ),
        Workload(
            "mlp",
            "MLP, Office-Home, K=10",
            "office-home",
            (),
            12,
            Plan(1, 3),
            "10 clients in 4 label groups, all 15,588 samples, M = 3; rounds 14, 16 and 18",
        ),
        Workload(
            "cnn2",
            "CNN2, CIFAR-10, K=8",
            "cifar10",
            ("split.samples=1000",),
            10,
            Plan(1, 2),
            "8 clients in 2 label groups, 100 training samples each (a fifth of the paper's), "
            "M = 3; rounds 12 and 14",
        ),
        Workload(
            "resnet18",
            "ResNet-18, CIFAR-100, K=8",
            "cifar100",
            ("split.samples=560", "split.max_train=50"),
            0,
            Plan(1, 1),
            "8 clients in 2 label groups, 50 training samples each (a fifteenth of the paper's), "
            "M = 3; round 2 alone, "
            "after one of own training",
        ),
    )
}
