"""The tutorial, word for word."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from peers import PATIENCE

from federico.site.local_federation import free_addresses
from federico.starters import write_starter

ROOT = Path(__file__).parents[2]
SHIM = """#!/bin/sh
exec "{python}" {module} "$@"
"""


@pytest.mark.slow
def test_five_sites_on_one_laptop(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorial-five-sites.md").read_text()
    setup, *blocks = re.findall(r"```\n(.*?)```", page, re.S)
    assert "federico init digits" in setup
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    shims = tmp_path / "bin"
    shims.mkdir()
    for name, module in (("federico", "-m federico"), ("python", "")):
        (shims / name).write_text(SHIM.format(python=sys.executable, module=module))
        (shims / name).chmod(0o755)
    path = {"PATH": f"{shims}:{os.environ['PATH']}"}
    script = "set -e\n" + "\n".join(blocks)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, **path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finished, round 40 of 40" in done.stdout
    assert "20 predictions" in done.stdout
    (tmp_path / "output.txt").write_text(done.stdout)


def test_the_federation_that_init_writes_starts_and_ends_by_its_script(tmp_path: Path) -> None:
    """The ports of its files are free ones here: another test, or somebody, may have those."""
    written = write_starter("federation", tmp_path)
    addresses = dict(zip(("7441", "7442", "7443"), free_addresses(3), strict=True))
    for path in written:
        text = path.read_text()
        for port, address in addresses.items():
            text = text.replace(f"127.0.0.1:{port}", address)
        path.write_text(text.replace("rounds = 15", "rounds = 3"))

    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "start.sh"],
        cwd=tmp_path,
        env={**os.environ, "PATH": programs},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "north in trial: finished, round 3 of 3" in done.stdout
    for site in ("north", "south", "west"):
        assert (tmp_path / f"state-{site}" / "clients" / site).is_dir()
