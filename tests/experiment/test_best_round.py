"""Keeping each client's personal model of its best round, and ending once nobody gains any more."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import federico
from federico.errors import ConfigError, RunError
from federico.experiment.config import validate
from federico.runs.client_models import open_client
from federico.runs.layout import CellDir
from federico.runs.records import Record, read_records
from federico.runs.results import read_results
from federico.types import Array

Clients = dict[str, tuple[Array, Array]]
ROUNDS = 30
NAMES = ("a", "b", "c")


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(10, 100), nn.ReLU(), nn.Linear(100, 2))


@pytest.fixture
def clients() -> Clients:
    """Clients with few samples, a third of whose labels are wrong: training overfits soon."""
    random = np.random.default_rng(3)
    made: Clients = {}
    for name in NAMES:
        x = random.normal(size=(60, 10)).astype(np.float32)
        y = (x[:, 0] > 0) ^ (random.random(60) < 0.3)
        made[name] = (x, y.astype(np.int64))
    return made


class Saved(federico.Callback):
    """What the personal model of every client predicts, as it lies on the disk after each round."""

    def __init__(self, clients: Clients) -> None:
        self.answers: dict[tuple[str, int], dict[str, Array]] = {}
        self.said: list[str] = []
        self._clients = clients

    def round_done(self, cell: CellDir, record: Record) -> None:
        found = {}
        for name, (x, _) in self._clients.items():
            found[name] = open_client(cell, name, wide).probabilities(x)
        self.answers[cell.description.method, record.round] = found

    def say(self, message: str) -> None:
        self.said.append(message)


def run(
    clients: Clients,
    folder: Path,
    *,
    rounds: int = ROUNDS,
    training: dict[str, object] | None = None,
    methods: Sequence[str] = ("local", "federico"),
    **settings: object,
) -> federico.Run:
    return federico.run(
        clients=clients,
        model=wide,
        directory=folder,
        rounds=rounds,
        methods=list(methods),
        training={"keep_best": 0.2, "batch_size": 10, **(training or {})},
        **settings,  # type: ignore[arg-type]
    )


def kept(done: federico.Run, clients: Clients, method: str) -> list[Array]:
    return [done.client(k, method=method).probabilities(clients[k][0]) for k in NAMES]


@pytest.mark.parametrize("method", ["local", "federico"])
def test_every_client_keeps_the_model_of_its_best_round(
    clients: Clients, tmp_path: Path, method: str
) -> None:
    saved = Saved(clients)
    done = run(clients, tmp_path, methods=[method], callbacks=[saved])
    records = read_records(done.path / f"{method}-0")
    assert records[-1].kept_rounds is not None
    assert max(records[-1].kept_rounds) < ROUNDS, "all overfit"
    assert len(set(records[-1].kept_rounds)) > 1, "clients choose each for itself"

    for place, name in enumerate(NAMES):
        best = records[-1].kept_rounds[place]
        for record in records:
            assert record.kept_rounds is not None
            assert record.kept_losses is not None
            # It changes with the loss, which only falls, and is of that round from then on.
            before = records[record.round - 2] if record.round > 1 else None
            if before is not None and record.kept_rounds[place] < record.round:
                assert record.kept_losses[place] == (before.kept_losses or [])[place]
                assert figures_of(record, place) == figures_of(before, place)
            elif before is not None:
                assert (record.kept_losses[place] or 0) < ((before.kept_losses or [])[place] or 0)

        answers = saved.answers[method, best][name]
        final = done.client(name, method=method).probabilities(clients[name][0])
        np.testing.assert_array_equal(final, answers)
        if best > 1:
            assert not np.array_equal(saved.answers[method, best - 1][name], answers)


def figures_of(record: Record, place: int) -> dict[str, float | None]:
    """The figures of one client, alone and together included."""
    found = {}
    for part in ("figures", "alone", "together"):
        for name, values in (getattr(record, part) or {}).items():
            found[f"{part} {name}"] = values[place]
    for part in ("together_share", "together_chance"):
        values = getattr(record, part)
        if values is not None:
            found[part] = values[place]
    return found


def test_what_is_reported_is_what_is_kept(clients: Clients, tmp_path: Path) -> None:
    done = run(clients, tmp_path, methods=["federico"])
    record = read_records(done.path / "federico-0")[-1]
    assert record.figures is not None
    for place, name in enumerate(NAMES):
        comparison = done.client(name).comparison
        assert comparison is not None
        assert comparison.used["accuracy"] == record.figures["accuracy"][place]
    cells, _ = read_results(done.path)
    assert cells[0].figures["accuracy"][-1] == record.figures["accuracy"]
    assert cells[0].kept_rounds == record.kept_rounds


def test_whoever_stops_at_that_round_has_the_same_model(clients: Clients, tmp_path: Path) -> None:
    whole = run(clients, tmp_path / "whole", methods=["local"])
    best = (read_records(whole.path / "local-0")[-1].kept_rounds or [])[0]
    short = run(clients, tmp_path / "short", methods=["local"], rounds=best)
    ours, theirs = kept(whole, clients, "local")[0], kept(short, clients, "local")[0]
    np.testing.assert_array_equal(ours, theirs)


def test_a_resumed_run_keeps_the_same(clients: Clients, tmp_path: Path) -> None:
    whole = run(clients, tmp_path / "whole", methods=["local"])
    run(clients, tmp_path / "resumed", methods=["local"], rounds=12)
    resumed = run(clients, tmp_path / "resumed", methods=["local"])
    for mine, theirs in zip(
        kept(resumed, clients, "local"), kept(whole, clients, "local"), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    assert read_records(resumed.path / "local-0") == read_records(whole.path / "local-0")


def test_nothing_is_set_aside_unless_asked_for(clients: Clients, tmp_path: Path) -> None:
    done = run(clients, tmp_path, rounds=2, training={"keep_best": 0.0})
    assert read_records(done.path / "local-0")[-1].kept_rounds is None


def test_a_client_with_nothing_to_choose_by_keeps_the_last(
    clients: Clients, tmp_path: Path
) -> None:
    x, y = clients["a"]
    few = {**clients, "a": (x[:2], y[:2])}  # one of the two samples is for testing
    done = run(few, tmp_path, rounds=4, methods=["local"])
    records = read_records(done.path / "local-0")
    assert [(record.kept_rounds or [])[0] for record in records] == [1, 2, 3, 4]
    assert (records[-1].without_gain or [])[0] == 3


def test_an_unknown_client_is_named(clients: Clients, tmp_path: Path) -> None:
    done = run(clients, tmp_path, rounds=1, methods=["local"])
    with pytest.raises(RunError, match="no client 'd'"):
        open_client(CellDir(done.path / "local-0"), "d", wide)


def test_a_run_ends_once_nobody_has_gained_for_that_long(clients: Clients, tmp_path: Path) -> None:
    saved = Saved(clients)
    done = run(clients, tmp_path, methods=["local"], training={"patience": 4}, callbacks=[saved])
    records = read_records(done.path / "local-0")
    assert len(records) < ROUNDS
    assert min(records[-1].without_gain or []) == 4
    assert min(records[-2].without_gain or []) < 4
    last = len(records)
    assert saved.said[-1] == (
        f"local-0: ended after round {last}, as no client has gained for 4 evaluated rounds"
    )

    # It counts as a cell that has all its rounds, in which nothing has changed any more.
    cells, _ = read_results(done.path)
    assert cells[0].rounds == ROUNDS
    assert cells[0].ended_after == last
    assert cells[0].evaluated[-2:] == [last, ROUNDS]
    assert cells[0].figures_at(-1) == cells[0].figures_at(-2)
    assert len(cells[0].bytes_by_round) == last
    assert "local" in done.report().read_text(encoding="utf-8")


def test_a_run_that_has_ended_early_is_finished(clients: Clients, tmp_path: Path) -> None:
    done = run(clients, tmp_path, methods=["local"], training={"patience": 4})
    before = (done.path / "local-0" / "records.jsonl").read_bytes()
    again = run(clients, tmp_path, methods=["local"], training={"patience": 4})
    assert not again.trained
    assert (done.path / "local-0" / "records.jsonl").read_bytes() == before


def test_a_run_that_was_interrupted_ends_at_the_same_round(
    clients: Clients, tmp_path: Path
) -> None:
    class Interruption(federico.Callback):
        def round_done(self, cell: CellDir, record: Record) -> None:
            if record.round == 5:
                raise KeyboardInterrupt

    with_patience = {"patience": 4}
    whole = run(clients, tmp_path / "whole", training=with_patience)
    with pytest.raises(KeyboardInterrupt):
        run(
            clients,
            tmp_path / "resumed",
            training=with_patience,
            system={"checkpoint_every": 3},
            callbacks=[Interruption()],
        )
    resumed = run(
        clients, tmp_path / "resumed", training=with_patience, system={"checkpoint_every": 3}
    )
    for method in ("local", "federico"):
        ours, theirs = (read_records(each.path / f"{method}-0") for each in (resumed, whole))
        assert ours == theirs
        for mine, other in zip(
            kept(resumed, clients, method), kept(whole, clients, method), strict=True
        ):
            np.testing.assert_array_equal(mine, other)


def test_hostile_clients_neither_choose_nor_keep_a_run_going(
    clients: Clients, tmp_path: Path
) -> None:
    attack = {"kind": "noise", "members": ["a"]}
    done = run(clients, tmp_path, methods=["fedavg"], training={"patience": 3}, attack=attack)
    last = read_records(done.path / "fedavg-0")[-1]
    assert min((last.without_gain or [])[1:]) == 3


def test_patience_without_evidence_is_refused() -> None:
    with pytest.raises(ConfigError, match="set keep_best"):
        validate({"training": {"patience": 3}})
