import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from federico.cli.launch import result_table
from federico.experiment.build import prepare
from federico.experiment.config import load
from federico.network.waits import Wait
from federico.runs.comparison import Comparison
from federico.runs.lock import locked
from federico.runs.metric import metric_of
from federico.site import preflight
from federico.site.local_federation import create_federation, with_clients
from federico.site.site_file import load_site
from federico.site.state_folder import open_state_folder
from federico.site.status import MemberStatus, Status, write_status

Command = Callable[..., Any]
STATUS = Status(
    federation="tiny",
    name="0",
    pid=os.getpid(),
    phase="training",
    updated=time.time(),
    round=3,
    rounds=30,
    figures={"accuracy": 0.875, "loss": 0.5},
    evaluated=3,
    comparison=Comparison(
        alone={"accuracy": 0.76, "loss": 1.0},
        together={"accuracy": 0.88, "loss": 0.5},
        used={"accuracy": 0.875, "loss": 0.5},
        together_share=0.86,
        together_chance=0.918,
    ),
    posterior={"0": 0.75, "1": 0.25},
    sent=2_000_000,
    received=1_000_000,
    evaluation_sent=500_000,
    evaluation_received=200_000,
    members={
        "1": MemberStatus(True, None, True, "good", 0, ""),
        "2": MemberStatus(False, 1e9, True, "good", 0, ""),
        "4": MemberStatus(True, None, True, "good", 0, "", twice=True),
        "3": MemberStatus(False, None, False, "paused", 3, "[red]not finite"),
        "5": MemberStatus(True, None, True, "good", 0, "", standing=0.25, refusals=2),
    },
)


@pytest.fixture
def running(site: Path) -> Iterator[Path]:
    """The same site while a peer runs there, which holds the lock of the state folder."""
    with locked(site.parent / "state"):
        write_status(site.parent / "state", replace(STATUS, updated=time.time()))
        yield site


