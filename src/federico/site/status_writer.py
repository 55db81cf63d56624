"""Keeps a peer's status up to date while it runs, and logs one line per round."""

import logging
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from federico.errors import RunError
from federico.experiment.build import Setup
from federico.methods.federico_options import FedericoOptions
from federico.network.exchange import NetworkExchange
from federico.runs.comparison import (
    describe_comparison,
    favours_the_worse,
    trusts_only_itself,
)
from federico.runs.records import Record
from federico.site.certificates import read_certificate
from federico.site.clocks import Clocks, compare_clocks, describe_clock
from federico.site.site_file import Site
from federico.site.status import (
    EXPIRES_SOON_DAYS,
    SECONDS_A_DAY,
    TWO_PROCESSES,
    MemberStatus,
    Phase,
    Status,
    describe_posterior,
    describe_renewal,
    describe_score,
    write_status,
)

log = logging.getLogger(__name__)
SECONDS_BETWEEN_WRITES = 2.0
"""Members come and go during a round, which can take much longer than this."""
SECONDS_AN_HOUR = 3600.0
AFTER_THE_ROUNDS: tuple[Phase, ...] = ("serving", "finished", "stopped")


class StatusWriter:
    """Writes the status of one peer for as long as its `with` block lasts.

    It is written after every change of phase and every round, and in between by a thread.
    """

    def __init__(
        self,
        site: Site,
        setup: Setup,
        state_folder: Path,
        exchange: NetworkExchange,
        earlier: Iterable[Record],
    ) -> None:
        """`earlier`: the rounds that were played before this process was started."""
        self._site = site
        self._client = setup.clients[site.member_index]
        options = setup.experiment.method_options("federico")
        assert isinstance(options, FedericoOptions), "the options of the built-in method"
        self._judged = options.evidence
        self._state_folder = state_folder
        self._exchange = exchange
        self._started = time.time()
        self._certificate_ends = read_certificate(site.identity.certificate).last.timestamp()
        self._warned_of_end = 0.0
        self._warned_of_double = 0.0
        self._warned_of_clocks: dict[str, float] = {}
        self._share_is_explained = False
        self._phase: Phase = "joining"
        self._last_record: Record | None = None
        self._last_evaluated: Record | None = None
        self._sent = 0
        self._received = 0
        self._evaluation_sent = 0
        self._evaluation_received = 0

        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._write_regularly, name="status", daemon=True)

        for record in earlier:
            self._add(record)

    def __enter__(self) -> Self:
        """Start the thread that writes between rounds."""
        self._warn_of_certificate()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the thread; the last status stays."""
        self._closed.set()
        self._thread.join()

    def enter_phase(self, phase: Phase) -> None:
        """Say what the peer does from now on."""
        with self._lock:
            self._phase = phase
        self._write()

    def round_done(self, record: Record) -> None:
        """Say what came out of a round."""
        with self._lock:
            self._add(record)
        self._write()
        log.info(self._round_line(record))

    def _round_line(self, record: Record) -> str:
        """The line of the log that tells people about a round."""
        rounds = self._site.federation.rounds
        trusted = describe_posterior(record.posterior[0])
        return f"round {record.round}/{rounds}: {self._score(record)}trusts {trusted}"

    def _score(self, record: Record) -> str:
        """The figure that the task is judged by, and what the site is alone and together.

        Empty if the round was not evaluated.
        """
        score = describe_score(_own_figures(record))
        if not score:
            return ""
        comparisons = record.comparisons
        if comparisons is not None:
            comparison = comparisons.of(0)
            words = describe_comparison(
                comparison,
                only_itself=trusts_only_itself(record.posterior[0], self._site.name),
                explained=not self._share_is_explained,
            )
            # Once in a log is enough.
            self._share_is_explained |= favours_the_worse(comparison)
            score += f" ({words})"
        return f"{score}; "

    def _add(self, record: Record) -> None:
        index = self._site.member_index
        self._last_record = record
        if record.figures is not None:
            self._last_evaluated = record
        self._sent += record.sent[index]
        self._received += record.received[index]
        self._evaluation_sent += record.evaluation_sent[index]
        self._evaluation_received += record.evaluation_received[index]

    def _add_unrecorded_traffic(self) -> None:
        """Count what this peer sent after its last round, which is in no record."""
        index = self._site.member_index
        traffic = self._exchange.traffic.take()
        training = traffic["training"]
        evaluation = traffic["evaluation"]
        self._sent += int(training.sent[index])
        self._received += int(training.received[index])
        self._evaluation_sent += int(evaluation.sent[index])
        self._evaluation_received += int(evaluation.received[index])

    def _write_regularly(self) -> None:
        while not self._closed.wait(SECONDS_BETWEEN_WRITES):
            self._warn_of_certificate()
            self._warn_of_double()
            self._warn_of_clocks_set_wrong()
            self._write()

    def _warn_of_certificate(self) -> None:
        """Once a day say in the log that the certificate is about to end, while it is."""
        now = time.time()
        ends_soon = self._certificate_ends - now < EXPIRES_SOON_DAYS * SECONDS_A_DAY
        if ends_soon and now - self._warned_of_end > SECONDS_A_DAY:
            self._warned_of_end = now
            log.warning(describe_renewal(self._certificate_ends, now))

    def _warn_of_double(self) -> None:
        """Once an hour say in the log that the site runs twice, as long as it does."""
        now = time.time()
        if self._exchange.presence.has_double and now - self._warned_of_double > SECONDS_AN_HOUR:
            self._warned_of_double = now
            log.warning(TWO_PROCESSES)

    def _warn_of_clocks_set_wrong(self) -> None:
        """Once an hour say in the log whose clock is wrong, this site's or another's."""
        wrong = dict(self._clocks.others)
        if self._clocks.own != 0:
            wrong[self._site.name] = self._clocks.own
        now = time.monotonic()
        for name, ahead in wrong.items():
            if now - self._warned_of_clocks.get(name, -SECONDS_AN_HOUR) >= SECONDS_AN_HOUR:
                self._warned_of_clocks[name] = now
                whose = "this site's clock" if name == self._site.name else f"the clock of {name}"
                how_far = describe_clock(ahead)
                log.warning("%s is %s of those of most members: set it right", whose, how_far)

    @property
    def _clocks(self) -> Clocks:
        """Whose clock is wrong, as far as is known now."""
        return compare_clocks(self._exchange.clocks_ahead())

    def _write(self) -> None:
        with self._lock:
            # Until then each round takes the traffic for its record.
            if self._phase in AFTER_THE_ROUNDS:
                self._add_unrecorded_traffic()
            try:
                write_status(self._state_folder, self.current())
            except RunError as error:  # a full disk or too many open files: it may pass
                log.warning("the status could not be written: %s", error)

    def current(self) -> Status:
        """What the peer has to say about itself now; any thread may ask."""
        with self._lock:
            return self._status()

    def _status(self) -> Status:
        federation = self._site.federation
        others = [name for name in federation.members if name != self._site.name]
        status = Status(
            federation=federation.name,
            name=self._site.name,
            pid=os.getpid(),
            phase=self._phase,
            updated=time.time(),
            round=0,
            rounds=federation.rounds,
            sent=self._sent,
            received=self._received,
            evaluation_sent=self._evaluation_sent,
            evaluation_received=self._evaluation_received,
            members={name: self._member_status(name) for name in others},
            started=self._started,
            waits=self._exchange.waits.current,
            certificate_ends=self._certificate_ends,
            epsilon_budget=federation.privacy.epsilon,
            clock_ahead=self._clocks.own,
            has_double=self._exchange.presence.has_double,
            train_samples=len(self._client.train),
            test_samples=len(self._client.test),
            judged=self._judged,
        )
        if self._last_record is not None:
            status = _with_round(status, self._last_record)
        if self._last_evaluated is not None:
            status = _with_evaluation(status, self._last_evaluated)
        return status

    def _member_status(self, name: str) -> MemberStatus:
        presence = self._exchange.presence
        offences = self._exchange.reputation.offences(name)
        left, refusals = self._refusals_of(name)
        return MemberStatus(
            here=presence.here(name),
            last_seen=presence.away().get(name),
            same_file=name not in presence.with_another_file(),
            reputation=offences.state,
            strikes=offences.strikes,
            reason=offences.reason,
            refused=self._exchange.reputation.refused(name),
            same_protocol=name not in presence.with_another_protocol(),
            twice=name in self._exchange.there_twice(),
            standing=left,
            refusals=refusals,
            clock_ahead=self._clocks.others.get(name, 0.0),
        )

    def _refusals_of(self, name: str) -> tuple[float, int]:
        """A member's standing after updates that were refused, and how many were."""
        record = self._last_record
        if record is None or record.standing is None or record.refusals is None:
            return 1.0, 0
        # A peer's record is about itself alone.
        (standing,) = record.standing
        (refusals,) = record.refusals
        left = standing.get(name, 1.0)
        count = refusals.get(name, 0)
        return left, count


def _with_round(status: Status, record: Record) -> Status:
    """The status with the outcome of a round, which a peer records for itself alone."""
    return replace(
        status,
        round=record.round,
        neighbors=record.neighbors[0],
        posterior=record.posterior[0],
        epsilon=None if record.epsilon is None else record.epsilon[0],
        delta=record.delta,
    )


def _with_evaluation(status: Status, record: Record) -> Status:
    """The status with the figures of an evaluated round."""
    comparisons = record.comparisons
    return replace(
        status,
        figures=_own_figures(record),
        evaluated=record.round,
        comparison=None if comparisons is None else comparisons.of(0),
    )


def _own_figures(record: Record) -> dict[str, float | None]:
    """The figures of the one client that a peer records; empty if the round was not evaluated."""
    if record.figures is None:
        return {}
    return {name: by_client[0] for name, by_client in record.figures.items()}
