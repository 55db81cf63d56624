"""The files under deploy/ fit the program, the repository and each other.

Where a container engine answers, the image is built, and it and the compose file are run.
Without one the files are linted, and what they say is done: the steps of the image in a clean
folder and a changed root, the commands of the compose file as processes.
"""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack
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


def test_the_page_says_how_to_install_where_the_unit_and_the_image_look() -> None:
    page = (ROOT / "docs" / "how-to-operate.md").read_text()
    assert "python3 -m venv /opt/federico\n" in page
    assert "/opt/federico/bin/pip install -c constraints.txt " in page


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


def copied_context(folder: Path) -> Path:
    """What the first stage of the image copies, where its WORKDIR would be."""
    build = folder / "build"
    for line in arguments_of("COPY"):
        *sources, target = line.split()
        if sources[0].startswith("--from="):
            continue
        for source in sources:
            assert is_sent(source), f"{source} is ignored by .dockerignore"
            if (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(ROOT / source, build / target, ignore=ignored)
            else:
                build.mkdir(exist_ok=True)
                shutil.copyfile(ROOT / source, build / target / source)
    return build


def is_sent(source: str) -> bool:
    """Whether .dockerignore, which forbids everything first, lets this through."""
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    return rules[0] == "*" and f"!{source}" in rules


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the first stage of the image leaves in /opt/federico, by its own commands.

    Packages that the package needs are not downloaded: those of this environment are lent.
    """
    folder = tmp_path_factory.mktemp("image")
    build = copied_context(folder)
    target = folder / "opt/federico"
    (step, _) = arguments_of("RUN")
    lent = {"PYTHONPATH": sysconfig.get_path("purelib")}
    # pip reads its options from the environment, and the second of these is upside down.
    offline = {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    done = subprocess.run(
        ["sh", "-c", step.replace("/opt/federico", str(target))],
        cwd=build,
        env={**os.environ, **lent, **offline},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def as_in_the_image(installed: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program of the image with the variables that the image sets."""
    variables = {"PYTHONPATH": sysconfig.get_path("purelib")}
    for pair in " ".join(arguments_of("ENV")).split():
        name, _, value = pair.partition("=")
        value = value.replace("/opt/federico", str(installed)).replace("$PATH", os.environ["PATH"])
        variables[name] = value
    program, *arguments = words
    command = [shutil.which(program, path=variables["PATH"]) or program, *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_the_image_is_installed_by_its_own_steps_in_a_clean_folder(
    installed: Path, tmp_path: Path
) -> None:
    (entry,) = arguments_of("ENTRYPOINT")
    program = json.loads(entry)
    where = ["python", "-c", "import federico; print(federico.__file__)"]
    assert as_in_the_image(installed, where).stdout.startswith(str(installed))
    assert as_in_the_image(installed, [*program, "--version"]).stdout.startswith("federico 0")

    wrote = as_in_the_image(installed, [*program, "init", "federation", "--directory", tmp_path])
    assert wrote.returncode == 0, wrote.stderr
    (health,) = arguments_of("HEALTHCHECK")
    words = json.loads(health.partition("CMD ")[2])
    nothing_there = as_in_the_image(installed, words)
    assert nothing_there.returncode == 2
    assert "there is no such site file" in nothing_there.stderr
    words[-1] = str(tmp_path / "north.toml")
    never_started = as_in_the_image(installed, words)
    assert never_started.returncode == 4, never_started.stderr


def test_the_user_of_the_image_is_made_by_its_own_steps_in_a_changed_root(tmp_path: Path) -> None:
    (_, step) = arguments_of("RUN")
    for name in ("upper", "work", "root"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir=/,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    mounting = f"mount -t overlay overlay -o {layers} {tmp_path}/root"
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("only root may change its root")
    tried = subprocess.run(["unshare", "-m", "sh", "-c", mounting], check=False)
    if tried.returncode:
        pytest.skip("this system does not let its root be overlaid")

    (user,) = arguments_of("USER")
    told = "id -u federico; id -g federico; stat -c '%U %a' /var/lib/federico"
    inside = ["unshare", "-m", "sh", "-c", f'{mounting} && chroot {tmp_path}/root sh -ec "$0"']
    done = subprocess.run([*inside, f"{step}; {told}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    uid, gid = user.split(":")
    assert done.stdout.splitlines() == [uid, gid, "federico 700"]


def test_the_linter_of_dockerfiles_finds_nothing() -> None:
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    done = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()


def compose() -> list[str]:
    """The command that reads compose files, of whichever generation."""
    if (program := shutil.which("docker-compose")) is not None:
        return [program]
    asked = ["docker", "compose", "version"]
    if shutil.which("docker") is None or subprocess.run(asked, check=False).returncode:
        pytest.skip("docker compose is not installed")
    return asked[:2]


def test_compose_itself_understands_the_file_where_it_is_installed() -> None:
    command = [*compose(), "-f", DEPLOY / "compose.yaml", "config", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def free_ports(count: int) -> list[int]:
    with ExitStack() as open_sockets:
        ports = []
        for _ in range(count):
            taken = open_sockets.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            ports.append(taken.getsockname()[1])
        return ports


def run_script(script: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script that finds the command `federico`."""
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path}
    return subprocess.run(
        ["sh", script], env=variables, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """deploy/ with the sites of the trial, for processes of this machine.

    Names of containers become ports, and what is mounted into a container becomes a folder.
    """
    folder = tmp_path_factory.mktemp("trial")
    names = ["north", "south", "west", "relay"]
    script = (DEPLOY / "trial-sites.sh").read_text()
    script = script.replace("--address $name", "--address 127.0.0.1")
    script = script.replace("/var/lib/federico", f"{folder}/var/$1")
    for name, port in zip(names, free_ports(len(names)), strict=True):
        assert f'"{name}:7447"' in script or name == "west"
        script = script.replace(f'"{name}:7447"', f'"127.0.0.1:{port}"')
        (folder / f"{name}.port").write_text(str(port))
        (folder / "var" / name).mkdir(parents=True)
    (folder / "trial-sites.sh").write_text(script)
    done = run_script(folder / "trial-sites.sh")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Next: docker compose -f deploy/compose.yaml up"
    return folder


def test_the_trial_gives_each_service_what_it_mounts_and_nobody_else_its_keys(trial: Path) -> None:
    for name, service in COMPOSE["services"].items():
        source, target, _ = service["volumes"][0].split(":")
        assert (source, target) == (f"./sites/{name}", "/etc/federico")
        key = trial / source / "keys" / f"{name}.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert len(list((trial / source / "keys").glob("*.key"))) == 1
    again = run_script(trial / "trial-sites.sh")
    assert again.returncode == 1
    assert "is there already" in again.stderr


@pytest.fixture
def services(trial: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The processes of the compose file, each with the command of its service or of the image."""
    (default,) = arguments_of("CMD")
    started = {}
    for name, service in COMPOSE["services"].items():
        port = (trial / f"{name}.port").read_text()
        words = []
        for word in service.get("command", json.loads(default)):
            here = word.replace("/etc/federico", f"{trial}/sites/{name}")
            words.append(here.replace("0.0.0.0:7447", f"127.0.0.1:{port}"))
        with (trial / f"{name}.log").open("wb") as log:
            command = [sys.executable, "-m", "federico", *words]
            started[name] = subprocess.Popen(command, stderr=log, stdout=log)
    yield started
    for process in started.values():
        process.kill()
        process.wait()


def test_what_compose_starts_plays_to_the_end(
    trial: Path, services: dict[str, subprocess.Popen[bytes]]
) -> None:
    relay = services.pop("relay")
    for name, process in services.items():
        assert process.wait(timeout=240) == 0, (trial / f"{name}.log").read_text()
        status = [sys.executable, "-m", "federico", "peer", "status", "--json"]
        site_file = trial / "sites" / name / "site.toml"
        told = subprocess.run([*status, site_file], capture_output=True, check=True)
        about = json.loads(told.stdout)
        assert about["round"] == 15
        others = set(services) - {name}
        # west dials the relay alone: whatever it has of the others came through it.
        assert {owner for owner in about["members"] if owner != name} == others
        assert about["received"] > 0
    relay.send_signal(signal.SIGTERM)
    assert relay.wait(timeout=30) == 0


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


def test_the_image_runs_as_the_user_it_names(docker: str) -> None:
    (user,) = arguments_of("USER")
    command = [docker, "run", "--rm", *LOCKED_DOWN, "--entrypoint=id", IMAGE, "-u"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == user.partition(":")[0]


def test_compose_plays_the_trial_to_the_end(docker: str, tmp_path: Path) -> None:
    deploy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, deploy, ignore=shutil.ignore_patterns("sites"))
    file = deploy / "compose.yaml"
    file.write_text(file.read_text().replace("image: federico", f"image: {IMAGE}"))
    as_root = [docker, "run", "--rm", "--user=0", "--entrypoint=sh", f"--volume={deploy}:/deploy"]
    subprocess.run([*as_root, IMAGE, "/deploy/trial-sites.sh"], check=True)

    project = [*compose(), "--project-name=federico-under-test", "-f", str(file)]
    sites = set(COMPOSE["services"]) - {"relay"}
    try:
        subprocess.run([*project, "up", "--no-build", "--detach"], check=True)
        for name in sites:
            asked = subprocess.run([*project, "ps", "-q", name], capture_output=True, check=True)
            ended = subprocess.run(
                [docker, "wait", asked.stdout.decode().strip()],
                capture_output=True,
                check=True,
                timeout=240,
            )
            assert ended.stdout.strip() == b"0", name
            told = subprocess.run([*project, "logs", name], capture_output=True, check=True)
            assert "round 15/15" in told.stdout.decode()
    finally:
        subprocess.run([*project, "down", "--volumes"], check=True)