@pytest.fixture
def site(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The site file of one of four."""
    monkeypatch.setattr(preflight, "SEARCH_SECONDS", 0.0)
    return create_federation(tmp_path / "four", prepare(with_clients(load(tiny), 4), 0))["0"]


def test_status_tells_round_accuracy_trust_and_who_is_away(
    federico: Command, running: Path
) -> None:
    text = federico("peer", "status", running).out
    assert (
        "0 in tiny: training, round 3 of 30, accuracy 87.5 % on its own test data; "
        "2.0 MB sent and 1.0 MB received to train, 0.5 MB sent and 0.2 MB received to evaluate"
        in text
    )
    for line in (
        ("0 (this site)", "yes", "75.0%"),
        ("1", "yes", "25.0%", "good"),
        ("2", "away since 2001-09-09"),
        ("5", "yes", "2 updates refused, counts for 25%"),
    ):
        assert any(all(part in row for part in line) for row in text.splitlines()), line
    assert "another federation file" in text
    assert "two processes" in text
    assert "[red]not finite" in text, "what a member said is no markup"


def test_status_counts_the_traffic_of_small_models_in_kilobytes(
    federico: Command, running: Path
) -> None:
    little = replace(STATUS, sent=21_540, received=0, evaluation_sent=99_999)
    write_status(running.parent / "state", little)
    text = federico("peer", "status", running).out
    assert "21.5 kB sent and 0.0 kB received to train, 100.0 kB sent and 0.2 MB" in text


def test_status_tells_refused_messages_from_refused_updates(
    federico: Command, running: Path
) -> None:
    late = replace(STATUS.members["1"], refused={"this version is gone": 1})
    write_status(running.parent / "state", replace(STATUS, members={"1": late}))
    text = " ".join(federico("peer", "status", running).out.split())
    assert "good, messages refused: this version is gone (once)" in text


def test_status_tells_whether_the_federation_is_worth_it(federico: Command, running: Path) -> None:
    text = federico("peer", "status", running).out
    assert (
        "Is it worth it? alone 76.0 %, with collaborators 88.0 %: together counts 86 %, 92 % sure "
        "that together is better; 0 predicts mostly together (86 %)" in text
    )
    found = json.loads(federico("peer", "status", running, "--json").out)["comparison"]
    assert found["alone"]["accuracy"] == 0.76
    assert found["together_share"] == 0.86
    assert found["together_chance"] == 0.918


def test_status_names_no_collaborators_that_a_site_does_not_trust(
    federico: Command, running: Path
) -> None:
    alone = replace(STATUS, posterior={"0": 1.0, "1": 0.0})
    write_status(running.parent / "state", alone)
    text = federico("peer", "status", running).out
    assert "with the model it shares 88.0 % (it trusts no other's): that counts 86 %\n" in text


def test_status_takes_a_state_folder_as_report_does(federico: Command, running: Path) -> None:
    state = running.parent / "state"
    assert federico("peer", "status", state).out.startswith("0 in tiny: training, round 3 of 30")
    answer = federico("peer", "status", running.parent)
    assert answer.code == 4
    assert "is not the state folder of a site that was started" in answer.err


def test_status_claims_nothing_before_the_first_evaluation(
    federico: Command, running: Path
) -> None:
    begun = replace(STATUS, figures={}, evaluated=0, comparison=None)
    write_status(running.parent / "state", begun)
    text = federico("peer", "status", running).out
    assert "round 3 of 30; " in text
    assert "alone" not in text


def test_status_says_how_old_its_figures_are(federico: Command, running: Path) -> None:
    write_status(running.parent / "state", replace(STATUS, evaluated=2))
    text = federico("peer", "status", running).out
    assert "accuracy 87.5 % on its own test data after round 2; " in text


@pytest.mark.parametrize(
    ("change", "code", "headline", "said"),
    [
        (
            {},
            8,
            "not running (was training)",
            "0: not running: it ended without a word, as a process does that is killed",
        ),
        (
            {"phase": "failed", "exit_code": 7, "error": "port in use"},
            8,
            "failed",
            "0: not running: it ended with exit code 7: port in use",
        ),
        ({"phase": "finished", "exit_code": 0}, 0, "finished", ""),
        ({"phase": "stopped", "exit_code": 0}, 0, "stopped", ""),
    ],
    ids=str,
)
def test_a_peer_that_has_ended_says_nothing_of_others_now(
    federico: Command, site: Path, change: dict, code: int, headline: str, said: str
) -> None:
    """Also where its process number belongs to another process by now, as that of this test."""
    (site.parent / "state").mkdir()
    write_status(site.parent / "state", replace(STATUS, **change))
    answer = federico("peer", "status", site)
    text = answer.out
    assert answer.code == code
    assert f": {headline}, round 3 of 30" in text.splitlines()[0]
    assert said in answer.err
    found = json.loads(federico("peer", "status", site, "--json").out)
    assert not found["running"]
    assert found["exit_code"] == change.get("exit_code")
    assert "not running" in text
    assert "yes" not in text
    assert "when this site ended" in text


def test_status_for_scripts(federico: Command, running: Path) -> None:
    assert (
        json.loads(federico("peer", "status", running, "--json").out)["members"]["3"]["reputation"]
        == "paused"
    )


def test_a_peer_without_a_sign_of_life_hangs(federico: Command, running: Path) -> None:
    write_status(running.parent / "state", replace(STATUS, updated=time.time() - 300))
    answer = federico("peer", "status", running)
    assert answer.code == 8
    assert "running, but without a sign of life for 300 s" in answer.err


def test_status_says_who_is_waited_for_and_how_long(federico: Command, running: Path) -> None:
    now = time.time()
    waits = [Wait("2", "its model", now - 12, now + 48)]
    write_status(running.parent / "state", replace(STATUS, updated=now, waits=waits))
    answer = federico("peer", "status", running)
    assert answer.code == 0
    assert "Waits for 2 (its model, for 12 s, at most 48 s more)" in answer.out


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (60.01, "The certificate is valid for 60 more days"),
        (3.01, "The certificate ends in 3.0 days; renew it now with `federico pki renew`"),
        (-1.0, "The certificate has expired"),
    ],
)
def test_status_says_when_to_renew_the_certificate(
    federico: Command, running: Path, days: float, said: str
) -> None:
    ends = time.time() + days * 24 * 3600
    write_status(running.parent / "state", replace(STATUS, certificate_ends=ends))
    assert said in federico("peer", "status", running).out


def test_no_status_yet(federico: Command, site: Path) -> None:
    answer = federico("peer", "status", site)
    assert answer.code == 4
    assert "no peer has been started" in answer.err


def test_check_says_who_gives_out_a_certificate_that_is_not_there(
    federico: Command, site: Path
) -> None:
    (certificate,) = site.parent.rglob("0.pem")
    certificate.unlink()
    answer = federico("peer", "check", site)
    assert answer.code == 6
    assert "0.pem: cannot be read: No such file or directory; the authority makes" in answer.out


def test_check_tells_people_and_scripts(federico: Command, site: Path) -> None:
    answer = federico("peer", "check", site)
    assert answer.code == 0, answer.err
    assert "ok    certificate: 0, issued by tiny-authority" in answer.out
    assert "wait  member 1: not there now" in answer.out
    grades = {
        finding["what"]: finding["grade"]
        for finding in json.loads(federico("peer", "check", site, "--json").out)
    }
    assert grades["data and model"] == "ok"


def test_check_says_that_the_state_is_of_another_version(federico: Command, site: Path) -> None:
    assert "nothing there yet; the peer starts with round 1" in federico("peer", "check", site).out
    with open_state_folder(load_site(site)):
        pass
    assert "state: the peer resumes" in federico("peer", "check", site).out

    (shared,) = site.parents[1].rglob("federation.toml")
    text = shared.read_text()
    changed = text.replace(f"rounds = {load_site(site).federation.rounds}\n", "rounds = 99\n")
    assert changed != text
    shared.write_text(changed)
    answer = federico("peer", "check", site)
    assert answer.code == 4
    assert "holds the state of another site, or of another version" in answer.out
    assert "would not work yet: state" in answer.err


def test_check_fails_where_the_peer_would(federico: Command, site: Path) -> None:
    (site.parent / "keys" / "0.key").chmod(0o644)
    answer = federico("peer", "check", site)
    assert answer.code == 6
    assert "chmod 600" in answer.out
    assert "would not work yet: certificate" in answer.err
    started = federico("peer", site)
    assert started.code == 6
    assert "chmod 600" in started.err


@pytest.mark.parametrize(
    "command", [["peer"], ["peer", "run"], ["peer", "check"], ["peer", "status"]]
)
def test_a_site_file_that_is_not_there(federico: Command, command: list[str]) -> None:
    answer = federico(*command, "nowhere.toml")
    assert answer.code == 2
    assert "nowhere.toml: there is no such site file" in answer.err


def test_a_relay_must_be_named_by_the_federation(federico: Command, site: Path) -> None:
    file = site.parent.parent / "federation.toml"
    answer = federico("relay", file, "--name", "stranger", "--listen", "127.0.0.1:0")
    assert answer.code == 6
    assert "'stranger' is not in its relays: none" in answer.err


def test_the_result_of_a_launch_is_titled_by_its_task_though_a_peer_has_no_figures() -> None:
    never_evaluated = replace(STATUS, name="1", figures={}, comparison=None)
    table = result_table([never_evaluated, STATUS], [None, 0.76], metric_of("classification"))
    assert table.title == "Accuracy on each peer's own test data"
    assert list(table.columns[1].cells) == ["", "87.5 %", "87.5 %"]


def test_launch_refuses_what_cannot_be(federico: Command, tiny: Path) -> None:
    answer = federico("launch", "2", tiny, "--set", "federico.neighbors=5")
    assert answer.code == 2
    assert "neighbors" in answer.err


WHAT_WAS_IMPORTED = """
import sys
from federico.cli.main import main
try:
    main()
finally:
    sys.stderr.write(" ".join({"torch", "numpy", "pandas", "zenoh"} & sys.modules.keys()))
"""


def test_status_is_quick_because_nothing_heavy_is_imported(running: Path) -> None:
    command = [sys.executable, "-c", WHAT_WAS_IMPORTED, "peer", "status", str(running)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "round 3 of 30" in done.stdout
    assert done.stderr == ""


def test_launch_refuses_fewer_peers_than_the_partition_has_groups(
    federico: Command, tiny: Path
) -> None:
    groups = ["--set", 'partition={kind="label-groups", clients=3, groups=3}']
    answer = federico("launch", "2", tiny, *groups)
    assert answer.code == 2
    assert "2 peers: partition: groups = 3 is more than clients = 2" in answer.err


@pytest.mark.parametrize("command", ["pki", "peer", "relay", "launch"])
def test_help_is_quick_because_nothing_heavy_is_imported(command: str) -> None:
    arguments = [sys.executable, "-c", WHAT_WAS_IMPORTED, command, "--help"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert done.stderr == ""


@pytest.fixture
def private_site(tiny: Path, tmp_path: Path) -> Path:
    """The site file of one of four, whose federation limits what is spent of privacy."""
    tiny.write_text(tiny.read_text() + "privacy = { epsilon = 8.0 }\n")
    setup = prepare(with_clients(load(tiny), 4), 0)
    return create_federation(tmp_path / "private", setup)["0"]


def make_state(site_file: Path) -> Path:
    """A state folder as a peer leaves it that has spent something."""
    site = load_site(site_file)
    with open_state_folder(site) as state:
        (state / "privacy.json").write_text('{"steps": [3, 0]}')
    return site.state


@pytest.mark.parametrize(
    ("options", "since"), [([], None), (["--rounds-since", "12"], 12)], ids=["unknown", "stated"]
)
def test_backup_and_restore_on_the_command_line(
    federico: Command,
    private_site: Path,
    tmp_path: Path,
    options: list[str],
    since: int | None,
) -> None:
    state = make_state(private_site)
    target = tmp_path / "monday.tar"
    saved = federico("peer", "backup", private_site, target)
    assert saved.code == 0
    assert "monday.tar" in saved.out
    again = federico("peer", "restore", private_site, target)
    assert again.code == 4
    assert "holds a state already" in again.err

    state.rename(tmp_path / "lost")
    restored = federico("peer", "restore", private_site, target, *options)
    assert restored.code == 0
    assert ("whole privacy budget counts as spent" in restored.out) is (since is None)
    ledger = json.loads((state / "privacy.json").read_text())
    assert ledger == {"steps": [3, 0], "rounds_since_backup": since}


def test_a_restore_says_nothing_of_privacy_where_it_is_not_limited(
    federico: Command, site: Path, tmp_path: Path
) -> None:
    loaded = load_site(site)
    with open_state_folder(loaded):
        pass
    assert federico("peer", "backup", site, tmp_path / "a.tar").code == 0
    loaded.state.rename(tmp_path / "lost")
    restored = federico("peer", "restore", site, tmp_path / "a.tar")
    assert restored.code == 0
    assert "privacy" not in restored.out
    assert not (loaded.state / "privacy.json").exists()


def test_status_says_what_was_spent_of_privacy_and_that_the_site_runs_twice(
    federico: Command, running: Path
) -> None:
    assert "rivacy" not in federico("peer", "status", running).out
    spent = replace(STATUS, updated=time.time(), epsilon=2.5, epsilon_budget=8.0, delta=1e-5)
    write_status(running.parent / "state", replace(spent, has_double=True))
    text = federico("peer", "status", running).out
    assert "Privacy spent: epsilon 2.50 of 8 at delta 1e-05" in text
    assert "Another process runs with this site's key" in text
