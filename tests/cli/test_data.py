import functools
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Command = Callable[..., Any]


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""


def archive() -> bytes:
    """A CIFAR-10 of 40 images in the official layout."""
    rng = np.random.default_rng(0)
    records = [
        bytes([label % 10]) + rng.integers(256, size=3072, dtype=np.uint8).tobytes()
        for label in range(40)
    ]
    names = "\n".join(f"class{number}" for number in range(10))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in (
            ("data_batch_1.bin", b"".join(records)),
            ("batches.meta.txt", names.encode()),
        ):
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Address and checksum of a small archive on a server of our own.

    Data goes to `tmp_path/data`.
    """
    content = archive()
    folder = tmp_path / "www"
    folder.mkdir()
    (folder / "cifar.tar.gz").write_bytes(content)
    monkeypatch.setenv("FEDERICO_DATA", str(tmp_path / "data"))
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    handler = functools.partial(Silent, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield (
            f"http://127.0.0.1:{server.server_port}/cifar.tar.gz",
            hashlib.sha256(content).hexdigest(),
        )
        server.shutdown()
        thread.join()


def test_downloaded_data_can_be_run_on(
    federico: Command, site: tuple[str, str], tmp_path: Path, tiny: Path
) -> None:
    url, sha256 = site
    answer = federico("data", "get", "cifar10", "--url", url, "--sha256", sha256)
    assert answer.code == 0
    assert answer.out == f"cifar10 is in {tmp_path}/data/cifar-10-batches-bin\n"
    present = {
        entry["kind"]: entry["present"]
        for entry in json.loads(federico("data", "list", "--json").out)
    }
    assert present["cifar10"] is True
    changes = ["data={kind='cifar10'}", "split={}", "rounds=1", "methods=['local']"]
    assert (
        federico(
            "run", tiny, *(part for change in changes for part in ("--set", change)), "-q"
        ).code
        == 0
    )


def test_data_that_is_there_is_not_fetched_again(
    federico: Command, site: tuple[str, str], tmp_path: Path
) -> None:
    url, sha256 = site
    federico("data", "get", "cifar10", "--url", url, "--sha256", sha256, "-q")
    (tmp_path / "www" / "cifar.tar.gz").unlink()
    assert federico("data", "get", "cifar10", "--url", url, "--sha256", sha256).code == 0


@pytest.mark.parametrize(
    ("name", "address", "sha256", "code", "said"),
    [
        ("cifar10", "cifar.tar.gz", "0" * 32, 3, "cifar.tar.gz: checksum "),
        ("cifar10", "gone.tar.gz", None, 3, "gone.tar.gz: HTTP Error 404"),
        (
            "cifar11",
            "cifar.tar.gz",
            None,
            2,
            "no download is named 'cifar11': choose from cifar10, cifar100",
        ),
    ],
)
def test_failed_download_is_one_line_and_leaves_nothing(
    federico: Command,
    site: tuple[str, str],
    tmp_path: Path,
    name: str,
    address: str,
    sha256: str | None,
    code: int,
    said: str,
) -> None:
    url = site[0].replace("cifar.tar.gz", address)
    answer = federico("data", "get", name, "--url", url, "--sha256", sha256 or site[1])
    assert answer.code == code
    assert answer.err.startswith("error: ")
    assert len(answer.err.splitlines()) == 1
    assert said in answer.err
    assert not list((tmp_path / "data").glob("cifar-10*bin"))


def test_list_says_what_is_here(
    federico: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDERICO_DATA", str(tmp_path))
    entries = {entry["kind"]: entry for entry in json.loads(federico("data", "list", "--json").out)}
    assert entries["digits"]["present"] is True
    assert entries["cifar10"]["present"] is False
    assert entries["table"]["present"] is None
    assert all(entry["summary"] for entry in entries.values())
    text = federico("data", "list").out
    assert all(kind in text for kind in entries)
    assert "you name the" in text


LIST_AND_NAME_WHAT_WAS_LOADED = """
import sys
from federico.cli.main import main

sys.argv = ["federico", "data", "list", "--json"]
try:
    main()
finally:
    slow = ("torch", "pandas", "pyarrow", "sklearn", "PIL", "federico.experiment")
    sys.stderr.write(" ".join(name for name in slow if name in sys.modules))
"""


def test_list_does_not_wait_for_packages_that_it_does_not_need() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIST_AND_NAME_WHAT_WAS_LOADED],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "digits" in done.stdout
    assert done.stderr == ""
