"""The files under deploy/ fit the program, the repository and each other."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from federico.cli.main import app
from federico.site.site_file import SiteOptions

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
UNIT = (DEPLOY / "federico-peer.service").read_text()


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile, one (instruction, arguments) after the other."""
    text = (DEPLOY / "Dockerfile").read_text()
    without_comments = re.sub(r"^#.*\n", "", text, flags=re.M)
    joined = without_comments.replace("\\\n", " ")
    found = []
    for line in joined.splitlines():
        if line.strip():
            name, _, arguments = line.partition(" ")
            found.append((name, " ".join(arguments.split())))
    return found


def arguments_of(name: str) -> list[str]:
    return [arguments for found, arguments in instructions() if found == name]


def check_command(words: list[str]) -> None:
    """The words after `federico` are a command with options that it has."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        assert words[0] in command.commands, words
        command = command.commands[words[0]]
        words = words[1:]
    known = {option for parameter in command.params for option in parameter.opts}
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    assert set(options) <= known


def test_the_image_runs_as_nobody_in_particular_with_a_pinned_base_and_the_tested_packages() -> (
    None
):
    (user,) = arguments_of("USER")
    assert int(user.partition(":")[0]) > 0
    for base in arguments_of("FROM"):
        assert re.match(r"[\w./-]+:\d[\w.-]+", base), f"{base} has no version"
    installing = [line for line in arguments_of("RUN") if "pip install" in line]
    assert installing
    assert all("-c constraints.txt" in line for line in installing)
    assert "latest" not in "".join(arguments_of("FROM"))


def test_the_image_copies_what_is_there_and_ignores_nothing_it_needs() -> None:
    for line in arguments_of("COPY"):
        *sources, _ = line.split()
        if sources[0].startswith("--from="):
            continue
        for source in sources:
            assert (ROOT / source).exists(), source


def test_the_commands_of_image_unit_and_compose_file_exist() -> None:
    (entry,) = arguments_of("ENTRYPOINT")
    assert json.loads(entry) == ["federico"]
    (default,) = arguments_of("CMD")
    check_command(json.loads(default))
    (health,) = arguments_of("HEALTHCHECK")
    program, *words = json.loads(health.partition("CMD ")[2])
    assert program == "federico"
    assert words[:2] == ["peer", "status"]
    check_command(words)
    check_command(COMPOSE["services"]["relay"]["command"])
    (start,) = re.findall(r"^ExecStart=/opt/federico/bin/federico (.*)$", UNIT, re.M)
    check_command(start.split())


def test_compose_has_three_sites_and_a_relay_each_locked_down() -> None:
    services = COMPOSE["services"]
    assert len(services) == 4
    assert "relay" in services
    stop_within = SiteOptions.model_fields["stop_within"].default
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert int(service["stop_grace_period"].removesuffix("s")) > stop_within
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
        for volume in service["volumes"]:
            source, _, mode = (
                volume.split(":") if volume.count(":") == 2 else (*volume.split(":"), "")
            )
            if source.startswith("."):
                assert mode == "ro"
            else:
                assert source in COMPOSE["volumes"]


def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.M)
    assert int(seconds) > SiteOptions.model_fields["stop_within"].default
    for line in ("User=federico", "WorkingDirectory=/var/lib/federico", "ProtectSystem=strict"):
        assert line in UNIT.splitlines()
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd is not installed")
    unit = tmp_path / "federico-peer.service"
    unit.write_text(UNIT.replace("/opt/federico/bin/federico", sys.executable))
    done = subprocess.run([verify, "verify", unit], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "federico-peer" not in done.stderr


def test_the_package_builds_from_what_the_image_copies(tmp_path: Path) -> None:
    """The step of the image that needs no network, without a container engine."""
    for line in arguments_of("COPY"):
        *sources, target = line.split()
        if sources[0].startswith("--from="):
            continue
        for source in sources:
            place = tmp_path / "build" / target / Path(source).name
            if (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(ROOT / source, tmp_path / "build" / target, ignore=ignored)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / source, place)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    done = subprocess.run(
        [*command, "--wheel-dir", tmp_path, tmp_path / "build"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("federico-*.whl"))


IMAGE = "federico-under-test"
LOCKED_DOWN = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges")


@pytest.fixture(scope="module")
def docker() -> str:
    """A container engine with the image in it; without one, what needs it is skipped."""
    program = shutil.which("docker")
    if program is None:
        pytest.skip("no container engine: docker is not installed")
    answer = subprocess.run([program, "info"], capture_output=True, check=False, timeout=60)
    if answer.returncode:
        pytest.skip("no container engine: docker is installed, but no daemon answers")
    build = [program, "build", "-f", DEPLOY / "Dockerfile", f"--tag={IMAGE}", ROOT]
    subprocess.run(build, check=True)
    return program


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["--version"], 0, "federico"),
        (["init", "digits", "--directory", "/tmp/try"], 0, "digits.toml"),
        (["init", "digits", "--directory", "/opt/try"], 4, "cannot be written"),
        (["peer", "status", "/etc/federico/site.toml"], 2, "site.toml"),
    ],
)
def test_the_image_runs_locked_down(docker: str, command: list[str], code: int, said: str) -> None:
    done = subprocess.run(
        [docker, "run", "--rm", *LOCKED_DOWN, IMAGE, *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said in done.stdout + done.stderr
    assert done.returncode == code


@pytest.mark.slow
def test_the_image_runs_as_the_user_it_names(docker: str) -> None:
    (user,) = arguments_of("USER")
    command = [docker, "run", "--rm", *LOCKED_DOWN, "--entrypoint=id", IMAGE, "-u"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == user.partition(":")[0]
