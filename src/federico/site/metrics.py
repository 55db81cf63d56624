"""What a peer tells a monitoring system, in the text format of Prometheus, if its site asks for it.

The figures are those of the status: nothing leaves that `federico peer status` would not show.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from federico.errors import NetworkError
from federico.site.status import Status


class StatusCollector(Collector):
    """Turns the status of the moment into metrics."""

    def __init__(self, status: Callable[[], Status]) -> None:
        """`status` gives what the peer has to say about itself now."""
        self._status = status

    def collect(self) -> Iterable[Metric]:
        """All metrics of one status."""
        status = self._status()
        yield _gauge("round", "Last round that was completed", status.round)
        yield _gauge("rounds", "Rounds that each member plays", status.rounds)
        yield _by_label("phase", "1 for what the peer does now", "phase", {str(status.phase): 1})
        yield _gauge("started_timestamp_seconds", "When the process started", status.started)
        if status.certificate_ends is not None:
            yield _gauge(
                "certificate_expiry_timestamp_seconds",
                "When the certificate of the site expires",
                status.certificate_ends,
            )
        yield from _scores(status)
        yield _traffic(status)
        yield from _members(status)


@contextmanager
def serving_metrics(address: str | None, status: Callable[[], Status]) -> Iterator[None]:
    """Serve the metrics at `host:port` as long as the block lasts; None: nowhere."""
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    registry.register(StatusCollector(status))
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        raise NetworkError(
            f"metrics = {address!r}: cannot be listened on: {error.strerror or error}"
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _scores(status: Status) -> Iterator[Metric]:
    """How good the site's predictions are: as used, alone, and how much the others count."""
    yield _by_label("figure", "On the own test data, as used", "metric", status.figures)
    if status.comparison is not None:
        alone = status.comparison.alone
        yield _by_label("figure_alone", "The same of the model trained alone", "metric", alone)
        share = status.comparison.together_share
        yield _gauge("together_share", "How much collaborators count, 0 to 1", share)
        chance = status.comparison.together_chance
        if chance is not None:
            sentence = "How probable it is that collaborators do better than alone, 0 to 1"
            yield _gauge("together_chance", sentence, chance)


def _traffic(status: Status) -> Metric:
    family = CounterMetricFamily(
        "federico_bytes", "Bytes of models and updates", labels=["direction", "purpose"]
    )
    family.add_metric(["sent", "training"], status.sent)
    family.add_metric(["received", "training"], status.received)
    family.add_metric(["sent", "evaluation"], status.evaluation_sent)
    family.add_metric(["received", "evaluation"], status.evaluation_received)
    return family


def _members(status: Status) -> Iterator[Metric]:
    here: dict[str, float | None] = {}
    strikes: dict[str, float | None] = {}
    refused: dict[str, float | None] = {}
    standing: dict[str, float | None] = {}
    for name, member in status.members.items():
        here[name] = int(member.here)
        strikes[name] = member.strikes
        refused[name] = member.refusals
        standing[name] = member.standing

    # Several rounds may wait for one member: what counts is the longest wait.
    waited: dict[str, float | None] = {}
    for wait in sorted(status.waits, key=lambda wait: wait.since, reverse=True):
        seconds = status.updated - wait.since
        waited[wait.member] = max(seconds, 0.0)  # it may have begun while the status was written

    yield _by_label("member_here", "Whether a member is here now", "member", here)
    yield _by_label("member_strikes", "Messages against the rules", "member", strikes)
    yield _by_label("member_refused_updates", "Updates that had to be refused", "member", refused)
    yield _by_label("member_standing", "What is left after refusals, 0 to 1", "member", standing)
    yield _by_label("member_trust", "Weight in the posterior", "member", status.posterior)
    yield _by_label("waiting_seconds", "How long a member is waited for", "member", waited)


def _gauge(name: str, sentence: str, value: float) -> Metric:
    return GaugeMetricFamily(f"federico_{name}", sentence, value)


def _by_label(name: str, sentence: str, label: str, values: Mapping[str, float | None]) -> Metric:
    """One value for each label; what is not known is left out."""
    family = GaugeMetricFamily(f"federico_{name}", sentence, labels=[label])
    for key, value in values.items():
        if value is not None:
            family.add_metric([key], value)
    return family
