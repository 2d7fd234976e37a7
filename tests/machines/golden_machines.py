"""Machines whose ln Z, moments and likelihoods are known from an independent enumeration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import harmonium as hm
from harmonium import units
from harmonium.couplings import Dense

F64 = torch.float64
_FOLDER = Path(__file__).parent
GOLDEN: dict[str, Any] = json.loads((_FOLDER / "golden_machines.json").read_text())
BINARY: list[dict[str, Any]] = GOLDEN["rbm_binary"]
BINARY_IDS = [f"{case['kind']}-{len(case['b'])}x{len(case['c'])}-{k}" for k, case in enumerate(BINARY)]


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=F64)


def rbm(visible: units.Unit, hidden: units.Unit, W: Any) -> hm.RBM:
    return hm.RBM(visible, hidden, Dense(tuple(visible.shape), tuple(hidden.shape), tensor(W)))


def binary(case: dict[str, Any]) -> hm.RBM:
    kind = {"01": units.Bernoulli, "pm1": units.Spin}[case["kind"]]
    return rbm(*(kind(len(case[name]), bias=tensor(case[name])) for name in "bc"), case["W"])


def digits() -> tuple[hm.RBM, float]:
    """A machine of 784 x 15 units that was trained on handwritten digits, and its ln Z."""
    with np.load(_FOLDER / "machine_784x15.npz") as file:
        W, b, c = (torch.from_numpy(file[name]) for name in "Wbc")
        return rbm(units.Bernoulli(784, bias=b), units.Bernoulli(15, bias=c), W.tolist()), file["log_partition"].item()
