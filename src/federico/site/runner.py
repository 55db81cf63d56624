"""Runs a site's peer: joins the others, plays the rounds that are left, then serves who is behind.

A round is the same code as in a simulation; only the exchange is another one. A peer that is
started again resumes after its last checkpoint.

What happens on SIGTERM and Ctrl-C: `cli/signals.py` sets the event `stop`. A peer that waits for
members, or serves them, ends at once. A peer in the middle of a round stops waiting for others,
ends the round with what has arrived, saves a checkpoint and its personal model, and ends with
phase "stopped" and exit code 0. After `stop_within` seconds it gives the round up. A crash
costs the rounds since the last checkpoint.

A certificate that is renewed on the disk is used after the round at hand: the peer leaves the
network for a moment, joins again and resumes. One that ends in a run ends it, after a checkpoint.
"""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import zenoh

from federico import compat
from federico.exchange.processes import SingleProcess
from federico.exchange.protocol import ByteCount, Hosting, Purpose
from federico.experiment.best_round import BestRounds, kept_by_peer
from federico.experiment.build import Setup
from federico.experiment.memory_plan import peer_storage
from federico.experiment.personal_models import save_hosted_clients
from federico.experiment.runner import checkpoint_due, play_round, resume
from federico.experiment.training_options import Training
from federico.learning.bank import Bank
from federico.learning.visits import Visits
from federico.methods.method import Method
from federico.network.exchange import NetworkExchange
from federico.network.links import LinkGuard
from federico.network.session import close, open_session
from federico.network.wire.signing import Signer
from federico.open_files import files_awaited
from federico.runs import checkpoint
from federico.runs.layout import CellDir
from federico.runs.records import Journal, Record, read_last_record, read_records
from federico.site.life import leaving_in_time, reported_life
from federico.site.metrics import serving_metrics
from federico.site.prepare import prepare_site
from federico.site.privacy_ledger import open_account, recall_spent
from federico.site.shown_certificate import ShownCertificate
from federico.site.site_file import Site
from federico.site.state_folder import open_state_folder
from federico.site.status_writer import StatusWriter

log = logging.getLogger(__name__)
POLL_SECONDS = 0.5
"""Seconds between two looks at whether to stop, and at who has finished."""
SEARCH_SECONDS = 5.0
"""How long a peer that has already finished looks for members that are behind."""


def run_peer(site: Site, stop: threading.Event) -> None:
    """Check everything that can be checked, then run the peer until it is done or told to stop."""
    federation = site.federation
    with (
        open_state_folder(site) as state_folder,
        reported_life(state_folder, federation.name, site.name, federation.rounds),
        leaving_in_time(state_folder, stop, site.options.stop_within),
        files_awaited(),
    ):
        certificate = ShownCertificate(site.identity)
        setup = prepare_site(site)
        compat.keep_freed_memory()
        compat.use_threads(setup.experiment.system.threads)
        for warning in setup.warnings:
            log.warning(warning)

        log.info("%s joins %s, version %s", site.name, federation.name, federation.roster.version)
        while _run_in_network(site, setup, state_folder, certificate, stop):
            certificate = ShownCertificate(site.identity)
            log.info("the certificate was renewed: %s joins again with the new one", site.name)


def _run_in_network(
    site: Site,
    setup: Setup,
    state_folder: Path,
    certificate: ShownCertificate,
    stop: threading.Event,
) -> bool:
    """Join, and run the peer; returns whether it is to join again with a renewed certificate."""
    members = len(site.federation.members)
    # As many processes as members, each of which hosts one.
    hosting = Hosting(members, site.member_index, members)
    storage = peer_storage(setup, site.federation.limits, site.state)
    account = open_account(setup, site.member_index, state_folder)
    with _open_network(site) as network:
        method = setup.hosted_method("federico", hosting, network.connect, storage, account)
        if account is not None:
            recall_spent(account, site.member_index, site.federation.rounds, state_folder)
        try:
            peer = SitePeer(site, setup, state_folder, method, network.exchange, certificate, stop)
            return peer.run()
        finally:
            network.exchange.close()


