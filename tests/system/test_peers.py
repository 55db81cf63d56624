"""Peers as sites run them: real processes, sockets and certificates."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from peers import PATIENCE, Federation, Site, small, until
from safetensors.torch import load_file

from federico.api.progress import Quiet
from federico.cli.main import main
from federico.experiment.runner import simulate
from federico.runs.bundle import open_folder
from federico.runs.records import Record, read_records
from federico.site.certificates import (
    approve_request,
    create_authority,
    create_request,
    renew_certificate,
)


@pytest.fixture(scope="module")
def lock_step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a federation of four that has played in lock-step to its end.

    All options of the method are the default ones. The simulation of the same experiment is in
    `runs`.
    """
    folder = tmp_path_factory.mktemp("lock-step")
    setup = small(4, groups=2, rounds=6)
    with Federation(folder, setup, mode="lock-step") as federation:
        federation.start()
        simulate(setup.experiment, folder / "runs", Quiet())
        federation.succeeds()
    return folder


def test_lock_step_is_the_simulation(lock_step: Path) -> None:
    """To the last bit, in what peers record and in their models."""
    cell = lock_step / "runs" / "small" / "federico-0"
    simulated = read_records(cell)
    simulated_models = models_by_owner(cell)
    for place, name in enumerate(("0", "1", "2", "3")):
        state = lock_step / name / "state"
        played = read_records(state)
        for mine, theirs in zip(played, simulated, strict=True):
            assert mine.neighbors[0] == theirs.neighbors[place]
            assert mine.posterior[0] == theirs.posterior[place]
            assert mine.together_share is not None
            assert theirs.together_share is not None
            assert mine.together_share[0] == theirs.together_share[place]
            assert mine.together_chance is not None
            assert theirs.together_chance is not None
            assert mine.together_chance[0] == theirs.together_chance[place]

        models = models_by_owner(state)
        assert len(models) == 3, "its own, its private one, and that one's twin"
        for owner, model in models.items():
            assert torch.equal(model, simulated_models[owner])
    assert any(record.neighbors[0] for record in played)


def models_by_owner(folder: Path) -> dict[int, torch.Tensor]:
    """All models of the newest checkpoint."""
    newest = max((folder / "checkpoint").glob("*.safetensors"))
    saved = load_file(newest)
    return dict(zip(saved["bank.owners"].tolist(), saved["bank.rows"], strict=True))


def test_a_state_folder_holds_a_personal_model(
    lock_step: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.savez(tmp_path / "new.npz", x=np.random.default_rng(0).random((5, 64)).astype(np.float32))
    folder = lock_step / "1" / "state" / "clients" / "1"
    output = tmp_path / "out.csv"
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "federico",
            "predict",
            str(lock_step / "1" / "state"),
            str(tmp_path / "new.npz"),
            "--output",
            str(output),
        ],
    )
    with pytest.raises(SystemExit) as leaving:
        main()
    assert not leaving.value.code
    assert len(output.read_text().splitlines()) == 1 + 5
    weights = open_folder(folder).posterior
    assert sum(weights.values()) == pytest.approx(1)
    last = read_records(lock_step / "1" / "state")[-1]
    assert last.together_share is not None
    share = last.together_share[0]
    assert weights.pop("1 (alone)") == pytest.approx(1 - share, abs=1e-3)
    assert sum(weights.values()) == pytest.approx(share, abs=1e-3)
    trusted = {peer for peer, weight in last.posterior[0].items() if weight > 0}
    assert weights.keys() <= trusted, "judged again, they may weigh less, but nobody is added"


