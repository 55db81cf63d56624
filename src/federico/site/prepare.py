"""Loads a site's data and builds its model: all that can be wrong with them is found here."""

import numpy as np

from federico.data.conform import conform
from federico.data.dataset import Client, Dataset
from federico.data.files import data_folder
from federico.data.partition import Partition
from federico.data.rotation import turned
from federico.data.split import TrainTestSplit, make_clients
from federico.errors import ConfigError
from federico.experiment.build import Setup, assemble, divide, draw
from federico.experiment.config import Experiment, System, validate
from federico.experiment.sharing_hints import sharing_hints
from federico.learning.model_options import beside
from federico.network.wire.schema import ChunkPlan, ModelSchema
from federico.site.site_file import Site

NO_SAMPLES = np.empty(0, dtype=np.int64)


def prepare_site(site: Site) -> Setup:
    """The setup of a simulation in which this site has its data, and the others have only names."""
    experiment = experiment_of(site)
    seed = site.federation.seed
    data_seed = experiment.data_seed(seed)

    # A site may have only some of the targets: what they are is for the federation to say.
    agreed = site.federation.sample.as_schema()
    loaded = experiment.located_data.for_task(agreed.task).load(data_folder(), data_seed)
    drawn = draw(experiment.split, loaded, data_seed)
    dataset = conform(drawn, agreed)

    own_partition = _own_partition(site, dataset, data_seed)
    dataset = turned(dataset, own_partition)
    own_shares = divide(experiment.split, own_partition, dataset, data_seed)
    (own_client,) = make_clients(dataset, own_shares)

    # In the order of the members, which is that of the clients in a simulation.
    all_clients = []
    train = []
    test = []
    for name in site.federation.members:
        if name == site.name:
            all_clients.append(own_client)
            train.append(own_shares.train[0])
            test.append(own_shares.test[0])
        else:
            all_clients.append(_client_without_data(name, own_client))
            train.append(NO_SAMPLES)
            test.append(NO_SAMPLES)

    shares = TrainTestSplit(site.federation.members, tuple(train), tuple(test))
    setup = assemble(experiment, seed, dataset, shares, all_clients)
    for method in experiment.methods:
        setup.warnings.extend(sharing_hints(experiment, method, setup.layout))
    _check_chunks(site, setup)
    return setup


def experiment_of(site: Site) -> Experiment:
    """The experiment that a simulation of this one peer would be given."""
    federation = site.federation
    options = site.options
    federation_folder = (site.folder / options.federation).parent
    system = System(
        dtype=federation.dtype,
        threads=options.threads,
        memory=options.memory,
        evaluate_every=options.evaluate_every,
        checkpoint_every=options.checkpoint_every,
    )
    tables = {
        "name": federation.name,
        "methods": ("federico",),
        "seeds": (federation.seed,),
        "rounds": federation.rounds,
        "data": options.data,
        "split": options.split,
        "model": beside(federation.model, federation_folder),
        "folder": site.folder,
        "training": federation.training,
        "privacy": federation.privacy,
        "federico": federation.federico,
        "system": system,
    }
    return validate(tables)


def _check_chunks(site: Site, setup: Setup) -> None:
    """Refuse chunks that are too small for the model to be announced."""
    limits = site.federation.limits
    rows = setup.shared_part(setup.experiment.methods[0]).laid_out(setup.layout)
    schema = ModelSchema.of_layout(setup.layout, limits.precision, rows)
    ChunkPlan.of(schema, limits.chunk_bytes)


def _own_partition(site: Site, dataset: Dataset, data_seed: int) -> Partition:
    """A partition of one client: the positions of this site's samples, under its name."""
    if site.options.partition is None:
        return Partition((site.name,), (np.arange(len(dataset)),))

    partition = site.options.partition.cut(dataset.labels, dataset.owners, data_seed)
    client = site.options.client or site.name
    if client not in partition.ids:
        clients = ", ".join(partition.ids)
        raise ConfigError(
            f"client = {client!r}: the partition has no such client; it has {clients}"
        )
    place = partition.ids.index(client)
    own_samples = partition.indices[place]
    own_turns = None
    if partition.quarter_turns is not None:
        own_turns = (partition.quarter_turns[place],)
    return Partition((site.name,), (own_samples,), quarter_turns=own_turns)


def _client_without_data(name: str, own_client: Client) -> Client:
    """Another member, of whom this site knows only the name."""
    return Client(name, own_client.train.take(NO_SAMPLES), own_client.test.take(NO_SAMPLES))
