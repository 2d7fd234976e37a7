"""Find the files of a data set in $HARMONIUM_DATA or in the cache of the user, or download them into the cache."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import IO

from harmonium.data.dataset import Content, DataFile, DatasetInfo
from harmonium.data.formats import read_verified
from harmonium.errors import DataNotFound, InvalidData, InvalidOption
from harmonium.paths import expand

_BLOCK = 2**18
_OVERHEAD = 2**20  # bytes of headers of archives

SECURE = ("https://", "file:///")  # addresses that nobody between the server and this computer can change
TIMEOUT = 20.0  # seconds without a response after which a download fails

log = logging.getLogger(__name__)


def cache() -> Path:
    """Cache folder of this package."""
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return expand(root) / "harmonium"
    except InvalidOption:  # no home folder
        return Path(tempfile.gettempdir()) / "harmonium"


def folders(info: DatasetInfo) -> list[Path]:
    """Folders in which the files of a data set are searched, in order."""
    own = os.environ.get("HARMONIUM_DATA")
    roots = [expand(own)] if own else []
    return [root / info.folder for root in (*roots, cache())]


def find(info: DatasetInfo, file: DataFile) -> Path | None:
    """Path of the file in the first folder that has it, or None."""
    return next((path for folder in folders(info) if (path := folder / file.name).is_file()), None)


def fetch(info: DatasetInfo, file: DataFile) -> Content:
    """Return the verified content of a file; download the file if it is missing and its URL is known."""
    path = find(info, file)
    if path is not None:
        return read_verified(path, file)
    if file.url is None:
        raise _not_found(info, file, "no stable public URL is known")
    target = cache() / info.folder / file.name
    try:
        return download(file.url, target, file)
    except (OSError, HTTPException, InvalidData) as error:
        raise _not_found(info, file, f"the download of {file.url} failed: {error}") from error


def download(url: str, target: Path, file: DataFile) -> Content:
    """Download ``file`` to ``target`` and return its content; ``target`` is created only if complete and verified.

    Only secure addresses are used, and little more than the recorded size is stored, because a compressed file is
    hardly larger than its content.
    """
    if not url.startswith(SECURE):
        raise InvalidData(f"expected a URL that begins with https://, found {url}")
    log.info("downloading %s to %s", url, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as sink, urllib.request.urlopen(url, timeout=TIMEOUT) as source:
            if not source.geturl().startswith(SECURE):
                raise InvalidData(f"expected an answer over https, found a redirection to {source.geturl()}")
            _copy(source, sink, file.size + file.size // 8 + _OVERHEAD)
            sink.flush()
            os.fsync(sink.fileno())
        content = read_verified(part, file)
        part.replace(target)
        return content
    finally:
        with contextlib.suppress(FileNotFoundError):  # after success it has been renamed
            part.unlink()


def _copy(source: IO[bytes], sink: IO[bytes], most: int) -> None:
    """Copy a stream; raise after ``most`` bytes."""
    total = 0
    while block := source.read(_BLOCK):
        total += len(block)
        if total > most:
            raise InvalidData(f"expected at most {most:,} bytes, found more")
        sink.write(block)


def _not_found(info: DatasetInfo, file: DataFile, why: str) -> DataNotFound:
    missing = [f.name for f in info.files if find(info, f) is None]
    places = " or ".join(str(folder) for folder in folders(info))
    own = "" if os.environ.get("HARMONIUM_DATA") else f" (or set HARMONIUM_DATA and use $HARMONIUM_DATA/{info.folder})"
    return DataNotFound(
        f"data set '{info.name}': {file.name} is missing, and {why}. Put {', '.join(missing)} in {places}{own}.\n"
        f"How to obtain: {info.obtain}"
    )
