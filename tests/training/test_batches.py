"""The same rows give the same machine for every container; invalid data raise a clear error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import Dataset, Subset, TensorDataset
from training_helpers import assert_same, binary, generator, parameters

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidData, InvalidOption
from harmonium.machines import RBM
from harmonium.runs.rows.base import Subset as SomeRows
from harmonium.training import batches
from harmonium.training.batches import as_rows, as_source

ROWS = torch.randint(0, 2, (60, 6), generator=generator(0))


class Rows(Dataset):
    """A user-defined data set of NumPy rows."""

    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, k: int) -> np.ndarray:
        return ROWS[k].numpy().astype(np.float32)


def memmap(folder: Path, dtype: str) -> np.memmap:
    path = folder / "rows.bin"
    ROWS.numpy().astype(dtype).tofile(path)
    return np.memmap(path, dtype=dtype, mode="r", shape=tuple(ROWS.shape))


KINDS: dict[str, Any] = {
    "float32": lambda folder: ROWS.float(),
    "float64": lambda folder: ROWS.double(),
    "float16": lambda folder: ROWS.half(),
    "uint8": lambda folder: ROWS.to(torch.uint8),
    "int64": lambda folder: ROWS,
    "bool": lambda folder: ROWS.bool(),
    "strided": lambda folder: ROWS.float().repeat_interleave(2, 1)[:, ::2],
    "tracked": lambda folder: ROWS.float().requires_grad_(),
    "numpy": lambda folder: ROWS.numpy(),
    "numpy-bool": lambda folder: ROWS.numpy().astype(bool),
    "numpy-uint16": lambda folder: ROWS.numpy().astype(np.uint16),
    "numpy-float64": lambda folder: ROWS.numpy().astype(np.float64),
    "numpy-reversed": lambda folder: np.ascontiguousarray(ROWS.numpy()[::-1])[::-1],
    "numpy-big-endian": lambda folder: ROWS.numpy().astype(">f4"),
    "numpy-fortran": lambda folder: np.asfortranarray(ROWS.numpy()),
    "lists": lambda folder: ROWS.tolist(),
    "memmap": lambda folder: memmap(folder, "u1"),
    "memmap-float": lambda folder: memmap(folder, "<f8"),
    "memmap-big-endian": lambda folder: memmap(folder, ">i4"),
    "table": lambda folder: pd.DataFrame(ROWS.numpy()),
    "table-mixed": lambda folder: pd.DataFrame(ROWS.numpy()).astype({0: bool, 1: np.uint8, 2: np.float32}),
    "table-nullable": lambda folder: pd.DataFrame(ROWS.numpy()).astype("Int64"),
    "dataset": lambda folder: Rows(),
    "tensor-dataset": lambda folder: TensorDataset(ROWS.float()),
    "with-labels": lambda folder: TensorDataset(ROWS.float(), torch.arange(60)),
    "subset": lambda folder: Subset(TensorDataset(ROWS.bool(), torch.arange(60)), range(60)),
}


def trained(data: Any) -> dict[str, torch.Tensor]:
    machine = RBM(units.Bernoulli(6), units.Bernoulli(3))
    hm.fit(machine, data, epochs=3, batch_size=14, seed=5)
    return parameters(machine)


@pytest.fixture(scope="module")
def expected() -> dict[str, torch.Tensor]:
    return trained(ROWS.float())


@pytest.mark.filterwarnings("error", "ignore::harmonium.errors.NotLearned")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.fast_cases(8)
def test_the_same_bits_from_every_kind_of_data(kind: str, expected: dict[str, torch.Tensor], tmp_path: Path) -> None:
    assert_same(trained(KINDS[kind](tmp_path)), expected)


@pytest.mark.filterwarnings("error", "ignore::harmonium.errors.NotLearned")
def test_read_only_arrays_raise_no_warning(expected: dict[str, torch.Tensor]) -> None:
    rows = ROWS.numpy().astype(np.float32)
    rows.flags.writeable = False
    assert_same(trained(rows), expected)


def test_the_data_are_left_alone() -> None:
    rows = ROWS.float().clone()
    trained(rows)
    assert torch.equal(rows, ROWS.float())


class Counting(np.memmap):
    """A memmap that records how many rows are read at a time."""

    sizes: list[int] = []  # noqa: RUF012

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, np.ndarray):
            Counting.sizes.append(len(index))
        return super().__getitem__(index)


def test_a_file_larger_than_a_chunk_is_read_in_pieces(
    monkeypatch: pytest.MonkeyPatch, expected: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    monkeypatch.setattr(batches.source, "CHECK_ELEMENTS", 10 * 6)
    rows = memmap(tmp_path, "u1").view(Counting)
    Counting.sizes.clear()
    machine = RBM(units.Bernoulli(6), units.Bernoulli(3))
    source = as_source(rows, machine)
    assert [len(chunk) for chunk in source.chunks(machine)] == [10] * 6
    assert torch.equal(torch.cat(list(source.chunks(machine))), ROWS.float())
    assert Counting.sizes == [10] * 18  # the check, and two readings here: never more than a chunk
    index = torch.tensor([5, 0, 59, 5])
    assert torch.equal(source.rows(index, machine), ROWS[index].float())
    assert_same(trained(memmap(tmp_path, "u1")), expected)


@pytest.mark.parametrize("kind", ["float32", "memmap", "dataset"])
def test_a_bad_row_in_a_later_chunk_is_found(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(batches.source, "CHECK_ELEMENTS", 10 * 6)
    rows = ROWS.clone()
    rows[33, 2] = 7
    if kind == "memmap":
        rows.numpy().tofile(tmp_path / "bad.bin")
        data: Any = np.memmap(tmp_path / "bad.bin", dtype=np.int64, mode="r", shape=(60, 6))
    else:
        data = rows.float() if kind == "float32" else TensorDataset(rows)
    with pytest.raises(
        InvalidData, match=r"from row 30: expected binary values 0 or 1, found 7 at row 3, index \(2,\)"
    ):
        trained(data)


def bernoulli() -> RBM:
    return RBM(units.Bernoulli(6), units.Bernoulli(3))


NAN = ROWS.float().clone()
NAN[4, 1] = float("nan")

REFUSED: dict[str, tuple[Any, Any, str]] = {
    "empty": (bernoulli, torch.zeros(0, 6), "expected at least one row, found an empty data set"),
    "empty-list": (bernoulli, [], "expected at least one row, found an empty data set"),
    "empty-dataset": (bernoulli, TensorDataset(torch.zeros(0, 6)), "expected at least one row"),
    "empty-table": (bernoulli, pd.DataFrame(np.zeros((0, 6))), "expected at least one row"),
    "too-wide": (bernoulli, torch.zeros(60, 7), r"expected rows of shape \(6,\) for the bernoulli units, found \(7,\)"),
    "images": (bernoulli, torch.zeros(60, 2, 3), r"expected rows of shape \(6,\).*found \(2, 3\)"),
    "flat": (bernoulli, torch.zeros(60), r"expected rows of shape \(6,\).*found \(\)"),
    "number": (bernoulli, 3.0, "expected rows of numbers, found float"),
    "scalar": (bernoulli, torch.tensor(3.0), "expected rows of numbers, found Tensor"),
    "nothing": (bernoulli, None, "expected rows of numbers, found NoneType"),
    "nan": (bernoulli, NAN, r"expected finite numbers, found nan at row 4, index \(1,\)"),
    "missing": (
        bernoulli,
        pd.DataFrame(NAN.numpy()).astype("Float64"),
        r"expected finite numbers, found nan at row 4, index \(1,\)",
    ),
    "infinite": (
        lambda: RBM(units.Gaussian(6), units.Bernoulli(3)),
        1 / ROWS.float(),
        "expected finite numbers, found inf",
    ),
    "pixels": (bernoulli, 255 * ROWS.to(torch.uint8), "found 255 .*pixels of 0 to 255: binarize"),
    "gray": (bernoulli, 0.5 * ROWS.float(), "found 0.5 .*gray values are not binary"),
    "spins": (bernoulli, 2 * ROWS - 1, "expected binary values 0 or 1, found -1"),
    "counts": (lambda: RBM(units.Poisson(6), units.Bernoulli(3)), ROWS - 1, "expected non-negative integers, found -1"),
    "half-counts": (lambda: RBM(units.Poisson(6), units.Bernoulli(3)), ROWS / 2, "non-negative integers, found 0.5"),
    "words": (
        lambda: RBM(units.Multinomial(6), units.Bernoulli(3)),
        ROWS - 1,
        "non-negative integer counts of sum up to 16,777,216, found",
    ),
    "length": (
        lambda: RBM(units.Multinomial(6, total=3), units.Bernoulli(3)),
        torch.ones(60, 6),
        "counts of sum 3, found",
    ),
    "two-hot": (lambda: RBM(units.Potts((2, 3)), units.Bernoulli(3)), torch.ones(60, 2, 3), "one-hot vectors of 3"),
    "strings": (bernoulli, [["a"] * 6] * 60, "expected rows of numbers, found list"),
    "digits-as-strings": (
        bernoulli,
        pd.DataFrame(ROWS.numpy()).astype(str),
        "expected rows of numbers, found DataFrame",
    ),
    "name": (bernoulli, "mnist", "expected rows of numbers, found str"),
    "mapping": (bernoulli, {"train": ROWS}, "expected rows of numbers, found dict"),
    "ragged": (bernoulli, [[0, 1], [1]], "expected rows of numbers, found list"),
    "complex": (
        bernoulli,
        ROWS.numpy().astype(complex),
        "expected real numbers, found complex numbers of type complex128",
    ),
    "ragged-dataset": (
        bernoulli,
        [(torch.ones(6),)] * 3 + [(torch.ones(1),)],
        r"expected rows of shape \(6,\), found \(1,\) in row 3",
    ),
}


class Listed(Dataset):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, k: int) -> Any:
        return self.items[k]


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_data_is_refused(kind: str) -> None:
    build, data, message = REFUSED[kind]
    if kind == "ragged-dataset":
        data = Listed(data)
    with pytest.raises(InvalidData, match=message):
        hm.fit(build(), data, batch_size=14, epochs=1)


def test_validation_data_are_checked_too() -> None:
    with pytest.raises(InvalidData, match=r"validation data: expected rows of shape \(6,\)"):
        hm.fit(bernoulli(), ROWS, batch_size=10, epochs=1, validation=torch.zeros(5, 4))


@pytest.mark.parametrize("options", [{"epochs": 0}, {"batch_size": 0}])
def test_impossible_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidOption, match="at least 1"):
        hm.fit(binary(6, 3), ROWS, **{"epochs": 1, "batch_size": 10, **options})


def test_machines_without_a_partition_function_are_refused() -> None:
    machine = RBM(units.Gaussian(6), units.Gaussian(3))
    machine.coupling.weight.data.fill_(1.0)
    with pytest.raises(hm.errors.NotNormalizable, match="no finite partition function"):
        hm.fit(machine, ROWS.float(), batch_size=10)


# -- redrawn gray values ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_gray_rows_are_drawn_anew_each_time(tmp_path) -> None:
    gray = torch.rand(60, 8, generator=torch.Generator().manual_seed(0))
    source = hm.Redrawn(gray)
    stream = torch.Generator().manual_seed(1)
    draws = torch.stack([source.take(torch.arange(60), torch.empty(60, 8), stream) for _ in range(2000)])
    assert set(draws.unique().tolist()) == {0.0, 1.0}
    error = (gray * (1 - gray) / 2000).sqrt()
    assert ((draws.mean(0) - gray).abs() < 5 * error + 1e-6).all()

    def train(stop: int | None, resume: bool, folder: str) -> torch.Tensor:
        class Stop(hm.Callback):
            def on_epoch(self, progress) -> None:
                progress.stop = progress.epoch == stop

        machine = hm.RBM(hm.units.Bernoulli(8), hm.units.Bernoulli(3))
        options = {"seed": 0, "resume": resume, "callbacks": [Stop()]}
        hm.fit(machine, source, epochs=6, batch_size=20, run=tmp_path / folder, **options)
        return machine.coupling.weight.detach()

    whole = train(None, False, "whole")
    train(2, False, "broken")
    assert torch.equal(train(None, True, "broken"), whole)


@pytest.mark.parametrize("bad", [torch.full((3, 4), 255.0), torch.zeros(3, 4, dtype=torch.uint8), torch.zeros(4)])
def test_gray_rows_have_to_be_probabilities(bad) -> None:
    with pytest.raises(InvalidData, match="gray values"):
        hm.Redrawn(bad)


# -- memory maps whose file changes during training -------------------------------------------------------------------


class Then(hm.Callback):
    """Call a function after the first epoch."""

    def __init__(self, action) -> None:
        self.action = action

    def on_epoch(self, progress) -> None:
        if progress.epoch == 1:
            self.action()


def mapped(tmp_path):
    np.save(tmp_path / "rows.npy", (np.random.default_rng(0).random((20_000, 8)) < 0.5).astype(np.uint8))
    return np.load(tmp_path / "rows.npy", mmap_mode="r")


def overwrite(path):
    with path.open("r+b") as file:
        file.seek(-1000, os.SEEK_END)
        file.write(b"\xff" * 1000)


WRAPPED = [
    lambda rows: rows,
    lambda rows: hm.Weighted(rows, torch.ones(len(rows))),
    lambda rows: SomeRows(as_rows(rows), torch.arange(len(rows))),
]


@pytest.mark.parametrize("wrap", WRAPPED)
@pytest.mark.parametrize("change", [overwrite, lambda path: os.truncate(path, 200)])
def test_a_memory_map_whose_file_changes(tmp_path, wrap, change):
    """A truncated file would end the process with SIGBUS."""
    rows = wrap(mapped(tmp_path))
    with pytest.raises(InvalidData, match=r"rows\.npy as it was when it was opened, with 160,128 bytes, found that it"):
        hm.fit(hm.RBM(8, 2), rows, epochs=3, progress=False, callbacks=[Then(lambda: change(tmp_path / "rows.npy"))])


def test_a_memory_map_whose_file_is_truncated_within_an_access(tmp_path, monkeypatch):
    """The file is intact when it is checked, and ends before the rows when they are read."""
    source = as_rows(mapped(tmp_path))
    os.truncate(tmp_path / "rows.npy", 200)
    monkeypatch.setattr(source, "_check_file", lambda: None)
    with pytest.raises(InvalidData, match="with 160,128 bytes, found that it was changed, with 200 bytes"):
        source.take(torch.tensor([19_000, 3]), torch.empty(2, 8))


@pytest.mark.parametrize("part", [slice(None), slice(5, 40), slice(7, 8)])
def test_rows_of_parts_of_a_memory_map(tmp_path, part):
    """The parts begin within a file, which has a header, and a page."""
    values = np.random.default_rng(0).normal(size=(50, 3, 2)).astype(">f8")
    path = tmp_path / "rows.npy"
    np.save(path, values)
    for rows in (np.load(path, mmap_mode="r"), np.memmap(path, ">f8", "r", offset=128, shape=(50, 3, 2))):
        source = as_rows(rows[part])
        index = torch.randint(len(values[part]), (30,), generator=torch.Generator().manual_seed(0))
        found = source.take(index, torch.empty(30, 3, 2, dtype=torch.float64))
        assert np.array_equal(found.numpy(), values[part][index.numpy()])


def test_a_memory_map_that_is_changed_in_memory(tmp_path):
    mapped(tmp_path)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="c")
    rows[3] = 7
    assert bool((as_rows(rows).take(torch.tensor([3]), torch.empty(1, 8)) == 7).all())


@pytest.mark.parametrize("wrap", WRAPPED)
def test_values_of_a_memory_map_are_checked_in_every_batch(tmp_path, wrap):
    """Another process that writes through a memory map need not change the time of the file."""
    rows, path = wrap(mapped(tmp_path)), tmp_path / "rows.npy"
    time = path.stat().st_mtime_ns

    def change() -> None:
        overwrite(path)
        os.utime(path, ns=(time, time))

    with pytest.raises(InvalidData, match="which have changed during training: expected binary values"):
        hm.fit(hm.RBM(8, 2), rows, epochs=3, progress=False, callbacks=[Then(change)])


def test_a_file_that_replaces_that_of_a_memory_map_has_no_effect(tmp_path):
    rows = mapped(tmp_path)

    def replace() -> None:
        np.save(tmp_path / "other.npy", np.full((2, 2), 255))
        os.replace(tmp_path / "other.npy", tmp_path / "rows.npy")

    assert len(hm.fit(hm.RBM(8, 2), rows, epochs=3, progress=False, callbacks=[Then(replace)]).history) == 3
