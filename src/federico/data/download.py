"""Public datasets from the web, downloaded so that a broken connection loses nothing."""

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

READ_BYTES = 1 << 18
"""Bytes that are read at a time; progress is reported as often."""

TIMEOUT = 60.0
"""Seconds without a byte after which a connection counts as broken."""

Progress: TypeAlias = Callable[[int, int | None], None]
"""Is told how many bytes have come, and how many there will be if the server says so."""


@dataclass(frozen=True)
class Download:
    """An archive on the web and the folder that it unpacks to."""

    url: str
    sha256: str
    """Checksum of the archive, so that whoever serves it cannot exchange it."""
    folder: str


DOWNLOADS = {
    "cifar10": Download(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        "cifar-10-batches-bin",
    ),
    "cifar100": Download(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        "cifar-100-binary",
    ),
}


def fetch(
    name: str, folder: Path, progress: Progress, url: str | None = None, sha256: str | None = None
) -> Path:
    """The folder of this dataset, downloaded and unpacked if it is not there yet.

    `url` and `sha256` name another copy of the archive.
    """
    if name not in DOWNLOADS:
        raise ConfigError(f"no download is named '{name}': choose from {', '.join(DOWNLOADS)}")
    known = DOWNLOADS[name]
    target = folder / known.folder
    if target.exists():
        return target

    archive = folder / f"{known.folder}.tar.gz"
    download(url or known.url, archive, sha256 or known.sha256, progress)
    try:
        _unpack(archive, target)
    finally:
        archive.unlink()
    return target


def download(url: str, target: Path, sha256: str, progress: Progress) -> None:
    """Download a file completely or not at all.

    What came before the connection broke is kept in `<target>.part`, where the next call resumes.
    """
    part = target.with_name(f"{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        _fetch_rest(url, part, progress)
    except (OSError, HTTPException, ValueError) as error:
        raise DataError(
            f"{url}: {first_line(error)}: run the same command again to resume the download"
        ) from error
    _verify(part, sha256, url)
    part.replace(target)


def _fetch_rest(url: str, part: Path, progress: Progress) -> None:
    """Append to `part` what it lacks of the file."""
    have = part.stat().st_size if part.exists() else 0
    headers = {}
    if have:
        headers["Range"] = f"bytes={have}-"

    try:
        with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:
            # A server that ignores the range answers 200 and sends everything from the start.
            resumed = response.status == HTTPStatus.PARTIAL_CONTENT
            with part.open("ab" if resumed else "wb") as file:
                _copy(response, file, progress)
    except HTTPError as error:
        error.close()
        # There is nothing beyond what we have: the checksum will tell whether it is everything.
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise


def _copy(response: HTTPResponse, file: IO[bytes], progress: Progress) -> None:
    """Append what is still to come to the file, which may hold a part from an earlier attempt."""
    have = file.tell()
    length = response.headers["Content-Length"]
    total = None if length is None else have + int(length)

    while chunk := response.read(READ_BYTES):
        file.write(chunk)
        have += len(chunk)
        progress(have, total)
    if total is not None and have < total:
        raise OSError(f"the connection broke after {have} of {total} bytes")


def _verify(part: Path, sha256: str, url: str) -> None:
    """Refuse a file with another checksum, and remove it: to resume would keep what is wrong."""
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        part.unlink()
        raise DataError(
            f"{url}: checksum {found} where {sha256} was expected: the file was removed, try again"
        )


def _unpack(archive: Path, target: Path) -> None:
    """Unpack next to `target` and rename last, so that the folder is complete once it exists."""
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(temporary, filter="data")
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DataError(
                f"{archive}: cannot be unpacked ({first_line(error)}): "
                "free some disk space, or give the address of another copy"
            ) from error

        unpacked = Path(temporary) / target.name
        if not unpacked.is_dir():
            raise DataError(
                f"{archive}: holds no folder {target.name}: give the address of another copy"
            )
        unpacked.rename(target)
