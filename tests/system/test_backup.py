"""A state folder is backed up while its peer runs, and restored to a federation that went on."""

import json
import signal
import tarfile
from pathlib import Path

import pytest
from peers import Federation, small, until

from federico.errors import RunError
from federico.site.backup import back_up, restore
from federico.site.site_file import load_site


def test_an_older_state_that_is_restored_does_no_harm(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=100_000)) as federation:
        site, other = federation
        federation.start()
        until("rounds together", lambda: site.round > 3 and other.sees(site.name))
        backup = tmp_path / "monday.tar"
        back_up(site.state, backup)
        assert backup.stat().st_mode & 0o077 == 0
        saved = site.round
        until("it goes on", lambda: site.round > saved + 5)
        site.running.kill()
        assert site.wait() == -signal.SIGKILL
        later = site.round

        loaded = load_site(site.file)
        with pytest.raises(RunError, match="holds a state already"):
            restore(backup, loaded)
        site.state.rename(tmp_path / "lost")
        restore(backup, loaded)
        assert site.round < later
        assert site.state.stat().st_mode & 0o077 == 0

        before = len(site.said)
        site.start()
        until("it plays on beside the other", lambda: site.round > later and site.sees("1"))
        assert "resuming after round" in site.said[before:]
        assert site.status is not None
        assert other.status is not None
        assert site.status.members[other.name].strikes == 0
        assert other.status.members[site.name].strikes == 0
        rounds = [record.round for record in site.records]
        assert rounds == [*range(1, len(rounds) + 1)]


def test_what_is_no_whole_backup_of_this_site_is_refused(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=1)) as federation:
        site, other = federation
        site.set(wait_for_members=0.1, keep_serving=0.0)
        site.start()
        site.succeeds()
        backup = tmp_path / "backup.tar"
        back_up(site.state, backup)
        with pytest.raises(RunError, match="is there already"):
            back_up(site.state, backup)
        with pytest.raises(RunError, match="no state of a peer"):
            back_up(other.state, tmp_path / "none.tar")
        with pytest.raises(RunError, match="of another site"):
            restore(backup, load_site(other.file))
        assert not list(other.state.glob("records*"))

        content = bytearray(backup.read_bytes())
        place = content.index(b'"round"')
        content[place + 1 : place + 6] = b"ROUND"
        damaged = tmp_path / "damaged.tar"
        damaged.write_bytes(content)
        outside = tmp_path / "outside.tar"
        with tarfile.open(outside, "w") as archive:
            archive.addfile(tarfile.TarInfo("../outside.txt"))
        (tmp_path / "text.tar").write_text("no archive")
        for name in ("damaged.tar", "outside.tar", "text.tar", "absent.tar"):
            with pytest.raises(RunError, match=name):
                restore(tmp_path / name, load_site(other.file))
        assert not (tmp_path / "1" / "outside.txt").exists()


PRIVATE = {"training": {"batch_size": 8, "keep_best": 0.2}, "privacy": {"epsilon": 8.0}}


def test_a_backup_forgets_neither_the_privacy_spent_nor_the_best_round(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=12, **PRIVATE)) as federation:
        site, other = federation
        for each in federation:
            each.set(keep_serving=0.0, wait_for_members=5.0)
        federation.start()
        until("rounds that cost something", lambda: site.round > 3 and other.sees(site.name))
        backup = tmp_path / "monday.tar"
        back_up(site.state, backup)
        site.running.kill()
        site.wait()
        with tarfile.open(backup) as archive:
            saved = {name: archive.extractfile(name) for name in ("privacy.json", "best.json")}
            spent = json.loads(saved["privacy.json"].read())["steps"]  # type: ignore[union-attr]
            best = json.loads(saved["best.json"].read())  # type: ignore[union-attr]
            order = archive.getnames()
        assert order[-2:] == ["privacy.json", "backup.json"], "nothing is spent unseen meanwhile"
        assert sum(spent) > 0

        site.state.rename(tmp_path / "lost")
        restore(backup, load_site(site.file))
        assert json.loads((site.state / "best.json").read_text()) == best
        before = len(site.said)
        site.start()
        site.succeeds()
        last = site.records[-1]
        assert last.epsilon is not None
        assert 0 < last.epsilon[0] <= 8
        assert "the whole privacy budget counts as spent" in site.said[before:]
        assert last.epsilon[0] > 7
        restored = [record for record in site.records if record.epsilon == last.epsilon]
        assert len(restored) > 1, "what is used up does not grow"
