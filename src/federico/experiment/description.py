"""What a cell says of itself in `cell.json`."""

import numpy as np

from federico.data.dataset import Client
from federico.experiment.build import Setup
from federico.experiment.grid import Cell
from federico.learning.structure import structure_of
from federico.runs.layout import Description
from federico.runs.provenance import installed_versions


def describe(cell: Cell, setup: Setup, command: str) -> Description:
    """The description of a cell that is about to be run by this command."""
    distribution = setup.shares.distribution
    label_counts = []
    if setup.schema.label_names:
        label_counts = [_label_counts(each, setup.schema.outputs) for each in setup.clients]
    experiment = setup.experiment
    return Description(
        method=cell.method,
        seed=cell.seed,
        task=setup.schema.task,
        clients=list(setup.shares.ids),
        distribution=None if distribution is None else list(distribution),
        train_samples=[len(client.train) for client in setup.clients],
        test_samples=[len(client.test) for client in setup.clients],
        label_names=list(setup.schema.label_names),
        label_counts=label_counts,
        model_parameters=setup.layout.parameters,
        model_bytes=setup.layout.size * setup.layout.dtype.itemsize,
        data_hash=setup.data_hash,
        partition_hash=setup.shares.hash,
        options=cell.options,
        versions=installed_versions(),
        command=command,
        row=cell.row,
        title=cell.title,
        column=cell.column,
        rate=cell.rate,
        rate_kind=cell.rate_kind,
        settings=cell.settings,
        model_structure=structure_of(setup.layout.template),
        hostile=[setup.shares.ids[number] for number in setup.hostile.tolist()],
        clients_drawn=experiment.partition.draws_clients and experiment.split.seed is None,
    )


def _label_counts(client: Client, outputs: int) -> list[int]:
    """How many training samples of each label the client has."""
    labels = client.train.y.astype(np.int64)
    counts: list[int] = np.bincount(labels, minlength=outputs).tolist()
    return counts
