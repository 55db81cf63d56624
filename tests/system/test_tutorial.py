"""The tutorial, word for word."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIM = """#!/bin/sh
exec "{python}" {module} "$@"
"""


@pytest.mark.slow
def test_five_sites_on_one_laptop(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorial-five-sites.md").read_text()
    setup, *blocks = re.findall(r"```\n(.*?)```", page, re.S)
    assert "make setup" in setup
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
