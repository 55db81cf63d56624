"""Tells people how a peer is doing: a line per round in the log, and a status that is never older than a moment."""

import logging
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from federico.network.exchange import NetworkExchange
from federico.runs.records import Record
from federico.site.site_file import Site
from federico.site.state import Member, Phase, Status, write_status

log = logging.getLogger(__name__)
MOMENT = 2.0
"""Seconds between two looks at who is here: a round can take much longer."""
WORTH_TELLING = 0.01


class Reporter:
    """Keeps the status of one peer up to date as long as its `with` block lasts."""

    def __init__(
        self, site: Site, folder: Path, exchange: NetworkExchange, before: Iterable[Record]
    ) -> None:
        """`before`: the rounds of earlier lives."""
        self._site, self._folder, self._exchange = site, folder, exchange
        self._phase: Phase = "joining"
        self._last: Record | None = None
        self._sent = self._received = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._keep_writing, name="status", daemon=True)
        for record in before:
            self._count(record)

    def __enter__(self) -> Self:
        """Begin to tell."""
        self._writer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """What was said last stays."""
        self._over.set()
        self._writer.join()

    def enter(self, phase: Phase) -> None:
        """What the peer does now."""
        with self._lock:
            self._phase = phase
        self._write()

    def played(self, record: Record) -> None:
        """A round is over and recorded."""
        with self._lock:
            self._count(record)
        self._write()
        log.info(self._line(record))

    def _count(self, record: Record) -> None:
        place = self._site.place
        self._last = record
        self._sent += record.sent[place]
        self._received += record.received[place]

    def _keep_writing(self) -> None:
        while not self._over.wait(MOMENT):
            self._write()

    def _write(self) -> None:
        with self._lock:
            write_status(self._folder, self._status())

    def _status(self) -> Status:
        last, agreement = self._last, self._site.agreement
        return Status(
            federation=agreement.name,
            name=self._site.name,
            pid=os.getpid(),
            phase=self._phase,
            updated=time.time(),
            round=last.round if last else 0,
            rounds=agreement.rounds,
            accuracy=last.accuracy[0] if last and last.accuracy else None,
            loss=last.loss[0] if last and last.loss else None,
            neighbors=last.neighbors[0] if last else [],
            posterior=last.posterior[0] if last else {},
            sent=self._sent,
            received=self._received,
            members={
                name: self._member(name) for name in agreement.members if name != self._site.name
            },
        )

    def _member(self, name: str) -> Member:
        presence, record = self._exchange.presence, self._exchange.reputation.standing(name)
        return Member(
            here=presence.here(name),
            last_seen=presence.away().get(name),
            same_file=name not in presence.estranged(),
            reputation=record.state,
            strikes=record.strikes,
            reason=record.reason,
        )

    def _line(self, record: Record) -> str:
        """A round for a person."""
        loss = record.loss[0] if record.loss else None
        score = (
            f"accuracy {record.accuracy[0]:.1%}"
            if record.accuracy
            else ""
            if loss is None
            else f"loss {loss:.4g}"
        )
        row = sorted(record.posterior[0].items(), key=lambda item: -item[1])
        trusted = ", ".join(
            f"{name} {weight:.0%}" for name, weight in row if weight >= WORTH_TELLING
        )
        return f"round {record.round}/{self._site.agreement.rounds}: {score}{'; ' if score else ''}trusts {trusted}"
