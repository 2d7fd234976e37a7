"""``hm.fit``, ``harmonium train`` and ``harmonium.sklearn.RBM`` make equal plans."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium.cli import running
from harmonium.cli.training_command import train
from harmonium.machines import layout
from harmonium.runs import config as schema
from harmonium.runs import setup
from harmonium.training.batches import as_source
from harmonium.training.plan import FIELDS, Plan

RANDOM = np.random.default_rng(0)
BINARY = (RANDOM.random((60, 6)) < 0.4).astype(np.uint8)
WIDE = (RANDOM.random((60, 40)) < 0.4).astype(np.uint8)
COUNTS = RANDOM.poisson(2.0, (60, 6))
REAL = RANDOM.normal(size=(60, 4)).astype(np.float32)


def plan_of_the_command(monkeypatch: pytest.MonkeyPatch, source: object, **options: Any) -> tuple[Plan, Any]:
    """The plan and the rows of ``harmonium train`` with the given options, through its own function."""
    kept: list[setup.Setup] = []
    monkeypatch.setattr(running, "_train", lambda config, *_, **__: kept.append(setup.prepare(config)))
    train(source=str(source), **options)
    return kept[0].config.training, kept[0]


def saved(folder: Path, name: str, rows: np.ndarray) -> Path:
    np.save(folder / name, rows)
    return folder / name


ROWS: dict[str, Callable[[Path], Path]] = {
    "binary": lambda folder: saved(folder, "binary.npy", BINARY),
    "wide": lambda folder: saved(folder, "wide.npy", WIDE),
    "counts": lambda folder: saved(folder, "counts.npy", COUNTS),
    "real": lambda folder: saved(folder, "real.npy", REAL),
    "labels": lambda folder: saved(folder, "labels.npy", np.hstack([BINARY, RANDOM.integers(0, 3, (60, 1))])),
}


def sequences(folder: Path) -> Path:
    path = folder / "mine.fasta"
    path.write_text("".join(f">s{k}\n{''.join(RANDOM.choice(list('ACDE'), 5))}\n" for k in range(40)))
    return path


def documents(folder: Path) -> Path:
    path = folder / "mine.txt"
    path.write_text("\n".join(" ".join(RANDOM.choice(["sun", "sea", "ice", "fog"], 9)) for _ in range(40)) + "\n")
    return path


def ratings(folder: Path) -> Path:
    path = folder / "ratings.csv"
    lines = [f"u{user},m{item},{RANDOM.integers(1, 6)}" for user in range(30) for item in range(6) if (user + item) % 3]
    path.write_text("\n".join(["user,item,rating", *lines]) + "\n")
    return path


def table(folder: Path) -> Path:
    path = folder / "people.csv"
    lines = [
        f"{age:.1f},{RANDOM.choice(['red', 'blue'])},{'' if k % 5 == 0 else 'yes'}"
        for k, age in enumerate(RANDOM.normal(40, 9, 50))
    ]
    path.write_text("\n".join(["age,color,member", *lines]) + "\n")
    return path


def frames(folder: Path) -> Path:
    return saved(folder, "frames.npy", np.cumsum(RANDOM.normal(size=(80, 3)), 0).astype(np.float32))


ROWS |= {
    "sequences": sequences, "documents": documents, "ratings": ratings, "table": table, "frames": frames,
}  # fmt: skip

#: rows, options of the command, and the same options of fit; those of the machine are the command's
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "small": ("binary", {}, {}),
    "wide": ("wide", {"hidden": ["30"]}, {}),
    "given": ("wide", {"negative": "pcd:2", "epochs": 3, "penalties": ["l2:0.1"]},
              {"negative": hm.PCD(2), "epochs": 3, "penalties": [hm.L2(0.1)]}),
    "rate": ("binary", {"learning_rate": "0.1"}, {"learning_rate": 0.1}),
    "momentum": ("binary", {"optimizer": "sgd,momentum=0.9"}, {"optimizer": hm.training.optimizers.SGD(0.9)}),
    "adam": ("binary", {"optimizer": "adam", "constraints": ["average:0.3"]},
             {"optimizer": "adam", "constraints": "average:0.3"}),
    "plain": ("binary", {"centered": "false", "initialize": "modes"}, {"centered": False, "initialize": "modes"}),
    "best": ("wide", {"config": "best"}, {"plan": "best"}),
    "hidden counts": ("wide", {"hidden": ["poisson:20"]}, {}),
    "counts": ("counts", {"visible": "poisson", "hidden": ["4"]}, {}),
    "gaussian": ("real", {"visible": "gaussian", "hidden": ["30"]}, {}),
    "gaussian, small": ("real", {"visible": "gaussian", "hidden": ["3"]}, {}),
    "deep": ("wide", {"hidden": ["6", "4"]}, {}),
    "deep, epochs": ("wide", {"hidden": ["6", "4"], "epochs": 3}, {"epochs": 3}),
    "stack": ("wide", {"machine": "dbn", "hidden": ["6", "4"]}, {}),
    "joint stack": ("wide", {"machine": "dbn", "hidden": ["6", "4"], "epochs": 3}, {"epochs": 3}),
    "labels": ("labels", {"labels": True, "hidden": ["5"]}, {}),
    "labels, rate": ("labels", {"labels": True, "hidden": ["5"], "learning_rate": "0.1"}, {"learning_rate": 0.1}),
    "sequences": ("sequences", {"hidden": ["relu:8"], "similarity": 0.8}, {}),
    "documents": ("documents", {"hidden": ["8"]}, {}),
    "ratings": ("ratings", {"hidden": ["4"]}, {}),
    "ratings, own penalty": ("ratings", {"hidden": ["4"], "penalties": ["l2:0.1"]}, {"penalties": "l2:0.1"}),
    "table": ("table", {"hidden": ["30"]}, {}),
    "frames": ("frames", {"hidden": ["4"], "window": 2}, {}),
    "split": ("binary", {"validation": "0.2"}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_fit_and_the_command_make_equal_plans(case, tmp_path, monkeypatch):
    kind, options, given = CASES[case]
    plan, ready = plan_of_the_command(monkeypatch, ROWS[kind](tmp_path), seed=0, **options)
    machine, rows = ready.machine, ready.rows.weighted
    own, _ = Plan.split({"seed": 0, **given})
    found = own.resolved(machine, as_source(rows, machine))
    assert found == plan and found.reasons == plan.reasons
    assert Plan.from_table(plan.table()) == plan


@pytest.mark.parametrize(
    "case", ["small", "wide", "given", "rate", "momentum", "adam", "plain", "best", "hidden counts"]
)
def test_the_estimator_makes_the_plan_of_fit(case, monkeypatch):
    sklearn = pytest.importorskip("harmonium.sklearn")
    kind, options, given = CASES[case]
    rows, hidden = {"binary": BINARY, "wide": WIDE}[kind].astype(np.float32), options.get("hidden", ["100"])[0]
    plans = []

    def kept(machine: hm.RBM, data: Any, **arguments: Any) -> None:
        plan, _ = Plan.split({**arguments, "seed": 0})
        plans.append(plan.resolved(machine, as_source(data, machine)))

    monkeypatch.setattr("harmonium.sklearn.machine.fit", kept)
    named = {name: value for name, value in given.items() if name in sklearn.RBM().get_params()}
    others = {name: value for name, value in given.items() if name not in named}
    layer = layout.layer(layout.parse_hidden(hidden))
    sklearn.RBM(layer.size, hidden=layer, fit_options=others, random_state=0, **named).fit(rows)
    machine = hm.RBM(rows.shape[1], layout.layer(layout.parse_hidden(hidden)))
    own, _ = Plan.split({"seed": 0, **given})
    assert plans == [own.resolved(machine, as_source(torch.from_numpy(rows), machine))]


def test_the_command_has_an_option_for_every_value():
    data = {"rows", "bytes", "sha256", "mean"}  # written by the run
    fields = {*schema.DataOptions.__dataclass_fields__, *schema.MachineOptions.__dataclass_fields__, *FIELDS}
    assert set(inspect.signature(train).parameters) == (fields - data) | {"run", "config", "report", "quiet"}


def test_the_tables_of_the_documentation_are_those_of_the_command():
    root = Path(__file__).parents[1]
    page = root / "docs" / "cli.md"
    if not page.exists():
        pytest.skip("docs/cli.md not found")
    tables = runpy.run_path(str(root / "tools" / "option_tables.py"))
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- options: ") == 4
    assert tables["rewritten"](text) == text, "run python tools/option_tables.py docs/cli.md"
