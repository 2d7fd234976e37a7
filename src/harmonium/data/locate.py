"""Find the files of a data set in $HARMONIUM_DATA or in the cache of the user, or download them into the cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from harmonium.data.dataset import Content, DataFile, DatasetInfo
from harmonium.data.formats import read_verified
from harmonium.errors import DataNotFound, InvalidData, InvalidOption
from harmonium.extras import require
from harmonium.paths import expand

SECURE = "https://"  # nobody between the server and this computer can change the file
TIMEOUT = 20.0  # seconds without a response after which a download fails


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
    except (OSError, ValueError) as error:
        raise _not_found(info, file, f"the download of {file.url} failed: {error}") from error


def download(url: str, target: Path, file: DataFile) -> Content:
    """Download ``file`` to ``target`` and return its content; ``target`` is kept only if it is verified."""
    if not url.startswith(SECURE):
        raise InvalidData(f"expected a URL that begins with {SECURE}, found {url}")
    pooch = require("pooch")
    known = f"sha256:{file.sha256}" if file.of == "file" else None
    options = {"fname": target.name, "path": target.parent, "downloader": pooch.HTTPDownloader(timeout=TIMEOUT)}
    try:
        return read_verified(Path(pooch.retrieve(url, known, **options)), file)
    except InvalidData:
        target.unlink(missing_ok=True)
        raise


def _not_found(info: DatasetInfo, file: DataFile, why: str) -> DataNotFound:
    missing = [f.name for f in info.files if find(info, f) is None]
    places = " or ".join(str(folder) for folder in folders(info))
    own = "" if os.environ.get("HARMONIUM_DATA") else f" (or set HARMONIUM_DATA and use $HARMONIUM_DATA/{info.folder})"
    return DataNotFound(
        f"data set '{info.name}': {file.name} is missing, and {why}. Put {', '.join(missing)} in {places}{own}.\n"
        f"How to obtain: {info.obtain}"
    )
