import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from federico.errors import RunError
from federico.runs import checkpoint
from federico.runs import tensor_file as tensorfile
from federico.runs.checkpoint import Writer, load_latest, save


def state(round_index: int) -> dict[str, torch.Tensor]:
    return {
        "bank.rows": torch.arange(6.0).view(2, 3).T + round_index,  # not contiguous
        "losses": torch.full((2,), np.pi, dtype=torch.float64),
        "pairs": torch.tensor([[0, 1]]),
        "empty": torch.empty(0, 4),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Checkpoints of rounds 1 to 3."""
    for index in (1, 2, 3):
        save(tmp_path / "checkpoint", index, 100 * index, state(index))
    return tmp_path / "checkpoint"


def newest(folder: Path) -> Path:
    return max(folder.glob("*.safetensors"))


def silent(message: str) -> None:
    pytest.fail(f"nothing is wrong, but it said: {message}")


def test_newest_state_comes_back_bit_for_bit(folder: Path) -> None:
    found = load_latest(folder, silent)
    assert found is not None
    assert (found.round_index, found.records_bytes) == (3, 300)
    assert found.state.keys() == state(3).keys()
    for name, tensor in state(3).items():
        assert found.state[name].dtype == tensor.dtype
        assert torch.equal(found.state[name], tensor)


def test_two_are_kept(folder: Path) -> None:
    names = sorted(path.name[:12] for path in folder.iterdir())
    assert names == ["round-000002", "round-000003"]


def test_rounds_are_ordered_as_numbers(tmp_path: Path) -> None:
    for index in (999_999, 1_000_000):
        save(tmp_path, index, 0, state(0))
    found = load_latest(tmp_path, silent)
    assert found is not None
    assert found.round_index == 1_000_000


def test_one_too_many_after_a_crash_is_dropped(folder: Path, tmp_path: Path) -> None:
    save(tmp_path, 1, 100, state(1))
    newest(tmp_path).rename(folder / newest(tmp_path).name)
    assert len(list(folder.iterdir())) == 3
    assert load_latest(folder, silent) is not None
    assert sorted(path.name[:12] for path in folder.iterdir()) == ["round-000002", "round-000003"]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip_last_bit(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))


def flip_header_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[20] ^= 4
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


DAMAGES = [truncate, flip_last_bit, flip_header_bit, empty, grow]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_one_is_put_aside_and_the_one_before_is_used(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    bad = newest(folder)
    damage(bad)
    said: list[str] = []
    found = load_latest(folder, said.append)
    assert found is not None
    assert (found.round_index, found.records_bytes) == (2, 200)
    assert torch.equal(found.state["bank.rows"], state(2)["bank.rows"])
    assert len(said) == 1
    assert bad.name in said[0]
    assert "put aside" in said[0]
    assert not bad.exists()
    assert bad.with_suffix(".damaged").exists(), "kept for whoever wants to look at it"


@pytest.mark.parametrize("damage", DAMAGES)
def test_two_damaged_ones_leave_nothing_to_go_on_from(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    for path in folder.iterdir():
        damage(path)
    said: list[str] = []
    assert load_latest(folder, said.append) is None
    assert len(said) == 2


def test_put_aside_ones_do_not_count_among_the_two(folder: Path) -> None:
    truncate(newest(folder))
    load_latest(folder, lambda message: None)
    save(folder, 3, 300, state(3))
    save(folder, 4, 400, state(4))
    assert sorted(path.name[:12] for path in folder.glob("*.safetensors")) == [
        "round-000003",
        "round-000004",
    ]


def test_half_written_leftover_is_swept_away(folder: Path) -> None:
    (folder / "round.partial").write_bytes(b"half a checkpo")
    found = load_latest(folder, silent)
    assert found is not None
    assert found.round_index == 3
    assert not list(folder.glob("*.partial"))


def test_files_of_other_names_are_left_alone(folder: Path) -> None:
    (folder / "round-000009-notahash.safetensors").write_bytes(b"?")
    (folder / "notes.txt").write_text("mine")
    found = load_latest(folder, silent)
    assert found is not None
    assert found.round_index == 3
    assert (folder / "notes.txt").exists()


def test_nothing_saved_is_no_checkpoint(tmp_path: Path) -> None:
    assert load_latest(tmp_path / "never", silent) is None


def test_writer_that_finds_the_disk_full_leaves_the_old_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(folder.iterdir())

    def full(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"as much as there was room for")
        raise RuntimeError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        )

    monkeypatch.setattr(tensorfile, "save_file", full)
    with pytest.raises(RunError, match="no space left on the disk"):
        save(folder, 4, 400, state(4))
    assert sorted(folder.iterdir()) == before


def writer_to(folder: Path) -> Writer:
    """Whose records are a file that is there."""
    return Writer(folder, Path(__file__))


def test_records_are_on_the_disk_before_the_checkpoint_that_counts_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(Path(f"/proc/self/fd/{handle}").resolve().name)
    )
    records = tmp_path / "records.jsonl"
    records.touch()
    with Writer(tmp_path / "checkpoint", records) as writer:
        writer.save(1, 0, state(1))
    assert synced == ["records.jsonl", "round.partial", "checkpoint"], (
        "a power cut leaves none ahead of its records"
    )


def test_writer_has_saved_all_when_it_is_left(tmp_path: Path) -> None:
    with writer_to(tmp_path) as writer:
        for index in (1, 2, 3):
            writer.save(index, index, state(index))
    found = load_latest(tmp_path, silent)
    assert found is not None
    assert found.round_index == 3
    assert len(list(tmp_path.iterdir())) == 2


def test_writer_goes_on_while_the_disk_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed, begun = threading.Event(), threading.Event()
    plain = tensorfile.save_file

    def slow(*arguments: object, **named: object) -> None:
        begun.set()
        assert allowed.wait(10)
        plain(*arguments, **named)

    monkeypatch.setattr(tensorfile, "save_file", slow)
    with writer_to(tmp_path) as writer:
        writer.save(1, 1, state(1))
        assert begun.wait(10), "it is being saved, and we are here"
        assert not list(tmp_path.glob("*.safetensors"))
        allowed.set()
    assert list(tmp_path.glob("*.safetensors"))


def test_writer_rests_once_it_has_written_and_some_time_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = threading.Event()
    monkeypatch.setattr(checkpoint, "save", lambda *_: allowed.wait(60))
    monkeypatch.setattr(checkpoint, "PAUSE", 0)
    with writer_to(tmp_path) as writer:
        assert writer.rested
        writer.save(1, 1, state(1))
        assert not writer.rested, "it is at it"
        allowed.set()
        writer.wait()
        assert writer.rested
        monkeypatch.setattr(checkpoint, "PAUSE", float("inf"))
        assert not writer.rested, "the last one is not old enough"


def failing(*arguments: object, **named: object) -> None:
    raise RuntimeError("No space left on device (os error 28)")


def test_failed_save_is_told_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorfile, "save_file", failing)
    with pytest.raises(RunError, match="no space left"), writer_to(tmp_path) as writer:  # noqa: PT012
        writer.save(1, 1, state(1))
        writer.save(2, 2, state(2))
        pytest.fail("it went on as if nothing had happened")


def test_failed_last_save_is_told_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorfile, "save_file", failing)
    with pytest.raises(RunError, match="no space left"), writer_to(tmp_path) as writer:
        writer.save(1, 1, state(1))


def test_other_error_is_not_hidden_by_a_failed_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorfile, "save_file", failing)
    with pytest.raises(KeyError), writer_to(tmp_path) as writer:  # noqa: PT012
        writer.save(1, 1, state(1))
        raise KeyError
