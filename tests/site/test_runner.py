"""One peer as a site runs it, beside another that a test drives: both in this process."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zenoh

from federico.exchange.protocol import Hosting
from federico.experiment.build import Setup
from federico.learning.bank import Bank
from federico.learning.personal_parts import PersonalParts
from federico.learning.visits import Visits
from federico.network.exchange import NetworkExchange
from federico.network.wire.signing import Signer
from federico.runs.bundle import open_folder
from federico.runs.comparison import describe_comparison, trusts_only_itself
from federico.runs.records import read_records
from federico.site.certificates import renew_certificate
from federico.site.prepare import prepare_site
from federico.site.runner import SitePeer
from federico.site.shown_certificate import ShownCertificate
from federico.site.site_file import Site, load_site
from federico.site.status import Status, read_status


class Neighbor:
    """Another member, whose model changes when the test says so."""

    def __init__(self, site: Site, setup: Setup, session: zenoh.Session) -> None:
        index = site.member_index
        starts = {index: site.name}
        parts = PersonalParts(setup.layout, setup.shared_part("federico"), 0, starts, 3)
        self._bank = Bank.start(setup.layout, 0, starts, torch.device("cpu"), personal=parts)
        self._exchange = exchange_of(site, session)(self._bank, len(setup.clients))
        self._round_index = 1
        self._publish()

    def change_model(self) -> None:
        """Play a round that changes the model a little, and offer the result."""
        self._exchange.collect(self._round_index)
        self._bank.hosted_rows[0].add_(0.001)
        self._round_index += 1
        self._publish()

    def close(self) -> None:
        self._exchange.close()

    def _publish(self) -> None:
        self._exchange.pull(self._round_index, Visits.of([]))


class LateReader(NetworkExchange):
    """Reads models for evaluation only after something else has happened."""

    def __init__(self, *arguments: Any, before_reading: Callable[[], None], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._before_reading = before_reading

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        self._before_reading()
        return super().read_models(round_index, visits)


def exchange_of(
    site: Site, session: zenoh.Session, kind: type[NetworkExchange] = NetworkExchange
) -> Callable[..., NetworkExchange]:
    identity = site.identity
    signer = Signer(
        identity.certificate.read_bytes(),
        identity.key.read_bytes(),
        identity.authority.read_bytes(),
    )
    return partial(
        kind,
        session=session,
        roster=site.federation.roster,
        me=site.name,
        signer=signer,
        limits=site.federation.limits,
    )


def run_until(
    stop: threading.Event,
    site: Site,
    setup: Setup,
    session: zenoh.Session,
    before_reading: Callable[[], None],
) -> bool:
    """Run the peer of a site to its end, or until it is told to stop, or is to join again."""
    connect = partial(exchange_of(site, session, LateReader), before_reading=before_reading)
    members = len(setup.clients)
    hosting = Hosting(members, site.member_index, members)
    method = setup.hosted_method("federico", hosting, connect)
    exchange = method.exchange
    assert isinstance(exchange, NetworkExchange)
    try:
        certificate = ShownCertificate(site.identity)
        return SitePeer(site, setup, site.state, method, exchange, certificate, stop).run()
    finally:
        exchange.close()


@pytest.fixture
def site(sites: dict[str, Path]) -> Site:
    """A site that has not played yet."""
    site = load_site(sites["0"])
    options = site.options.model_copy(update={"wait_for_members": 0.1, "keep_serving": 0.0})
    site.state.mkdir()
    return replace(site, options=options)


@pytest.fixture
def neighbor(site: Site, sites: dict[str, Path], bus: zenoh.Session) -> Iterator[Neighbor]:
    neighbor = Neighbor(load_site(sites["1"]), prepare_site(site), bus)
    yield neighbor
    neighbor.close()


@pytest.fixture
def played(site: Site, neighbor: Neighbor, bus: zenoh.Session) -> Site:
    """A site that has played three rounds beside a neighbor with an ever-changing model."""
    run_until(threading.Event(), site, prepare_site(site), bus, neighbor.change_model)
    return site


def test_a_record_holds_the_bytes_of_its_own_evaluation(
    played: Site, setup_of_three: Setup
) -> None:
    model_bytes = setup_of_three.layout.size * 4
    records = read_records(played.state)
    # The first round is trained alone; what a round has read the next need not pull again.
    assert [record.received[0] for record in records] == [0, model_bytes, 0]
    # The last round reads twice: to evaluate, and for the personal model.
    read = [record.evaluation_received[0] for record in records]
    assert read == [0, model_bytes, 2 * model_bytes]


def test_the_status_counts_training_and_evaluation_apart(
    played: Site, setup_of_three: Setup
) -> None:
    model_bytes = setup_of_three.layout.size * 4
    status = read_status(played.state)
    assert status.received == model_bytes
    assert status.evaluation_received == 3 * model_bytes
    assert status.sent == sum(record.sent[0] for record in read_records(played.state))


def test_a_site_learns_what_it_would_be_alone(
    site: Site, neighbor: Neighbor, bus: zenoh.Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    run_until(threading.Event(), site, prepare_site(site), bus, neighbor.change_model)
    comparisons = read_records(site.state)[-1].comparisons
    assert comparisons is not None
    comparison = comparisons.of(0)
    status = read_status(site.state)
    assert status.comparison == comparison
    assert status.evaluated == 3
    assert open_folder(site.state / "clients" / site.name).comparison == comparison
    posterior = read_records(site.state)[-1].posterior[0]
    only_itself = trusts_only_itself(posterior, site.name)
    said = describe_comparison(comparison, only_itself=only_itself, explained=False)
    assert f"({said}" in caplog.text
    assert caplog.text.count("held out of training, not on this test data") <= 1


def test_a_status_claims_nothing_before_the_first_evaluation(
    site: Site, neighbor: Neighbor, bus: zenoh.Session
) -> None:
    setup = prepare_site(site)
    system = setup.experiment.system.model_copy(update={"evaluate_every": 4})
    experiment = setup.experiment.model_copy(update={"system": system})
    before: list[Status] = []

    def look() -> None:
        before.append(read_status(site.state))

    unevaluated = replace(setup, experiment=experiment)
    run_until(threading.Event(), site, unevaluated, bus, look)
    assert before[0].round == 2
    assert before[0].figures == {}
    assert before[0].comparison is None
    assert read_status(site.state).comparison is not None


def test_a_peer_stopped_before_it_met_anybody_again_keeps_its_personal_model(
    site: Site, neighbor: Neighbor, bus: zenoh.Session, caplog: pytest.LogCaptureFixture
) -> None:
    setup = prepare_site(site)
    stop = threading.Event()

    def stop_in_the_second_round() -> None:
        if len(read_records(site.state)) == 1:
            stop.set()

    run_until(stop, site, setup, bus, stop_in_the_second_round)
    personal_model = site.state / "clients" / site.name
    assert open_folder(personal_model).posterior.keys() == {"0", "1", "0 (alone)"}

    neighbor.close()
    caplog.set_level("INFO")
    run_until(stop, site, setup, bus, lambda: None)
    assert open_folder(personal_model).posterior.keys() == {"0", "1", "0 (alone)"}
    assert f"stopped after round 2 of 3: the personal model is in {personal_model}" in caplog.text
    assert "start the same command again to resume" in caplog.text


def test_a_peer_that_gains_no_more_trains_no_more(
    site: Site, neighbor: Neighbor, bus: zenoh.Session
) -> None:
    training = site.federation.training.model_copy(update={"keep_best": 0.3, "patience": 2})
    longer = site.federation.model_copy(update={"training": training, "rounds": 60})
    site = replace(site, federation=longer)
    setup = prepare_site(site)
    run_until(threading.Event(), site, setup, bus, neighbor.change_model)
    records = read_records(site.state)
    assert len(records) < 60
    assert records[-1].without_gain == [2]
    assert records[-2].without_gain == [1]
    assert records[-1].kept_rounds == [len(records) - 2]
    assert read_status(site.state).phase == "finished"

    # Started again, it serves and plays nothing.
    model = (site.state / "clients" / site.name / "models.safetensors").read_bytes()
    run_until(threading.Event(), site, setup, bus, neighbor.change_model)
    assert read_records(site.state) == records
    assert read_status(site.state).phase == "finished"
    assert (site.state / "clients" / site.name / "models.safetensors").read_bytes() == model


def test_a_better_model_of_a_round_after_the_last_checkpoint_is_not_forgotten(
    site: Site, neighbor: Neighbor, bus: zenoh.Session
) -> None:
    """As after a crash: the rounds since the checkpoint are played again, with other numbers."""
    training = site.federation.training.model_copy(update={"keep_best": 0.3})
    site = replace(site, federation=site.federation.model_copy(update={"training": training}))
    setup = prepare_site(site)
    run_until(threading.Event(), site, setup, bus, neighbor.change_model)
    noted = json.loads((site.state / "best.json").read_text())
    assert noted["kept_rounds"] == read_records(site.state)[-1].kept_rounds

    unbeaten = {**noted, "kept_rounds": [99], "kept_losses": [0.0]}
    (site.state / "best.json").write_text(json.dumps(unbeaten))
    (site.state / "done.json").unlink()
    shutil.rmtree(site.state / "checkpoint")
    (site.state / "records.jsonl").unlink()
    run_until(threading.Event(), site, setup, bus, neighbor.change_model)
    last = read_records(site.state)[-1]
    assert last.round == 3
    assert last.kept_rounds == [99]
    assert last.without_gain == [3]
    assert last.figures == noted["figures"]


def test_only_the_shared_part_travels_between_sites(
    site: Site, sites: dict[str, Path], bus: zenoh.Session
) -> None:
    training = site.federation.training.model_copy(update={"shared": "body"})
    options = site.federation.model_copy(update={"training": training})
    site = replace(site, federation=options)
    setup = prepare_site(site)
    body_bytes = setup.shared_part("federico").size * 4
    assert 0 < body_bytes < setup.layout.size * 4

    other = replace(load_site(sites["1"]), federation=options)
    neighbor = Neighbor(other, setup, bus)
    run_until(threading.Event(), site, setup, bus, neighbor.change_model)
    neighbor.close()
    records = read_records(site.state)
    received = [record.received[0] + record.evaluation_received[0] for record in records]
    assert sum(received) > 0
    assert all(count % body_bytes == 0 for count in received)
    personal = open_folder(site.state / "clients" / site.name)
    assert np.isfinite(personal.probabilities(setup.clients[site.member_index].test.x)).all()


def test_a_certificate_renewed_between_rounds_is_joined_with_before_the_next(
    site: Site, sites: dict[str, Path], neighbor: Neighbor, bus: zenoh.Session
) -> None:
    setup = prepare_site(site)
    authority = sites["0"].parent.parent / "ca"

    def renew() -> None:
        renew_certificate(site.identity.certificate, authority)

    joins_again = run_until(threading.Event(), site, setup, bus, renew)
    assert joins_again
    played = len(read_records(site.state))
    assert 0 < played < 3
    assert not run_until(threading.Event(), site, setup, bus, lambda: None)
    assert [record.round for record in read_records(site.state)] == [1, 2, 3]
    assert read_status(site.state).phase == "finished"
