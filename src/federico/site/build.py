"""From a site file to everything its peer needs: all that can be wrong with data and model is found here."""

import numpy as np

from federico.data.conform import conform
from federico.data.dataset import Client, Dataset
from federico.data.files import data_folder
from federico.data.partition import Partition
from federico.data.split import Shares, clients
from federico.errors import ConfigError
from federico.experiment.build import Setup, assemble, divide, draw
from federico.site.site_file import Site

NOTHING = np.empty(0, dtype=np.int64)


def prepare(site: Site) -> Setup:
    """The site with its data among the names of the others, who have theirs elsewhere."""
    experiment, seed = site.experiment, site.agreement.seed
    data_seed = experiment.data_seed(seed)
    loaded = draw(experiment.split, experiment.data.load(data_folder(), data_seed), data_seed)
    dataset = conform(loaded, site.agreement.sample.as_schema())
    shares = divide(experiment.split, _own_part(site, dataset, data_seed), data_seed)
    (own,) = clients(dataset, shares)
    members = [
        own if name == site.name else _elsewhere(name, own) for name in site.agreement.members
    ]
    return assemble(experiment, seed, dataset, _among(site.agreement.members, shares), members)


def _own_part(site: Site, dataset: Dataset, seed: int) -> Partition:
    """The positions of this site's samples, under its name."""
    if site.options.partition is None:
        return Partition((site.name,), (np.arange(len(dataset)),))
    whole = site.options.partition.cut(dataset.labels, dataset.owners, seed)
    part = site.options.part or site.name
    if part not in whole.ids:
        raise ConfigError(
            f"part = {part!r}: the partition has no such part; it has {', '.join(whole.ids)}"
        )
    return Partition((site.name,), (whole.indices[whole.ids.index(part)],))


def _elsewhere(name: str, own: Client) -> Client:
    """A member that this site knows the name of, and nothing else."""
    return Client(name, own.train.take(NOTHING), own.test.take(NOTHING))


def _among(members: tuple[str, ...], own: Shares) -> Shares:
    train, test = (
        tuple(part[0] if name == own.ids[0] else NOTHING for name in members)
        for part in (own.train, own.test)
    )
    return Shares(members, train, test)
