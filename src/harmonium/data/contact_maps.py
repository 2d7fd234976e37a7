"""Read contact maps: which pairs of sites touch each other in a structure."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from harmonium.data.reading import read
from harmonium.errors import InvalidData, InvalidOption
from harmonium.paths import check_file, expand


def read_contacts(path: str | Path, sites: int, *, cutoff: float = 8.0) -> Tensor:
    """Read known contacts of the sites of an alignment: (sites, sites) in float64, 1 for contacts, 0 for other pairs.

    - a text file of two columns lists the contacts, one pair of sites in each line, counted from 1;
    - a text file of three columns lists pairs and their distances; pairs that are not listed are nan (unknown);
    - any other text file, or ``.npy`` or ``.npz``, is a matrix (sites, sites) of flags (0 and 1) or of distances.

    Columns are separated by commas, tabs or spaces. A first line of text and lines that begin with # are skipped. An
    empty cell or ``nan`` is an unknown pair.

    Args:
        path: the file.
        sites: number of sites of the alignment.
        cutoff: pairs at a smaller distance are contacts; in Å if the distances are.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "map.csv").write_text("first,second\\n1,3\\n")
    ...     read_contacts(Path(folder, "map.csv"), 3)
    tensor([[0., 0., 1.],
            [0., 0., 0.],
            [1., 0., 0.]], dtype=torch.float64)
    """
    path = expand(path)
    if not cutoff > 0:
        raise InvalidOption(f"cutoff: expected a positive distance, found {cutoff!r}")
    if path.suffix.lower() in (".npy", ".npz"):
        return _matrix(path, np.array(read(path), dtype=np.float64), sites, cutoff)
    check_file(path)
    table = _table(path)
    width = len(table[0][1])
    if width in (2, 3) and not width == sites == len(table):
        return _listed(path, table, sites, cutoff)
    return _matrix(path, np.array([row for _, row in table]), sites, cutoff)


def _table(path: Path) -> list[tuple[int, list[float]]]:
    """Rows of numbers with their lines."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} is not UTF-8 text: {error}") from error
    rows: list[tuple[int, list[float]]] = []
    header = True
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        separator = next((mark for mark in (",", "\t") if mark in line), None)
        try:
            row = [float(cell.strip() or "nan") for cell in line.split(separator)]
        except ValueError as error:
            if header:
                header = False
                continue
            raise InvalidData(f"{path}, line {number}: expected numbers ({str(error)[:200]})") from None
        header = False
        if rows and len(row) != len(rows[0][1]):
            raise InvalidData(f"{path}, line {number}: expected {len(rows[0][1])} columns, found {len(row)}")
        rows.append((number, row))
    if not rows:
        raise InvalidData(f"{path}: expected pairs of sites or a matrix of numbers, found none")
    return rows


def _listed(path: Path, table: list[tuple[int, list[float]]], sites: int, cutoff: float) -> Tensor:
    distances = len(table[0][1]) == 3
    found = torch.full((sites, sites), math.nan if distances else 0.0, dtype=torch.float64)
    for line, (first, second, *distance) in table:
        for site in (first, second):
            if not (site == site // 1 and 1 <= site <= sites):
                raise InvalidData(f"{path}, line {line}: expected sites from 1 to {sites}, found {site:g}")
        i, j = int(first) - 1, int(second) - 1
        flag = 1.0 if not distance else math.nan if math.isnan(distance[0]) else float(distance[0] < cutoff)
        found[i, j] = found[j, i] = flag
    return found.fill_diagonal_(0)


def _matrix(path: Path, values: np.ndarray, sites: int, cutoff: float) -> Tensor:
    if values.shape != (sites, sites):
        raise InvalidData(f"{path}: expected a matrix ({sites}, {sites}) for {sites} sites, found {values.shape}")
    known = np.isfinite(values)
    flags = bool(np.isin(values[known], (0, 1)).all())
    if not np.allclose(values, values.T, equal_nan=True):
        raise InvalidData(f"{path}: expected a symmetric matrix, found different values above and below the diagonal")
    result = np.where(known, values if flags else values < cutoff, np.nan).astype(np.float64)
    return torch.from_numpy(result).fill_diagonal_(0)
