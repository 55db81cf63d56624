"""Public data sets, fetched so that a cut connection costs only what had not yet come."""

import hashlib
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, TypeAlias
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from federico.data.files import first_line
from federico.errors import ConfigError, DataError

CHUNK = 1 << 18
TIMEOUT = 60.0

Progress: TypeAlias = Callable[[int, int | None], None]
"""Told how many bytes are there and how many there will be, where the server says so."""


@dataclass(frozen=True)
class Download:
    """An archive on the web and the folder it unpacks to."""

    url: str
    md5: str
    """As published beside the archive: it guards against damage, not against malice."""
    folder: str


DOWNLOADS = {
    "cifar10": Download(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        "cifar-10-batches-bin",
    ),
    "cifar100": Download(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
        "cifar-100-binary",
    ),
}


def fetch(
    name: str, folder: Path, progress: Progress, url: str | None = None, md5: str | None = None
) -> Path:
    """The folder of this data set, downloaded and unpacked unless it is there; `url` and `md5` name another copy."""
    if name not in DOWNLOADS:
        raise ConfigError(f"no download is named '{name}': choose from {', '.join(DOWNLOADS)}")
    known = DOWNLOADS[name]
    place = folder / known.folder
    if not place.exists():
        archive = folder / f"{known.folder}.tar.gz"
        download(url or known.url, archive, md5 or known.md5, progress)
        try:
            _unpack(archive, place)
        finally:
            archive.unlink()
    return place


def download(url: str, target: Path, md5: str, progress: Progress) -> None:
    """Fetch a file whole or not at all; what came before a cut waits in `<target>.part` for the next call."""
    part = target.with_name(f"{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        _fetch_rest(url, part, progress)
    except (OSError, HTTPException, ValueError) as error:
        raise DataError(
            f"{url}: {first_line(error)}: run the same command again to go on from there"
        ) from error
    _verify(part, md5, url)
    part.replace(target)


def _fetch_rest(url: str, part: Path, progress: Progress) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urlopen(request, timeout=TIMEOUT) as response:
            # A server that ignores the range answers 200 and sends everything from the start.
            resumed = response.status == HTTPStatus.PARTIAL_CONTENT
            with part.open("ab" if resumed else "wb") as file:
                _copy(response, file, progress)
    except HTTPError as error:
        error.close()
        # Nothing lies beyond what we have: the checksum tells whether that is the whole file.
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise


def _copy(response: HTTPResponse, file: IO[bytes], progress: Progress) -> None:
    have = file.tell()
    length = response.headers["Content-Length"]
    total = None if length is None else have + int(length)
    while chunk := response.read(CHUNK):
        file.write(chunk)
        have += len(chunk)
        progress(have, total)
    if total is not None and have < total:
        raise OSError(f"the connection broke after {have} of {total} bytes")


def _verify(part: Path, md5: str, url: str) -> None:
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        part.unlink()
        raise DataError(
            f"{url}: checksum {found} where {md5} was expected: the file was removed, try again"
        )


def _unpack(archive: Path, place: Path) -> None:
    """Unpack beside `place` and move there last, so that the folder is whole whenever it exists."""
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(temporary, filter="data")
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DataError(
                f"{archive}: cannot be unpacked ({first_line(error)}): make room, or give the address of another copy"
            ) from error
        inner = Path(temporary) / place.name
        if not inner.is_dir():
            raise DataError(
                f"{archive}: holds no folder {place.name}: give the address of another copy"
            )
        inner.rename(place)