class NetworkConnection:
    """A session with the other members, and the exchange that connects a bank of models to it."""

    exchange: NetworkExchange
    """There is one after `connect`."""

    def __init__(self, site: Site, session: zenoh.Session, links: LinkGuard) -> None:
        self._site = site
        self._session = session
        self._links = links

    def connect(self, bank: Bank, participants: int) -> NetworkExchange:
        """Make the exchange, for whoever builds a method on top of it."""
        identity = self._site.identity
        signer = Signer(
            identity.certificate.read_bytes(),
            identity.key.read_bytes(),
            identity.authority.read_bytes(),
        )
        federation = self._site.federation
        self.exchange = NetworkExchange(
            bank,
            participants,
            session=self._session,
            roster=federation.roster,
            me=self._site.name,
            signer=signer,
            limits=federation.limits,
            lockstep=federation.mode == "lock-step",
            folder=self._site.state,
            flooded=partial(self._links.shut_out, reason="sends far more than is answered"),
        )
        return self.exchange


@contextmanager
def _open_network(site: Site) -> Iterator[NetworkConnection]:
    """Join the network for as long as the block lasts."""
    session = open_session(site.identity, site.addresses, site.federation.roster)
    try:
        with LinkGuard(session, site.federation.roster) as links:
            yield NetworkConnection(site, session, links)
    finally:
        close(session)


