import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from federico.data.download import DOWNLOADS, download, fetch
from federico.errors import ConfigError, DataError

PAYLOAD = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(PAYLOAD).hexdigest()


class Site(ThreadingHTTPServer):
    """A server of one file that can break off, ignore ranges, or hide the length."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.payload = PAYLOAD
        self.cut_after: int | None = None
        self.ranges = True
        self.tell_length = True
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file"


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        asked = self.headers["Range"]
        self.server.asked.append(asked)
        if self.path != "/file":
            return self.send_error(404)
        start = (
            int(asked.removeprefix("bytes=").removesuffix("-"))
            if asked and self.server.ranges
            else 0
        )
        if start and start >= len(self.server.payload):
            return self.send_error(416)
        self._send(self.server.payload[start:], 206 if start else 200)
        return None

    def _send(self, body: bytes, status: int) -> None:
        self.send_response(status)
        if self.server.tell_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cut_after])

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def silent(have: int, total: int | None) -> None:
    """Progress nobody looks at."""


def archive(folder: str, **files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_a_file_comes_whole_and_progress_ends_at_the_total(site: Site, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    download(
        site.url, tmp_path / "new" / "file", SHA256, lambda have, total: seen.append((have, total))
    )
    assert (tmp_path / "new" / "file").read_bytes() == PAYLOAD
    assert seen[-1] == (len(PAYLOAD), len(PAYLOAD))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


def test_a_cut_connection_is_taken_up_where_it_broke(site: Site, tmp_path: Path) -> None:
    site.cut_after = 300_000
    with pytest.raises(DataError, match="run the same command again"):
        download(site.url, tmp_path / "file", SHA256, silent)
    assert not (tmp_path / "file").exists()
    have = (tmp_path / "file.part").stat().st_size
    assert have == 300_000
    site.cut_after = None
    seen: list[tuple[int, int | None]] = []
    download(site.url, tmp_path / "file", SHA256, lambda have, total: seen.append((have, total)))
    assert (tmp_path / "file").read_bytes() == PAYLOAD
    assert site.asked == [None, "bytes=300000-"]
    assert seen[0][0] > have
    assert seen[-1] == (len(PAYLOAD), len(PAYLOAD))


def test_a_server_that_ignores_ranges_is_read_from_the_start(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(PAYLOAD[:1000])
    site.ranges = False
    download(site.url, tmp_path / "file", SHA256, silent)
    assert (tmp_path / "file").read_bytes() == PAYLOAD
    assert site.asked == ["bytes=1000-"]


def test_a_part_that_is_whole_is_taken_as_it_is(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(PAYLOAD)
    download(site.url, tmp_path / "file", SHA256, silent)
    assert (tmp_path / "file").read_bytes() == PAYLOAD


def test_a_server_may_hide_the_length(site: Site, tmp_path: Path) -> None:
    site.tell_length = False
    seen: list[int | None] = []
    download(site.url, tmp_path / "file", SHA256, lambda have, total: seen.append(total))
    assert set(seen) == {None}
    assert (tmp_path / "file").read_bytes() == PAYLOAD


def test_a_wrong_checksum_removes_the_file(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"checksum {SHA256} where 0+ was expected"):
        download(site.url, tmp_path / "file", "0" * 32, silent)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there_is_named(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"/gone: HTTP Error 404"):
        download(site.url.replace("file", "gone"), tmp_path / "file", SHA256, silent)


def test_a_server_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with Site() as closed:
        url = closed.url
    with pytest.raises(DataError, match=f"^{url}: .*refused"):
        download(url, tmp_path / "file", SHA256, silent)


def test_a_set_is_fetched_once_and_leaves_no_archive(site: Site, tmp_path: Path) -> None:
    site.payload = archive("cifar-10-batches-bin", names=b"cat\ndog\n")
    sha256 = hashlib.sha256(site.payload).hexdigest()
    for _ in range(2):
        place = fetch("cifar10", tmp_path, silent, site.url, sha256)
    assert place == tmp_path / "cifar-10-batches-bin"
    assert (place / "names").read_bytes() == b"cat\ndog\n"
    assert list(tmp_path.iterdir()) == [place]
    assert len(site.asked) == 1


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"no archive", "cannot be unpacked"),
        (archive("..", names=b"outside"), "cannot be unpacked"),
        (archive("something-else", names=b"inside"), "holds no folder cifar-10-batches-bin"),
    ],
)
def test_archives_of_other_things_leave_nothing_behind(
    site: Site, tmp_path: Path, payload: bytes, message: str
) -> None:
    site.payload = payload
    with pytest.raises(DataError, match=message):
        fetch("cifar10", tmp_path / "data", silent, site.url, hashlib.sha256(payload).hexdigest())
    assert list((tmp_path / "data").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_an_unknown_set_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="no download is named 'mnist': choose from cifar10, cifar100"
    ):
        fetch("mnist", tmp_path, silent)


def test_published_checksums() -> None:
    assert DOWNLOADS["cifar10"].sha256 == (
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    )
    assert DOWNLOADS["cifar100"].sha256 == (
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"
    )