def test_no_key_reaches_a_log_a_status_or_a_record(lock_step: Path) -> None:
    for name in ("0", "1"):
        pem = (lock_step / name / "keys" / f"{name}.key").read_bytes()
        key = load_pem_private_key(pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        number = key.private_numbers().private_value
        secrets = [*pem.splitlines()[1:-1], b"%d" % number, b"%x" % number, b"PRIVATE KEY"]
        written = [path for path in (lock_step / name / "state").rglob("*") if path.is_file()]
        assert any(path.name == "peer.log" for path in written)
        for path in (*written, lock_step / name / "output.txt"):
            content = path.read_bytes()
            assert not [secret for secret in secrets if secret in content], path


def test_a_finished_peer_says_so_to_people_and_scripts(
    lock_step: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["federico", "peer", "status", str(lock_step / "0" / "site.toml"), "--json"]
    )
    with pytest.raises(SystemExit):
        main()
    status = json.loads(capsys.readouterr().out)
    assert (status["phase"], status["round"]) == ("finished", 6)
    assert (lock_step / "0" / "state" / "peer.log").read_text().count(" round ") == 6


def test_a_finished_peer_that_is_started_again_says_so_and_touches_nothing(
    lock_step: Path, outcome_of: Callable[[Path], dict[str, bytes]]
) -> None:
    site = Site(lock_step / "0" / "site.toml")
    kept, said = outcome_of(lock_step / "0"), len(site.said)
    begun = time.monotonic()
    site.start()
    site.succeeds()
    assert time.monotonic() - begun < site.options["wait_for_members"]
    assert "all 6 rounds are finished already" in site.said[said:]
    assert "alone" not in site.said[said:]
    assert outcome_of(lock_step / "0") == kept, (
        "its personal model holds those of others, who are away now"
    )
    assert site.status is not None
    assert site.status.phase == "finished"


def test_a_finished_peer_serves_who_is_behind(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=30)) as federation:
        behind, finished = federation
        finished.set(wait_for_members=0.1, keep_serving=0.0)
        finished.start()
        finished.succeeds()
        behind.start()
        until("it waits for others", lambda: behind.status is not None)
        finished.set(keep_serving=PATIENCE)
        finished.start()
        behind.succeeds()
        finished.succeeds()
        assert set(behind.records[-1].posterior[0]) == {"0", "1"}
        assert "refused" not in behind.said, (
            "what an owner that plays no more has got once is not offered again"
        )


def test_killed_restarted_stopped(tmp_path: Path) -> None:
    """The killed one resumes and is pulled from again; all stop when told, with all saved."""
    setup = small(3, rounds=100_000)
    with Federation(tmp_path, setup) as federation:
        federation.start()
        victim, *others = federation
        until("some rounds", lambda: all(site.round >= 5 for site in federation))
        victim.running.kill()
        assert victim.wait() == -signal.SIGKILL
        before = victim.round
        until("others notice", lambda: not any(site.sees(victim.name) for site in others))
        stood = [site.round for site in others]
        until(
            "others go on",
            lambda: all(site.round > old + 2 for site, old in zip(others, stood, strict=True)),
        )
        victim.start()
        until("it goes on", lambda: victim.round > before + 5)
        until("others notice", lambda: all(site.sees(victim.name) for site in others))
        back = [site.round for site in others]
        until(
            "it is pulled from",
            lambda: all(
                _has_judged(victim.name, site.records[old:])
                for site, old in zip(others, back, strict=True)
            ),
        )
        for site in federation:
            site.running.terminate()
        federation.succeeds()
        # Rounds are saved while the next is played, and told after they are given to be saved.
        assert any(f"resuming after round {before + off}\n" in victim.said for off in (-1, 0, 1))
        for site in federation:
            status = site.status
            assert status is not None
            assert status.phase == "stopped"
            assert [record.round for record in site.records] == [*range(1, status.round + 1)]
            assert list((site.state / "checkpoint").glob(f"round-{status.round:06d}-*"))
            assert f"stopped after round {status.round} of 100000: " in site.said
            personal = open_folder(site.state / "clients" / site.name).posterior
            trusted = {
                name for name, weight in site.records[-1].posterior[0].items() if weight > 0.01
            }
            assert personal.keys() >= trusted, "whoever was on its way is still in it"
            assert sum(personal.values()) == pytest.approx(1)


