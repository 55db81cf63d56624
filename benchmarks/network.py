"""What the peer network costs: a 45 MB model pulled over mutual TLS on loopback, beside the same
bytes in plain chunks.

An owner and its visitors, a process each. The ratio is plain seconds by our seconds, of repeats
that take turns. Memory is the most that a process held resident above what it held before its model
was made, in models of 45 MB; `each` is how much of it grows with the model, from the same for a
model of four times the size: the rest is the network's own.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socket

import numpy as np
import torch
import zenoh
from torch import nn

from federico.exchange.protocol import Updates
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.rows import RowStorage
from federico.learning.visits import Visits
from federico.methods.averaging import average_into
from federico.network.exchange import NetworkExchange
from federico.network.identity import Addresses, Identity
from federico.network.limits import Limits
from federico.network.links import LinkGuard
from federico.network.roster import Roster
from federico.network.session import close, open_session
from federico.network.wire.signing import Signer
from federico.site.certificates import approve_request, create_authority, create_request

SIDE = 3350
VISITORS = 3
ROSTER = Roster(
    "benchmark", bytes(32), ("owner", *(f"visitor{place}" for place in range(1, VISITORS + 1)))
)
PLAIN = ROSTER.request_key("owner", "visitor1", "plain")
LIMITS = Limits(deadline=120)
ROUNDS = 3
Figures = dict[str, float]


def resident(which: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at most."""
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(which)
    )
    return int(line.split()[1]) * 1024


def credentials(folder: Path) -> dict[str, Identity]:
    create_authority(folder / "authority", "benchmark")
    made = {}
    for name in ROSTER.members:
        wish = create_request(folder / name, name, ["127.0.0.1"])
        certificate = approve_request(wish, folder / "authority")
        made[name] = Identity(
            name, certificate, wish.with_suffix(".key"), certificate.with_name("ca.pem")
        )
    return made


class Peer:
    """A session and an exchange around one model; does what it is told."""

    forgiven = 0.0
    """Seconds by which the pause of who was shut out is shortened."""

    def __init__(self, identity: Identity, addresses: Addresses, side: int) -> None:
        self.session = open_session(identity, addresses, ROSTER)
        self.links = LinkGuard(self.session, ROSTER, self.clock).__enter__()
        parts = [
            path.read_bytes() for path in (identity.certificate, identity.key, identity.authority)
        ]
        layout = ModelLayout(lambda: nn.Linear(side, side))
        self.number = ROSTER.members.index(identity.name)
        self.before = resident("VmRSS:")
        self.storage = RowStorage(outbox=identity.certificate.parent)
        self.bank = Bank.start(
            layout, 0, {self.number: identity.name}, torch.device("cpu"), self.storage
        )
        self.exchange = NetworkExchange(
            self.bank,
            len(ROSTER.members),
            session=self.session,
            roster=ROSTER,
            me=identity.name,
            signer=Signer(*parts),
            limits=LIMITS,
            folder=identity.certificate.parent,
            flooded=partial(self.links.shut_out, reason="floods"),
        )
        self.round_index = 1
        self.chunks: list[bytes] = []
        Path("/proc/self/clear_refs").write_text(
            "5"
        )  # the peak starts here: making a model took more

    def clock(self) -> float:
        return time.monotonic() + self.forgiven

    def obey(self, order: str, count: int) -> float:
        """Each order by its name."""
        answer: float = getattr(self, order)(count)
        return answer

    def meet(self, count: int) -> float:
        return self.exchange.presence.wait(ROSTER.members[:count], 60)

    def peak(self, _: int) -> float:
        """Most bytes held so far, above `before`."""
        return resident("VmHWM:") - self.before

    def start(self, _: int) -> float:
        """A new version of the own model, for all to pull."""
        self._next_round()
        self.bank.hosted_rows.add_(1e-3)
        return len(self.exchange.pull(self.round_index, Visits.of([])))

    def pull(self, _: int) -> float:
        """Seconds that the owner's model takes."""
        return seconds(lambda: self.exchange.pull(self.round_index, Visits.of([(self.number, 0)])))

    def push(self, _: int) -> float:
        """An update for the owner's model, put away as by the learner; at the owner its own. Any
        numbers do.
        """
        home = self.bank.hosted_rows
        deltas = self.storage.deltas(*home.shape, dtype=home.dtype, device=home.device)
        deltas.write(np.array([0]), home[:1])
        self.exchange.push(
            self.round_index, Updates(np.array([0]), np.array([self.number]), np.ones(1), deltas)
        )
        return 0.0

    def collect(self, _: int) -> float:
        """Average what has come into the model; returns how many updates that were."""
        updates = self._next_round()
        average_into(self.bank, updates)
        self.exchange.pull(self.round_index, Visits.of([]))
        return len(updates)

    def _next_round(self) -> Updates:
        updates = self.exchange.collect(self.round_index)
        self.round_index += 1
        return updates

    def serve_plain(self, _: int) -> float:
        """The same bytes in plain chunks beside; returns their number."""
        whole = self.bank.hosted_rows.numpy().tobytes()
        self.chunks = [
            whole[at : at + LIMITS.chunk_bytes] for at in range(0, len(whole), LIMITS.chunk_bytes)
        ]
        self.plain = self.session.declare_queryable(f"{PLAIN}/*", self._reply)
        return len(self.chunks)

    def pull_plain(self, count: int) -> float:
        return seconds(lambda: pull_plain(self.session, count))

    def _reply(self, query: zenoh.Query) -> None:
        with query:
            query.reply(query.key_expr, self.chunks[int(str(query.key_expr).rpartition("/")[2])])


