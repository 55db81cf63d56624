"""How much memory a peer will take, and where its models lie if there is less."""

import logging

from federico.experiment.build import Setup
from federico.experiment.memory_plan import (
    Plan,
    gib,
    in_memory,
    memory_limit,
    moments_bytes,
    needs_of,
    on_disk,
    row_bytes,
    scratch,
)
from federico.learning.rows import RowStorage
from federico.network.limits import Limits
from federico.network.wire.encoding import WIDTHS
from federico.network.wire.schema import ModelSchema
from federico.site.site_file import Site

log = logging.getLogger(__name__)
NETWORK_BYTES = 8 << 20
"""A session with nothing under way."""


def plan(setup: Setup, limits: Limits) -> Plan:
    """The peak of one peer whose like are elsewhere: it holds its own model and those that it visits or predicts with.

    Updates, its own and those of others, wait in files.
    """
    members, needs = len(setup.clients), needs_of(setup, "federico")
    visits, pairs, fresh = (
        -(-count // members) for count in (needs.updates, needs.pairs, needs.fresh)
    )
    models, optimizers = max(visits, pairs) * row_bytes(setup), pairs * moments_bytes(setup)
    return Plan(
        {
            **in_memory(setup),
            "network": _network(setup, limits, visits - 1),
            "models": models,
            "optimizers": optimizers,
            "updates or checkpoint": max(
                fresh * moments_bytes(setup), row_bytes(setup) + optimizers
            ),
        }
    )


def storage(site: Site, setup: Setup) -> RowStorage:
    """Where models lie; what cannot fit anywhere is refused."""
    needed, limit = plan(setup, site.federation.limits), memory_limit(setup)
    place = scratch(needed, limit, site.state)
    if place is not None:
        log.warning(on_disk(needed, limit))
    return RowStorage(place, outbox=site.state)


def outlook(site: Site, setup: Setup) -> str:
    """What the peer will need, or why it cannot have it."""
    needed, limit = plan(setup, site.federation.limits), memory_limit(setup)
    where = (
        "in memory"
        if scratch(needed, limit, site.state) is None
        else "on the disk, which takes longer"
    )
    return (
        f"about {gib(needed.total)} at the peak, of {gib(limit)}; models and optimizers lie {where}"
    )


def _network(setup: Setup, limits: Limits, neighbors: int) -> int:
    """Chunks on their way out and in, and the own model in other numbers where those are sent."""
    sent = ModelSchema.of_layout(setup.layout, limits.precision)
    packed = 0 if sent.wire == sent.dtype else sent.size * WIDTHS[sent.wire]
    return NETWORK_BYTES + 2 * neighbors * limits.window * limits.chunk_bytes + packed
