"""Where the files of a data set are: $HARMONIUM_DATA, the user's cache, or a download into that cache."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import urllib.request
from http.client import HTTPException
from pathlib import Path

from harmonium.data.dataset import Content, DataFile, DatasetInfo
from harmonium.data.formats import read_verified
from harmonium.errors import DataNotFound, InvalidData

TIMEOUT = 20.0  # seconds without an answer before a download is given up

log = logging.getLogger(__name__)


def cache() -> Path:
    """The user's cache folder of this package."""
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "harmonium"


def folders(info: DatasetInfo) -> list[Path]:
    """The folders that are searched for the files of a data set, in order."""
    own = os.environ.get("HARMONIUM_DATA")
    roots = [Path(own).expanduser()] if own else []
    return [root / info.folder for root in (*roots, cache())]


def find(info: DatasetInfo, file: DataFile) -> Path | None:
    """The first place where the file is, or None."""
    return next((path for folder in folders(info) if (path := folder / file.name).is_file()), None)


def fetch(info: DatasetInfo, file: DataFile) -> Content:
    """The verified content of a file, downloaded if it must and can be."""
    path = find(info, file)
    if path is not None:
        return read_verified(path, file)
    if file.url is None:
        raise _not_found(info, file, "no stable public address is known")
    target = cache() / info.folder / file.name
    try:
        return download(file.url, target, file)
    except (OSError, HTTPException, InvalidData) as error:
        raise _not_found(info, file, f"the download of {file.url} failed: {error}") from error


def download(url: str, target: Path, file: DataFile) -> Content:
    """Download ``file`` and return its content; ``target`` appears whole and verified, or not at all."""
    log.info("downloading %s to %s", url, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as sink, urllib.request.urlopen(url, timeout=TIMEOUT) as source:
            shutil.copyfileobj(source, sink)
            sink.flush()
            os.fsync(sink.fileno())
        content = read_verified(part, file)
        part.replace(target)
        return content
    finally:
        with contextlib.suppress(FileNotFoundError):  # it is gone when all went well
            part.unlink()


def _not_found(info: DatasetInfo, file: DataFile, why: str) -> DataNotFound:
    missing = [f.name for f in info.files if find(info, f) is None]
    places = " or ".join(str(folder) for folder in folders(info))
    own = "" if os.environ.get("HARMONIUM_DATA") else f" (or in a folder of your own, $HARMONIUM_DATA/{info.folder})"
    return DataNotFound(
        f"data set '{info.name}' needs {file.name}, and {why}. Put {', '.join(missing)} in {places}{own}.\n"
        f"How to obtain: {info.obtain}"
    )