def work(identity: Identity, addresses: Addresses, side: int, orders: Connection) -> None:
    """The process of one peer, until it is told nothing more."""
    peer = Peer(identity, addresses, side)
    while order := orders.recv():
        orders.send(peer.obey(*order))
    peer.exchange.close()
    close(peer.session)


def pull_plain(session: zenoh.Session, count: int) -> int:
    """The chunks with a window of queries under way, and nothing done with them; returns their
    bytes.
    """
    waiting, under_way, size = deque(range(count)), deque[zenoh.Handler[zenoh.Reply]](), 0
    while waiting or under_way:
        while waiting and len(under_way) < LIMITS.window:
            under_way.append(session.get(f"{PLAIN}/{waiting.popleft()}", timeout=60.0))
        sample = under_way.popleft().recv().ok
        assert sample is not None
        size += len(sample.payload.to_bytes())
    return size


def measure_speed(repeats: int) -> Figures:
    with peers(SIDE, 1) as (owner, visitor):
        chunks, ours, plain = int(owner("serve_plain")), [], []
        for _ in range(repeats + 1):
            owner("start")  # a new version, so that it has to be sent
            ours.append(visitor("pull"))
            plain.append(visitor("pull_plain", chunks))
    mine, theirs = statistics.median(ours[1:]), statistics.median(plain[1:])
    return {"pull_seconds": mine, "plain_seconds": theirs, "ratio": theirs / mine}


def measure_memory(side: int) -> Figures:
    """Bytes at the peak of each phase; rows in memory are the own model, the pulled one, an update
    being added.
    """
    with peers(side, VISITORS) as (owner, *visitors):
        for _ in range(ROUNDS):
            owner("start")
            visitors[0]("pull")
        figures = {"owner_serving": owner("peak"), "visitor_pulling": visitors[0]("peak")}
        for present in (visitors[:1], visitors):
            for _ in range(ROUNDS):
                for visitor in present:
                    visitor("pull")
                    visitor("push")
                    visitor("start")
                owner("push")
                assert owner("collect") == 1 + len(present)
            figures[f"owner_with_{1 + len(present)}_updates"] = owner("peak")
        return {**figures, "visitor_with_update": visitors[0]("peak")}


def ask(other: Connection, order: str, count: int = 0) -> float:
    other.send((order, count))
    answer: float = other.recv()
    return answer


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@contextmanager
def peers(side: int, visitors: int) -> Iterator[list[Callable[..., float]]]:
    """An owner and its visitors, each a new process, by what gives them orders."""
    spawn, names = multiprocessing.get_context("spawn"), ROSTER.members[: visitors + 1]
    processes, pipes = [], []
    with tempfile.TemporaryDirectory(dir=".") as folder, socket() as probe:
        identities = credentials(Path(folder))
        probe.bind(("127.0.0.1", 0))
        here = f"127.0.0.1:{probe.getsockname()[1]}"
        probe.close()
        for name in names:
            mine, theirs = spawn.Pipe()
            where = Addresses(listen=[here]) if name == "owner" else Addresses(connect=[here])
            processes.append(
                spawn.Process(target=work, args=(identities[name], where, side, theirs))
            )
            pipes.append(mine)
        for process in processes:
            process.start()
        try:
            owner, *others = (partial(ask, pipe) for pipe in pipes)
            assert owner("meet", len(names))
            assert all(other("meet", 1) for other in others)
            yield [owner, *others]
        finally:
            for pipe in pipes:
                pipe.send(None)
            for process in processes:
                process.join(60)
                process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args()
    sizes = [4 * side * (side + 1) for side in (SIDE, 2 * SIDE)]
    small, large = measure_memory(SIDE), measure_memory(2 * SIDE)
    measured = {"model_bytes": sizes[0], **measure_speed(chosen.repeats)}
    measured |= {name: most / sizes[0] for name, most in small.items()}
    measured |= {
        f"{name}_each": (large[name] - most) / (sizes[1] - sizes[0]) for name, most in small.items()
    }
    if chosen.json:
        print(json.dumps(measured))
        return
    for name, value in measured.items():
        print(f"{name:28} {value:.3g}" if name != "model_bytes" else f"{name:28} {value}")


if __name__ == "__main__":
    main()