def _has_judged(name: str, records: Sequence[Record]) -> bool:
    """Whether a site has judged the model of the peer of this name in these rounds."""
    return any(record.gains is not None and name in record.gains[0] for record in records)


def test_a_certificate_of_another_authority_stays_outside(tmp_path: Path) -> None:
    """Each side goes on alone; neither ever counts the other as here."""
    with Federation(tmp_path, small(2, rounds=4)) as federation:
        good, bad = federation
        create_authority(tmp_path / "other", "authority")
        for old in ("1.key", "1.csr", "1.pem"):
            (tmp_path / "1" / "keys" / old).unlink()
        approve_request(
            create_request(tmp_path / "1" / "keys", "1", ["127.0.0.1"]), tmp_path / "other"
        )
        for site in federation:
            site.set(wait_for_members=3.0, keep_serving=0.0)
        federation.start()
        federation.succeeds()
        for site, other in ((good, bad), (bad, good)):
            assert site.status is not None
            assert site.status.members[other.name].last_seen is None
            assert set(site.records[-1].posterior[0]) == {site.name}
            assert (
                f"not here: {other.name}. This site trains alone until somebody comes." in site.said
            )


def test_an_expired_certificate_is_refused_at_the_start(tmp_path: Path) -> None:
    with Federation(tmp_path, small(2, rounds=1)) as federation:
        site = federation["0"]
        renew_certificate(tmp_path / "0" / "keys" / "0.pem", tmp_path / "ca", days=0)
        site.start()
        assert site.wait() == 6
        assert "expired" in site.said
        assert "Traceback" not in site.said


TINY = """
rounds = 3
split = { samples = 200 }
partition = { kind = "label-groups", groups = 1 }
model = { kind = "mlp", hidden = [6] }
"""


def launch_command(folder: Path, *options: str) -> list[str]:
    file = folder / "tiny.toml"
    file.write_text(TINY)
    return [sys.executable, "-m", "federico", "launch", "2", str(file), *options]


def test_launch_shows_a_federation_beside_training_alone(tmp_path: Path) -> None:
    command = launch_command(tmp_path, "--json")
    done = subprocess.run(command, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    shown = json.loads(done.stdout)
    assert set(shown) == {"0", "1"}
    assert all(0 <= row[key] <= 1 for row in shown.values() for key in ("federico", "alone"))


def test_launch_leaves_no_peer_behind_when_it_is_terminated(tmp_path: Path) -> None:
    sites = tmp_path / "sites"
    long = ("--directory", str(sites), "--set", "rounds=100000", "--quiet")
    launched = subprocess.Popen(launch_command(tmp_path, *long))
    until("both peers have a status", lambda: len(list(sites.glob("*/**/status.json"))) == 2)
    peers = [json.loads(file.read_text())["pid"] for file in sites.glob("*/**/status.json")]

    launched.terminate()
    assert launched.wait(60) == 128 + signal.SIGTERM
    assert [pid for pid in peers if Path(f"/proc/{pid}").exists()] == []


def test_what_one_has_sent_another_has_received(tmp_path: Path) -> None:
    """Training and evaluation apart, also what is moved after the last round of one of them."""
    with Federation(tmp_path, small(3, rounds=5)) as federation:
        federation.start()
        federation.succeeds()
        statuses = [site.status for site in federation if site.status]
        assert sum(status.sent for status in statuses) == sum(
            status.received for status in statuses
        )
        evaluation_sent = sum(status.evaluation_sent for status in statuses)
        assert evaluation_sent == sum(status.evaluation_received for status in statuses)
        assert evaluation_sent > 0
        for site, status in zip(federation, statuses, strict=True):
            assert status.evaluation_received == sum(
                record.evaluation_received[int(site.name)] for record in site.records
            ), "what a peer reads is in its records; what it sends after the last cannot be"
