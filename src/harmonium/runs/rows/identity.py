"""The file of a run: its size and checksum, and the options that are recorded about it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import DataNotFound, RunError
from ..config import DataOptions


def identity(path: Path, chosen: DataOptions) -> tuple[int, str]:
    """Return the size and the checksum of a file; raise if it is not the file of the run."""
    digest = _sha256(path)
    if chosen.sha256 is not None and chosen.sha256 != digest:
        raise RunError(
            f"{path}: expected the training file of the run (sha256 {chosen.sha256[:12]}…), found {digest[:12]}…"
        )
    return _size(path), digest


def resolved(path: Path, chosen: DataOptions, validation: str | float, rows: int, **others: Any) -> DataOptions:
    """Return the options of a file with columns of its own meaning, complete with what is recorded about it."""
    size, digest = identity(path, chosen)
    recorded = {"source": str(path), "validation": validation, "rows": rows, "bytes": size, "sha256": digest}
    return replace(chosen, binarize="none", **recorded, **others)  # type: ignore[arg-type]


def _size(path: Path) -> int:
    """The size of a file, or of all files of a folder."""
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
    )


def _sha256(path: Path) -> str:
    """The checksum of a file; of a folder, that of the names and checksums of its files."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        listed = "".join(f"{file.relative_to(path)}\n{_sha256(file)}\n" for file in files)
        return hashlib.sha256(listed.encode()).hexdigest()
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataNotFound(f"{path}: cannot be read ({error.strerror})") from None
