"""Write samples to a file: array, table, image or sequences."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from .. import data, files
from ..data.alignments import decode
from ..data.documents import decode as decode_words
from ..errors import InvalidOption, unknown
from ..machines import RBM, Machine
from ..runs.rows import Rows
from ..runs.rows.shapes import picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FASTA = (".fasta", ".fa", ".fas")
TEXT = ".txt"
#: how text begins that a spreadsheet runs as a formula; after a sign, only with one of the letters of a call
_FORMULA, _SIGNS, _CALLS = ("=", "@", "\t", "\r"), ("+", "-"), ("(", "|", "!")
Picture = tuple[int, int, int] | None


def check(path: Path) -> None:
    """Raise, before any work is done, if the file could not be written."""
    if path.suffix.lower() not in (*_WRITERS, *FASTA, TEXT):
        raise unknown("file extension", path.suffix or path.name, (*_WRITERS, *FASTA, TEXT))
    check_folder(path)


def check_folder(path: Path) -> None:
    """Raise, before any work is done, if the folder of a file does not exist."""
    if not path.parent.is_dir():
        raise InvalidOption(f"{path}: expected a file in a folder that exists; create the folder first")


def check_figure(path: Path) -> None:
    """Raise, before any work is done, if a figure could not be written."""
    if path.suffix.lower() not in files.FIGURES:
        raise unknown("file extension", path.suffix or path.name, files.FIGURES)
    check_folder(path)


def figure_suffix(figures: str) -> str:
    """Return the extension of a format of figures.

    >>> figure_suffix("pdf")
    '.pdf'
    """
    suffix = f".{figures.lower()}"
    if suffix not in files.FIGURES:
        raise unknown("format of figures", figures, [known[1:] for known in files.FIGURES])
    return suffix


def picture_of(machine: Machine, image: str | None) -> Picture:
    """Return the shape of ``--image HxW`` for the visible units, of which an image is the first part."""
    return None if image is None else picture(machine.visible.parts[0].shape, image)


def write(path: Path, samples: object, machine: RBM, image: Picture) -> None:
    """Write samples (n, *visible) in the format of the file's extension, atomically."""
    array = np.asarray(samples.cpu())  # type: ignore[attr-defined]
    with files.atomic(path) as temporary:
        temporary.write_bytes(_WRITERS[path.suffix.lower()](array, machine, image))


def write_sequences(path: Path, samples: Tensor, rows: Rows) -> None:
    """Write sampled sequences as FASTA or CSV, each with its nearest training sequence and the share of equal sites."""
    if rows.letters is None:
        raise InvalidOption(f"{path}: expected a run on sequences, found {rows.title}, whose rows have no letters")
    nearest, identity = data.nearest_sequences(samples.cpu(), rows.one_hot())
    names = [f"sample-{k + 1}" for k in range(len(samples))]
    neighbors = [rows.name(k) for k in nearest.tolist()]
    sequences = decode(samples, rows.letters)
    shares = [f"{share:.3f}" for share in identity.tolist()]
    if path.suffix.lower() in FASTA:
        titles = zip(names, neighbors, shares, strict=True)
        data.write_fasta(path, sequences, [f"{a} nearest={b} identity={c}" for a, b, c in titles])
        return
    _write_cells(
        path, ["name", "sequence", "nearest", "identity"], zip(names, sequences, neighbors, shares, strict=True)
    )


def write_ratings(path: Path, samples: Tensor, rows: Rows) -> None:
    """Write sampled ratings as a table: number of the sample, item and rating."""
    assert rows.ratings is not None
    lines = ([row + 1, item, rating] for row, item, rating in rows.ratings.decode(samples.cpu()))
    _write_cells(path, ["sample", "item", "rating"], lines)


def write_columns(path: Path, samples: Tensor, names: Sequence[str]) -> None:
    """Write samples (n, units) as a table with the names of the units, such as words or channels, as header."""
    _write_cells(path, names, samples.cpu().flatten(1).tolist())


def write_documents(path: Path, samples: Tensor, rows: Rows) -> None:
    """Write sampled documents as text, one in each line, with the words in order of their counts."""
    if rows.words is None:
        raise InvalidOption(f"{path}: expected a run on documents, found {rows.title}, whose rows have no words")
    files.write_text(path, "".join(f"{line}\n" for line in decode_words(samples.cpu(), rows.words)))


def cell_text(cell: Any) -> Any:
    """Return a cell of a CSV file; text that a spreadsheet would run as a formula begins with an apostrophe.

    >>> [cell_text(cell) for cell in ("=1+1", "-ACD-", "+cmd|' /C calc'!A0", -1, "@SUM(A1)")]
    ["'=1+1", '-ACD-', "'+cmd|' /C calc'!A0", -1, "'@SUM(A1)"]
    """
    text = str(cell)
    formula = text[:1] in _FORMULA or (text[:1] in _SIGNS and any(letter in text for letter in _CALLS))
    return f"'{text}" if formula else cell


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table as CSV, and print its path."""
    _write_cells(path, columns, rows)
    print(path)


def write_figure(path: Path, figure: Figure) -> None:
    """Write a figure, and print its path."""
    files.write_figure(path, figure)
    print(path)


def _write_cells(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(cell_text, columns))
    writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell_text(cell) for cell in row] for row in rows)
    files.write_text(path, text.getvalue())


def _npy(array: np.ndarray, machine: RBM, image: Picture) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _npz(array: np.ndarray, machine: RBM, image: Picture) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, data=array)
    return buffer.getvalue()


def _csv(array: np.ndarray, machine: RBM, image: Picture) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [[f"{x:.9g}" for x in row] for row in array.reshape(len(array), -1)]
    )
    return text.getvalue().encode()


def _png(array: np.ndarray, machine: RBM, image: Picture) -> bytes:
    from .. import plots

    figure = plots.samples(machine, array, image=image)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=200)
    return buffer.getvalue()


_WRITERS: dict[str, Callable[[np.ndarray, RBM, Picture], bytes]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
    ".png": _png,
}
