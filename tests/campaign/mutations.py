"""Damaged files of every kind that is read: each is refused, or harmless, quickly and with little memory."""

from __future__ import annotations

import random
import re
import shutil
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas
import torch
from counting import Counts, Hang, at_most, peak_memory, reset_peak, timed
from scipy.io import savemat
from scipy.sparse import csc_matrix

import harmonium as hm
from harmonium import convert, files
from harmonium.data import read_alignment, read_contacts, read_documents, read_ratings
from harmonium.errors import HarmoniumError
from harmonium.runs import config as schema
from harmonium.training import Run

Read = Callable[[Path], Any]
_ALLOWED = 96 * 2**20  # growth of the peak that is noise: imported modules, caches, and what small files may declare


def originals(folder: Path) -> dict[str, tuple[Path, Read, bool]]:
    """Files, how they are read, and whether they have checksums."""
    rows = torch.eye(6).repeat(5, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hm.fit(hm.RBM(6, 3), rows, epochs=3, batch_size=10, run=folder / "run", progress=False, schedule="constant")
    run = Run(folder / "run")
    table = np.random.default_rng(0).integers(0, 2, (40, 6))
    np.save(folder / "rows.npy", table)
    np.savez_compressed(folder / "rows.npz", data=table, other=table)
    pandas.DataFrame(table, columns=list("abcdef")).to_csv(folder / "rows.csv", index=False)
    pandas.DataFrame(table, columns=list("abcdef")).to_parquet(folder / "rows.parquet")
    letters = np.array(list("ACDE-"))
    text = "".join(f">s{k}\n{''.join(letters[row])}\n" for k, row in enumerate(table))
    (folder / "rows.fasta").write_text(text)
    (folder / "rows.a2m").write_text(text.replace("A", "a.A"))
    blocks = (f"s{k} {''.join(letters[row])}\n" for k, row in enumerate(table))
    (folder / "rows.sto").write_text(f"# STOCKHOLM 1.0\n{''.join(blocks)}//\n")
    savemat(folder / "rows.mat", {"data": table.astype(float), "name": "mine"})
    savemat(folder / "sparse.mat", {"data": csc_matrix(table.astype(float))})
    savemat(folder / "compressed.mat", {"data": csc_matrix(table > 0)}, do_compression=True)
    with h5py.File(folder / "rows.h5", "w") as file:
        file.create_dataset("session/data", data=table, compression="gzip", chunks=(8, 3))
    (folder / "map.csv").write_text("first,second\n1,3\n2,5\n")
    (folder / "texts.csv").write_text("text\n" + "".join(f"the word {'abc'[k % 3]} here\n" for k in range(20)))
    (folder / "rates.csv").write_text("user,item,rating\n" + "".join(f"{k},{k % 4},{k % 5 + 1}\n" for k in range(20)))
    people = pandas.DataFrame({"age": [20.5, 30.0, 41.5], "job": ["a", "b", "c"], "children": [0, 1, 3]})
    hm.data.TableEncoder.fit(people).save(folder / "table.json")
    rbm = hm.RBM(6, 3)
    rbm.initialize(rows, seed=0)
    for name in ("machine.npz", "machine.h5"):
        convert.write(rbm, folder / name)
    savemat(
        folder / "machine.mat", {"vishid": np.ones((4, 3)), "hidbiases": np.ones((1, 3)), "visbiases": np.ones((1, 4))}
    )
    tables = ('[data]\nsource = "digits"', '[machine]\nhidden = "bernoulli:20"', "[training]\nepochs = 3\n")
    (folder / "config.toml").write_text("\n".join(tables))
    return {
        "machine": (run.trajectory()[-1][1], lambda path: hm.load(path).state_dict(), True),
        "checkpoint": (run.last, lambda path: _state(path), True),
        "metrics": (run.metrics_path, lambda path: _of_run(path, "metrics.csv").read_metrics(), False),
        "run configuration": (run.config_path, lambda path: _of_run(path, "config.toml").read_config(), False),
        "configuration": (folder / "config.toml", schema.read, False),
        "npy": (folder / "rows.npy", lambda path: np.array(hm.data.read(path)), False),
        "npz": (folder / "rows.npz", hm.data.read, False),
        "csv": (folder / "rows.csv", hm.data.read, False),
        "parquet": (folder / "rows.parquet", hm.data.read, False),
        "fasta": (folder / "rows.fasta", read_alignment, False),
        "A2M": (folder / "rows.a2m", read_alignment, False),
        "Stockholm": (folder / "rows.sto", read_alignment, False),
        "matrix in MATLAB": (folder / "rows.mat", hm.data.read, False),
        "sparse matrix in MATLAB": (folder / "sparse.mat", hm.data.read, False),
        "compressed matrix in MATLAB": (folder / "compressed.mat", hm.data.read, False),
        "matrix in HDF5": (folder / "rows.h5", hm.data.read, False),
        "documents": (folder / "texts.csv", read_documents, False),
        "ratings": (folder / "rates.csv", read_ratings, False),
        "machine in npz": (folder / "machine.npz", convert.read, False),
        "machine in HDF5": (folder / "machine.h5", convert.read, False),
        "machine in MATLAB": (folder / "machine.mat", convert.read, False),
        "columns of a table": (folder / "table.json", hm.data.TableEncoder.load, False),
        "contacts": (folder / "map.csv", lambda path: read_contacts(path, 6), False),
    }


def _state(path: Path) -> dict[str, torch.Tensor]:
    tensors, _ = files.read_tensors(path)
    files.machine_from(path, tensors, _)
    return tensors


def _of_run(path: Path, name: str) -> Run:
    folder = path.parent / "mutated-run"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(path, folder / name)
    return Run(folder)


def mutated(content: bytes, choice: random.Random) -> bytes:
    """Change a file in one of several ways."""
    kind = choice.randrange(9)
    at = choice.randrange(len(content))
    data = bytearray(content)
    if kind == 0:
        data[at] ^= 1 << choice.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at : at + choice.randint(1, 64)] = choice.randbytes(choice.randint(0, 64))
    elif kind == 3:
        data[at:at] = choice.randbytes(choice.randint(1, 300))
    elif kind == 4:
        del data[at : at + choice.randint(1, 100)]
    elif kind == 5:
        data += content[at:]
    elif kind == 6:
        data[at:at] = choice.choice([b"[", b"{", b"9", b"\0", b"-", b'"', b","]) * choice.choice([1, 3, 200, 3000])
    elif kind == 7:
        return _other_number(content, choice)
    else:
        other = choice.randrange(len(content))
        size = choice.randint(1, 32)
        data[at : at + size], data[other : other + size] = data[other : other + size], data[at : at + size]
    return bytes(data)


