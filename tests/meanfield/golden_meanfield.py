"""Machines with mean-field fixed points from an independent computation in 40-digit arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import harmonium as hm
from harmonium import units
from harmonium.couplings import Dense

F64 = torch.float64
GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden_meanfield.json").read_text())
BINARY: list[dict[str, Any]] = GOLDEN["rbm_binary"]
BINARY_IDS = [f"{case['kind']}-{len(case['b'])}x{len(case['c'])}-{k}" for k, case in enumerate(BINARY)]
REAL: list[dict[str, Any]] = GOLDEN["rbm_real_visible"]
#: strict enough that only rounding errors remain
CONVERGED: dict[str, Any] = {"tolerance": 1e-29, "max_iterations": 5000}


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=F64)


def binary(case: dict[str, Any]) -> hm.RBM:
    kind = {"01": units.Bernoulli, "pm1": units.Spin}[case["kind"]]
    visible, hidden = (kind(len(case[name]), bias=tensor(case[name])) for name in "bc")
    return hm.RBM(visible, hidden, Dense(visible.size, hidden.size, tensor(case["W"])))


def real_visible(case: dict[str, Any]) -> hm.RBM:
    n = len(case["U"])
    slab = {"bias": tensor(case["U"]), "precision": tensor(case["V"])}
    ends = {"low": case["alpha"], "high": case["omega"]}
    visible = {
        "gaussian": lambda: units.Gaussian(n, **slab),
        "trunc_gauss": lambda: units.TruncatedGaussian(n, **slab, **ends),
        "trunc_gauss_bernoulli": lambda: units.TruncatedGaussBernoulli(n, **slab, **ends, rho=tensor(case["rho"])),
    }[case["visible"]]()
    hidden = units.Bernoulli(len(case["c"]), bias=tensor(case["c"]))
    return hm.RBM(visible, hidden, Dense(n, hidden.size, tensor(case["W"])))


def deep() -> hm.DeepBoltzmannMachine:
    case = GOLDEN["dbm"]
    layers = [units.Bernoulli(len(case[name]), bias=tensor(case[name])) for name in ("b0", "b1", "b2")]
    links = [Dense(5, 4, tensor(case["W1"])), Dense(4, 3, tensor(case["W2"]))]
    return hm.DeepBoltzmannMachine(layers, links)
