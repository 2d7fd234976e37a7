"""Runs on tables: the columns, the likelihood of observed cells, and the command ``impute``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import files, likelihood, tasks
from ..data import TableEncoder, column_files, read_table
from ..data.table import EXTENSIONS
from ..errors import InvalidOption, NotEnumerable, RunError, unknown
from ..machines import RBM
from ..machines.enumeration import EXACT_STATES_PER_ROW, enumerable
from ..runs.rows.tables import NAME, encoder_of
from ..tasks.denoising import METHODS
from ..training.batches import Source
from ..training.incomplete import Incomplete
from . import output

if TYPE_CHECKING:
    from ..report.evaluation import LikelihoodRow

_SHOWN = 40  # columns that are printed one by one
_MOST_ROWS = 20_000


def described(table: TableEncoder) -> dict[str, str]:
    """Return lines about the columns of a table: their number by kind, and the kind and the values of each."""
    numbers = Counter(column.kind for column in table.columns)
    lines = {"columns": ", ".join(f"{number} {kind}" for kind, number in numbers.items())}
    for column in table.columns[:_SHOWN]:
        lines[f"column '{column.name}'"] = f"{column.kind}: {column.words}" if column.words else column.kind
    if len(table.columns) > _SHOWN:
        lines["further columns"] = f"{len(table.columns) - _SHOWN}, in {NAME}"
    return lines


def write_table(path: Path, frame: Any) -> None:
    """Write a table as .csv, .tsv, .parquet or .arrow, atomically."""
    suffix = path.suffix.lower()
    with files.atomic(path) as temporary:
        if suffix == ".parquet":
            frame.to_parquet(temporary, index=False)
        elif suffix in column_files.EXTENSIONS:
            frame.reset_index(drop=True).to_feather(temporary)
        else:
            plain = frame.rename(columns=output.cell_text)
            for name in plain.select_dtypes(exclude="number"):
                plain[name] = plain[name].map(output.cell_text)
            plain.to_csv(temporary, index=False, sep="\t" if suffix == ".tsv" else ",", lineterminator="\n")


def impute_run(
    folder: Path,
    file: Path,
    *,
    out: Path | None = None,
    method: str | None = None,
    draw: bool = False,
    sweeps: int = 500,
    seed: int = 0,
) -> None:
    """Fill in the missing cells of a table with the machine of a run, and write the completed table.

    Missing cells get their most probable value, or their mean (real numbers), or with ``draw`` a sample.
    """
    if method is not None and method not in METHODS:
        raise unknown("method", method, METHODS)
    encoder = encoder_of(folder)
    if encoder is None:
        raise RunError(f"{folder}: expected the folder of a run on a table, with {NAME}, found none")
    path = folder / "imputed.csv" if out is None else out
    if path.suffix.lower() not in EXTENSIONS:
        raise unknown("file extension of a table", path.suffix or path.name, EXTENSIONS)
    frame = read_table(file)
    whole = frame.copy()
    absent = [column.name for column in encoder.columns if column.width and column.name not in frame.columns]
    for column in encoder.columns:
        if column.name not in frame.columns:
            whole[column.name] = None
    whole.attrs = dict(frame.attrs)
    machine: Any = files.load(folder)
    rows = encoder.encode(whole)
    method = _best_method(machine) if method is None else method
    options = {"sweeps": sweeps} if method == "gibbs" else {}
    found = tasks.impute(machine, rows, method=method, chains=1, seed=seed, **options)
    if draw and found.draws is None:
        raise InvalidOption(f"draw: expected the method exact or gibbs, found {method}")
    states = found.draws[:, 0] if draw and found.draws is not None else found.rounded
    write_table(path, encoder.complete(whole[[*frame.columns, *absent]], states))
    cells = sum(int(whole[column.name].isna().sum()) for column in encoder.columns if column.width)
    lost = int((~found.converged).sum())
    note = f"; not converged in {lost} of {len(rows)} rows" if lost else ""
    print(f"{cells} missing cells in {len(rows)} rows, method {method}{note}: {path}")


def _best_method(machine: Any) -> str:
    summed = isinstance(machine, RBM) and enumerable(machine, EXACT_STATES_PER_ROW, parity=1)
    return "exact" if summed else "gibbs"


def observed_likelihood(
    machine: Any, table: TableEncoder, train: Source, test: Source | None, betas: int
) -> list[LikelihoodRow]:
    """Return the mean log-likelihood of the observed cells of a table, encoded and in units of the table."""
    if not isinstance(machine, RBM):
        return []
    from ..report.evaluation import LikelihoodRow

    name, unit = "log-likelihood of observed cells", "nats per row"
    rows = [None if source is None else _some(source) for source in (train, test)]
    try:
        log_z, how = _log_partition(machine, train, betas)
    except NotEnumerable as error:
        return [LikelihoodRow(name, unit, note=str(error))]
    found = [None if part is None else log_z.log_likelihood(part, mask=~torch.isnan(part), seed=0) for part in rows]
    values = [None if part is None else part.value for part in found]
    shifts = [None if part is None else table.log_jacobian(part).mean().item() for part in rows]
    scaled = [None if a is None or b is None else a + b for a, b in zip(values, shifts, strict=True)]
    exact = all(part is None or not part.details["row_errors"].any() for part in found)
    note = "missing cells summed out exactly" if exact else "missing cells annealed: too small on average"
    return [
        LikelihoodRow(name, unit, values[0], values[1], f"{note}; {how}"),
        LikelihoodRow(name, f"{unit}, units of the table", scaled[0], scaled[1], "density of the numbers in the file"),
    ]


def _some(source: Source) -> Tensor:
    index = torch.arange(min(len(source), _MOST_ROWS))
    if isinstance(source, Incomplete):
        return source.observed(index)
    return source.take(index, torch.empty(len(index), *source.shape))


def _log_partition(machine: RBM, train: Source, betas: int) -> tuple[likelihood.LogPartition, str]:
    try:
        return likelihood.exact(machine), "ln Z by enumeration"
    except NotEnumerable:
        if not betas:
            raise
    from ..report import some_rows

    found = likelihood.estimate(machine, some_rows(train, machine, 2000), betas=betas, seed=0).log_partition
    assert found is not None
    low, high = found.interval
    verdict = "trustworthy" if found.trustworthy else "not trustworthy"
    return found, f"ln Z annealed, uncertain by {(high - low) / 2:.2f} nats, {verdict}"
