"""A site's peer: joins, trains, serves, and goes on where it was. The method is the simulation's, to the letter."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from federico import compat
from federico.exchange.processes import SingleProcess
from federico.exchange.protocol import Hosting
from federico.experiment.build import Setup
from federico.experiment.runner import checkpoint_due, play_round, resume
from federico.learning.bank import Visits
from federico.methods.method import Method
from federico.network.exchange import NetworkExchange
from federico.network.session import close, open_session
from federico.network.wire.signing import Signer
from federico.runs import checkpoint
from federico.runs.bundle import save_clients
from federico.runs.layout import CellDir
from federico.runs.records import Journal, read_records
from federico.site import certificates as pki
from federico.site.build import prepare
from federico.site.memory_plan import storage
from federico.site.site_file import Site
from federico.site.state import opened
from federico.site.status import Reporter

log = logging.getLogger(__name__)
GLANCE = 0.5
"""Seconds between two looks at whether to stop, and at who has finished."""
LOOK_AROUND = 5.0
"""Seconds in which a peer that is started after its last round finds out who is behind."""


class SitePeer:
    """The life of one peer in a session, from its last checkpoint to its last round and a while beyond."""

    def __init__(self, site: Site, setup: Setup, folder: Path, stop: threading.Event) -> None:
        self._site, self._setup, self._folder, self._stop = site, setup, folder, stop
        self._rounds = setup.experiment.rounds
        self._saves = folder / "checkpoint"
        self._journal = Journal(folder)
        self._cell = CellDir(folder)

    def live(self, method: Method, exchange: NetworkExchange) -> None:
        """All that is left of its rounds; then serve until nobody needs it."""
        threading.Thread(target=self._hurry_when_stopped, args=(exchange,), daemon=True).start()
        done = resume(self._saves, method, self._journal, log.warning, SingleProcess())
        with Reporter(self._site, self._folder, exchange, read_records(self._folder)) as reporter:
            if done and done == self._cell.rounds_done:
                self._serve_again(exchange, reporter)
            else:
                done = self._go_on(method, exchange, done, reporter)
            reporter.enter("finished" if done == self._rounds else "stopped")

    def _go_on(
        self, method: Method, exchange: NetworkExchange, done: int, reporter: Reporter
    ) -> int:
        if done:
            log.info("going on after round %d", done)
        self._wait_for_others(exchange)
        done = self._play(method, done, reporter)
        self._keep_model(method, done)
        if done == self._rounds:
            self._cell.finish(done)
        if done == self._rounds and not self._stop.is_set():
            linger = self._site.options.linger
            log.info(
                "all rounds done; serving the others until they are done too, for %g s at most",
                linger,
            )
            self._serve(exchange, reporter, linger)
        return done

    def _hurry_when_stopped(self, exchange: NetworkExchange) -> None:
        self._stop.wait()
        exchange.hurry()

    def _wait_for_others(self, exchange: NetworkExchange) -> None:
        """A start together is a better start, but nobody is waited for for long."""
        members, until = self._site.agreement.members, time.monotonic() + self._site.options.gather
        while not self._stop.is_set() and time.monotonic() < until:
            if exchange.presence.wait(members, GLANCE):
                return
        missing = [
            name for name in members if name != self._site.name and not exchange.presence.here(name)
        ]
        if missing and not self._stop.is_set():
            alone = (
                " This site trains alone until somebody comes."
                if len(missing) == len(members) - 1
                else ""
            )
            log.warning(
                "not here: %s.%s `federico peer check` says who cannot be reached, and why",
                ", ".join(missing),
                alone,
            )

    def _play(self, method: Method, done: int, reporter: Reporter) -> int:
        system = self._setup.experiment.system
        reporter.enter("training")
        with checkpoint.Writer(self._saves, self._journal.records) as writer:
            while done < self._rounds and not self._stop.is_set():
                done += 1
                last = done == self._rounds
                record = play_round(
                    method, done, evaluate=last or done % system.evaluate_every == 0
                )
                self._journal.append(record)
                self._journal.append_spent(done, method.context.clock.take())
                if checkpoint_due(system, done, writer, last=last or self._stop.is_set()):
                    writer.wait()  # so that there is never more than one copy of the state
                    writer.save(done, self._journal.size(), method.state())
                reporter.played(record)
                compat.give_back_freed_memory()  # each thread of the network has had chunks in a heap of its own
        return done

    def _keep_model(self, method: Method, done: int) -> None:
        """The personal model, as `federico predict` takes it."""
        if done:
            save_clients(
                self._folder / "clients",
                self._setup,
                method,
                method.predictors(done),
                SingleProcess(),
            )
            log.info("personal model in %s", self._folder / "clients" / self._site.name)

    def _serve_again(self, exchange: NetworkExchange, reporter: Reporter) -> None:
        """The personal model stays as it is: those of others that are a part of it may be away now."""
        model = self._folder / "clients" / self._site.name
        log.info(
            "all %d rounds are played already: the personal model is in %s", self._rounds, model
        )
        log.info("looking for others who are behind, to serve them")
        exchange.read_models(self._rounds, Visits.of([]))  # offers the own model
        self._serve(exchange, reporter, LOOK_AROUND)

    def _serve(self, exchange: NetworkExchange, reporter: Reporter, awaited: float) -> None:
        """Others may still need this model: as long as one who is behind is expected, here, or just was."""
        others, presence = set(self._site.agreement.members) - {self._site.name}, exchange.presence
        now = time.monotonic()
        end, until = now + self._site.options.linger, now + awaited
        presence.finish(self._rounds)
        reporter.enter("serving")
        while now < min(end, until) and not self._stop.is_set():
            behind = [name for name in others if presence.reached(name) < self._rounds]
            if not behind:
                return
            if any(map(presence.here, behind)):
                until = max(until, now + LOOK_AROUND)
            self._stop.wait(GLANCE)
            now = time.monotonic()


def run_peer(site: Site, stop: threading.Event) -> None:
    """Check everything, then live."""
    papers = site.identity
    pki.check_own(papers.certificate, papers.key, papers.authority, site.name)
    setup = prepare(site)
    compat.keep_freed_memory()
    compat.use_threads(setup.experiment.system.threads)
    for warning in setup.warnings:
        log.warning(warning)
    log.info(
        "%s joins %s, version %s", site.name, site.agreement.name, site.agreement.roster.version
    )
    with opened(site) as folder, _exchange(site) as connect:
        peer = SitePeer(site, setup, folder, stop)
        hosting = Hosting(len(site.agreement.members), site.place, len(site.agreement.members))
        method = setup.hosted_method("federico", hosting, connect, storage(site, setup))
        exchange = method.exchange
        assert isinstance(exchange, NetworkExchange), "made by connect"
        try:
            peer.live(method, exchange)
        finally:
            exchange.close()


@contextmanager
def _exchange(site: Site) -> Iterator["partial[NetworkExchange]"]:
    """What connects a bank to the others, as long as the session lasts."""
    papers, agreement = site.identity, site.agreement
    session = open_session(papers, site.addresses, agreement.roster)
    try:
        yield partial(
            NetworkExchange,
            session=session,
            roster=agreement.roster,
            me=site.name,
            seal=Signer(
                papers.certificate.read_bytes(),
                papers.key.read_bytes(),
                papers.authority.read_bytes(),
            ),
            limits=agreement.limits,
            lockstep=agreement.mode == "lock-step",
            folder=site.state,
        )
    finally:
        close(session)