def _other_number(content: bytes, choice: random.Random) -> bytes:
    """Replace a number that is written in digits, as in headers and tables."""
    places = list(re.finditer(rb"\d+", content[:4000]))
    if not places:
        return content[::-1]
    place = choice.choice(places)
    new = choice.choice(
        [b"0", b"-1", b"1e30", b"999999999", b"1" + b"0" * 30, b"9" * 5000, b"nan", b"inf", b"[]", b"''"]
    )
    return content[: place.start()] + new + content[place.end() :]


def mutations(n: int, seed: int, folder: Path) -> Counts:
    """Read ``n`` damaged files; nothing raises anything but the errors of the package, hangs or uses much memory."""
    counts = Counts("file mutations")
    choice = random.Random(seed)
    kinds = originals(folder)
    expected = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (path, read, checked) in kinds.items():
            expected[name] = read(path)
            assert not checked or isinstance(expected[name], dict)
        with timed(counts):
            for k in range(n):
                name = list(kinds)[k % len(kinds)]
                _one(counts, name, kinds[name], expected[name], folder, choice)
    return counts


def _one(
    counts: Counts, name: str, kind: tuple[Path, Read, bool], expected: Any, folder: Path, choice: random.Random
) -> None:
    original, read, checked = kind
    content = mutated(original.read_bytes(), choice)
    path = folder / f"mutated{original.suffix}"
    path.write_bytes(content)
    before = reset_peak()
    counts.tried += 1
    try:
        with at_most(20):
            found = read(path)
    except HarmoniumError as error:
        counts.outcomes["refused"] += 1
        if len(str(error)) > 1500:
            counts.problem("long message", f"{name}: {str(error)[:300]}")
    except Hang:
        counts.problem("hang", name)
    except Exception as error:
        counts.problem(f"raw {type(error).__name__} of {name}", f"{error}\n{traceback.format_exc()[-1200:]}")
    else:
        counts.outcomes["read"] += 1
        if checked and not _equal(found, expected):
            counts.problem("undetected damage", name)
    if peak_memory() - before > max(_ALLOWED, 2 * len(content)):
        counts.problem("large allocation", f"{name}: {(peak_memory() - before) / 2**20:.0f} MB")


def _equal(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> bool:
    return found.keys() == expected.keys() and all(torch.equal(found[key], expected[key]) for key in expected)