class SitePeer:
    """One peer in an open session, from its last checkpoint until nobody needs it any more."""

    def __init__(
        self,
        site: Site,
        setup: Setup,
        state_folder: Path,
        method: Method,
        exchange: NetworkExchange,
        certificate: ShownCertificate,
        stop: threading.Event,
    ) -> None:
        self._site = site
        self._setup = setup
        self._state_folder = state_folder
        self._method = method
        self._exchange = exchange
        self._certificate = certificate
        self._stop = stop
        self._joins_again = False
        """Whether the peer leaves for a moment, to come back with a renewed certificate."""

        self._rounds = setup.experiment.rounds
        self._others = [name for name in site.federation.members if name != site.name]
        self._checkpoints = state_folder / "checkpoint"
        self._journal = Journal(state_folder)
        self._cell = CellDir(state_folder)
        self._personal_model = state_folder / "clients" / site.name
        self._best: BestRounds | None = None
        """Keeps the personal model of the best round, once it is known what was kept before."""

    def run(self) -> bool:
        """Play the rounds that are left, then serve the others until nobody needs this peer.

        Returns whether a renewed certificate interrupted that: the peer is to join again with it.
        """
        threading.Thread(target=self._stop_waiting_when_stopped, daemon=True).start()

        completed = resume(
            self._checkpoints, self._method, self._journal, log.warning, SingleProcess()
        )

        earlier = read_records(self._state_folder)
        self._best = self._best_rounds()
        with (
            StatusWriter(
                self._site, self._setup, self._state_folder, self._exchange, earlier
            ) as status,
            serving_metrics(self._site.options.metrics, status.current),
        ):
            if completed and completed == self._cell.rounds_done:
                self._serve_again(status)
            else:
                completed = self._play_and_serve(completed, status)
            if self._joins_again:
                status.enter_phase("joining")
            elif completed and completed == self._cell.rounds_done:
                status.enter_phase("finished")
            else:
                status.enter_phase("stopped")
                self._say_stopped(completed)
        return self._joins_again

    def _stop_waiting_when_stopped(self) -> None:
        """Once the peer is told to stop, no pull or push under way keeps it waiting."""
        self._stop.wait()
        self._exchange.stop_waiting()

    def _play_and_serve(self, completed: int, status: StatusWriter) -> int:
        """What a peer does that has not finished yet; returns how many rounds it has completed."""
        if completed:
            log.info("resuming after round %d", completed)
        self._wait_for_members()
        resumed_after = completed
        completed = self._play_rounds(completed, status)
        if self._joins_again:
            return completed
        if completed < self._rounds and not self._gains_no_more:
            self._save_personal_model_early(completed - resumed_after)
            return completed

        self._cell.finish(completed)
        if not self._stop.is_set():
            seconds = self._site.options.keep_serving
            done = "all rounds done"
            if completed < self._rounds:
                done = f"no gain for {self._training.patience} evaluated rounds: training no more"
            log.info("%s; serving the others until they are, for up to %g s", done, seconds)
            self._serve(status, seconds)
        return completed

    def _wait_for_members(self) -> None:
        """Give the others a chance to be there for the first round, and say who is not."""
        presence = self._exchange.presence
        deadline = time.monotonic() + self._site.options.wait_for_members
        while not self._stop.is_set() and time.monotonic() < deadline:
            missing = [name for name in self._others if not presence.here(name)]
            self._note_waits(missing, "to join", deadline)
            all_here = presence.wait(self._site.federation.members, POLL_SECONDS)
            if all_here:
                break
        self._note_waits([], "to join", deadline)

        missing = [name for name in self._others if not presence.here(name)]
        if missing and not self._stop.is_set():
            self._warn_of_missing(missing)

    def _note_waits(self, members: list[str], wanted: str, deadline: float) -> None:
        """Say in the status that exactly these members are waited for now."""
        seconds = deadline - time.monotonic()
        self._exchange.waits.wait_only_for(members, wanted, seconds)

    def _warn_of_missing(self, missing: list[str]) -> None:
        alone = ""
        if missing == self._others:
            alone = " This site trains alone until somebody comes."
        log.warning(
            "not here: %s.%s `federico peer check` says who cannot be reached, and why",
            ", ".join(missing),
            alone,
        )

    def _play_rounds(self, completed: int, status: StatusWriter) -> int:
        """Play until the last round, or the one at hand when told to stop; returns that round."""
        status.enter_phase("training")
        with checkpoint.Writer(self._checkpoints, self._journal.records) as writer:
            while completed < self._rounds and not self._stop.is_set() and not self._joins_again:
                if self._gains_no_more:
                    break
                completed += 1
                record = self._play_round(completed)
                self._joins_again = completed < self._rounds and self._certificate.is_renewed()
                fault = None if self._joins_again else self._certificate.fault
                self._save_checkpoint(completed, writer, leaves=self._joins_again or bool(fault))
                status.round_done(record)
                if fault is not None and completed < self._rounds:
                    raise fault
                # Each thread of the network has had chunks of messages in a heap of its own.
                compat.give_back_freed_memory()
        return completed

    def _play_round(self, round_index: int) -> Record:
        """Play one round and append it to the records."""
        every = self._setup.experiment.system.evaluate_every
        evaluate = round_index == self._rounds or round_index % every == 0

        played = play_round(self._method, round_index, evaluate=evaluate, best=self._best)
        record = played.record
        if self._best is None and round_index == self._rounds:
            # Before the record is written, as the models read for it count in this round.
            self._save_personal_model(record)
            record = _add_traffic(record, self._exchange.traffic.take())
        self._journal.append(record)
        self._journal.append_spent(round_index, self._method.context.clock.take())
        return record

    def _save_checkpoint(
        self, round_index: int, writer: checkpoint.Writer, *, leaves: bool
    ) -> None:
        """Begin to save the state after this round, if it is to be saved."""
        system = self._setup.experiment.system
        last = leaves or round_index == self._rounds or self._stop.is_set() or self._gains_no_more
        if not checkpoint_due(system, round_index, writer, last=last):
            return

        writer.wait()  # so that there is never more than one copy of the state
        state = self._method.state()
        writer.save(round_index, self._journal.size(), state)

    @property
    def _training(self) -> Training:
        return self._setup.experiment.training

    def _best_rounds(self) -> BestRounds | None:
        """What keeps the best personal model, if that is not simply the last one."""
        if self._training.keep_best == 0:
            return None
        return BestRounds(
            self._personal_model.parent,
            self._setup,
            self._method,
            kept_by_peer(self._state_folder),
            notes=self._state_folder,
        )

    @property
    def _gains_no_more(self) -> bool:
        """Whether this peer trains no more, as its best round is too long ago."""
        return self._best is not None and self._best.gains_no_more(self._training.patience)

    def _save_personal_model(self, last: Record) -> None:
        """Save the personal model in the form that `federico predict` reads.

        `last` is the last round, which says what the site is alone and with its collaborators.
        """
        predictors = self._method.predictors(last.round)
        folder = self._personal_model.parent
        save_hosted_clients(folder, self._setup, self._method, predictors, last.comparisons)
        log.info("personal model in %s", self._personal_model)

    def _save_personal_model_early(self, rounds_played: int) -> None:
        """Save the personal model of a peer that is told to stop before the last round.

        A peer that is told so in its first round since it was started need not have the models of
        others yet. The personal model of an earlier start may have them, so it stays.
        """
        if self._personal_model.exists() and (rounds_played <= 1 or self._best is not None):
            return
        last = read_last_record(self._state_folder)
        if last is not None:
            self._save_personal_model(last)

    def _say_stopped(self, completed: int) -> None:
        result = "there is no personal model yet"
        if self._personal_model.exists():
            result = f"the personal model is in {self._personal_model}"
        log.info(
            "stopped after round %d of %d: %s; start the same command again to resume",
            completed,
            self._rounds,
            result,
        )

    def _serve_again(self, status: StatusWriter) -> None:
        """Serve after all rounds were played by an earlier process.

        The personal model stays as it is: the models of others that it consists of may be away now.
        """
        log.info(
            "all %d rounds are finished already: the personal model is in %s",
            self._cell.rounds_done,
            self._personal_model,
        )
        log.info("looking for others who are behind, to serve them")
        self._exchange.read_models(self._rounds, Visits.of([]))  # offers the own model
        self._serve(status, SEARCH_SECONDS)

    def _serve(self, status: StatusWriter, expected_seconds: float) -> None:
        """Answer others until all have finished, or nobody who has not is expected any more.

        Members that are behind are expected for this many seconds, and after that as long as one
        of them is here or was a moment ago; but never longer than `keep_serving`.
        """
        presence = self._exchange.presence
        presence.finish(self._rounds)
        status.enter_phase("serving")

        now = time.monotonic()
        latest_end = now + self._site.options.keep_serving
        expected_until = now + expected_seconds
        while now < min(latest_end, expected_until) and not self._stop.is_set():
            behind = [name for name in self._others if presence.furthest_round(name) < self._rounds]
            if not behind:
                return
            if self._certificate.is_renewed():
                self._joins_again = True
                return
            if self._certificate.fault is not None:
                log.warning("no longer serving: %s", self._certificate.fault)
                return
            self._note_waits(behind, "to finish its rounds", min(latest_end, expected_until))
            if any(presence.here(name) for name in behind):
                expected_until = max(expected_until, now + SEARCH_SECONDS)
            self._stop.wait(POLL_SECONDS)
            now = time.monotonic()


def _add_traffic(record: Record, traffic: Mapping[Purpose, ByteCount]) -> Record:
    """The record of a round with bytes that were moved after its evaluation."""
    training = traffic["training"]
    evaluation = traffic["evaluation"]
    return replace(
        record,
        sent=(training.sent + record.sent).tolist(),
        received=(training.received + record.received).tolist(),
        moved=training.moved + record.moved,
        evaluation_sent=(evaluation.sent + record.evaluation_sent).tolist(),
        evaluation_received=(evaluation.received + record.evaluation_received).tolist(),
        evaluation_moved=evaluation.moved + record.evaluation_moved,
    )
