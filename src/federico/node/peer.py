"""A site's peer: joins, trains, serves, and goes on where it was. The method is the simulation's, to the letter."""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from federico.exchange.base import Hosting
from federico.exchange.session import close, open_session
from federico.exchange.team import Alone
from federico.exchange.zenoh import ZenohExchange
from federico.experiment import checkpoint
from federico.experiment.bundle import save_clients
from federico.experiment.records import Journal, Record, read_records
from federico.experiment.setup import Setup
from federico.experiment.simulate import play_round, resume
from federico.methods.base import Method
from federico.node import pki
from federico.node.prepare import prepare
from federico.node.site import Site
from federico.node.state import Member, Status, opened, write_status
from federico.wire.seal import Seal

log = logging.getLogger(__name__)
GLANCE = 0.5
"""Seconds between two looks at whether to stop, and at who has finished."""


class Peer:
    """The life of one peer in a session, from its last checkpoint to its last round and a while beyond."""

    def __init__(self, site: Site, setup: Setup, folder: Path, stop: threading.Event) -> None:
        self._site, self._setup, self._folder, self._stop = site, setup, folder, stop
        self._saves = folder / "checkpoint"
        self._journal = Journal(folder)
        self._last: Record | None = None
        self._bytes = 0, 0

    def live(self, method: Method, exchange: ZenohExchange) -> None:
        """All that is left of its rounds; then serve until nobody needs it."""
        self._exchange = exchange
        threading.Thread(target=self._hurry_when_stopped, daemon=True).start()
        done = self._go_on(method)
        self._say("joining", done)
        self._wait_for_others()
        done = self._play(method, done)
        self._keep_model(method, done)
        if done == self._setup.experiment.rounds and not self._stop.is_set():
            self._serve(done)
        self._say("finished" if done == self._setup.experiment.rounds else "stopped", done)

    def _hurry_when_stopped(self) -> None:
        self._stop.wait()
        self._exchange.hurry()

    def _go_on(self, method: Method) -> int:
        done = resume(self._saves, method, self._journal, log.warning, Alone())
        self._exchange.round = done + 1
        for record in read_records(self._folder):
            self._note(record)
        if done:
            log.info("going on after round %d", done)
        return done

    def _wait_for_others(self) -> None:
        """A start together is a better start, but nobody is waited for for long."""
        members, until = self._site.agreement.members, time.monotonic() + self._site.options.gather
        while not self._stop.is_set() and time.monotonic() < until:
            if self._exchange.membership.wait(members, GLANCE):
                return

    def _play(self, method: Method, done: int) -> int:
        rounds, system = self._setup.experiment.rounds, self._setup.experiment.system
        with checkpoint.Writer(self._saves) as writer:
            for index in range(done + 1, rounds + 1):
                if self._stop.is_set():
                    break
                last = index == rounds
                record = play_round(self._setup, method, index, evaluate=last or index % system.evaluate_every == 0)
                self._journal.append(record, method.federation.clock.take())
                if last or self._stop.is_set() or index % system.checkpoint_every == 0:
                    writer.save(index, self._journal.size(), method.state())
                self._note(record)
                self._say("training", index)
                log.info(self._line(record))
                done = index
        return done

    def _keep_model(self, method: Method, done: int) -> None:
        """The personal model, as `federico predict` takes it."""
        if done:
            save_clients(self._folder / "clients", self._setup, method.name, method.predictors(done), Alone())
            log.info("personal model in %s", self._folder / "clients" / self._site.name)

    def _serve(self, done: int) -> None:
        """Others may still need this model; who has been seen at the end needs nothing any more."""
        waiting = set(self._site.agreement.members) - {self._site.name}
        until = time.monotonic() + self._site.options.linger
        membership = self._exchange.membership
        membership.finish(done)
        while waiting and not self._stop.is_set() and time.monotonic() < until:
            self._say("serving", done)
            waiting -= {name for name in waiting if membership.reached(name) >= done}
            self._stop.wait(GLANCE)

    def _note(self, record: Record) -> None:
        place = self._site.place
        self._last = record
        self._bytes = self._bytes[0] + record.sent[place], self._bytes[1] + record.received[place]

    def _say(self, phase: str, done: int) -> None:
        last, agreement = self._last, self._site.agreement
        sent, received = self._bytes
        status = Status(
            federation=agreement.name,
            name=self._site.name,
            pid=os.getpid(),
            phase=phase,
            updated=time.time(),
            round=done,
            rounds=agreement.rounds,
            accuracy=last.accuracy[0] if last and last.accuracy else None,
            loss=last.loss[0] if last and last.loss else None,
            neighbors=last.neighbors[0] if last else [],
            posterior=last.posterior[0] if last else {},
            sent=sent,
            received=received,
            members=self._members(),
        )
        write_status(self._folder, status)

    def _members(self) -> dict[str, Member]:
        membership, conduct = self._exchange.membership, self._exchange.conduct
        away, estranged = membership.away(), membership.estranged()
        others = [name for name in self._site.agreement.members if name != self._site.name]
        standings = {name: conduct.standing(name) for name in others}
        return {
            name: Member(
                here=name not in away,
                last_seen=away.get(name),
                same_file=name not in estranged,
                conduct=record.state,
                strikes=record.strikes,
                reason=record.reason,
            )
            for name, record in standings.items()
        }

    def _line(self, record: Record) -> str:
        """A round for a person."""
        score = f"accuracy {record.accuracy[0]:.1%}" if record.accuracy else f"loss {(record.loss or [None])[0]}"
        row = sorted(record.posterior[0].items(), key=lambda item: -item[1])
        trusted = ", ".join(f"{name} {weight:.0%}" for name, weight in row if weight >= 0.01)
        return f"round {record.round}/{self._site.agreement.rounds}: {score}; trusts {trusted}"


def run_peer(site: Site, stop: threading.Event) -> None:
    """Check everything, then live."""
    papers = site.identity
    pki.check_own(papers.certificate, papers.key, papers.authority, site.name)
    setup = prepare(site)
    torch.set_num_threads(setup.experiment.system.threads or torch.get_num_threads())
    for warning in setup.warnings:
        log.warning(warning)
    with opened(site) as folder, _exchange(site) as connect:
        peer = Peer(site, setup, folder, stop)
        hosting = Hosting(len(site.agreement.members), site.place, len(site.agreement.members))
        method = setup.hosted_method("federico", hosting, connect)
        exchange = method.exchange
        assert isinstance(exchange, ZenohExchange), "made by connect"
        try:
            peer.live(method, exchange)
        finally:
            exchange.close()


@contextmanager
def _exchange(site: Site) -> Iterator["partial[ZenohExchange]"]:
    """What connects a bank to the others, as long as the session lasts."""
    papers, agreement = site.identity, site.agreement
    session = open_session(papers, site.addresses, agreement.roster)
    try:
        yield partial(
            ZenohExchange,
            session=session,
            roster=agreement.roster,
            me=site.name,
            seal=Seal(papers.certificate.read_bytes(), papers.key.read_bytes(), papers.authority.read_bytes()),
            limits=agreement.limits,
            lockstep=agreement.mode == "lock-step",
        )
    finally:
        close(session)
