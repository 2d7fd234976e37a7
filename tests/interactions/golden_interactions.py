"""Machines with reference interactions from 40-digit arithmetic, and slow reference implementations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import harmonium as hm
from harmonium import units

F64 = torch.float64
_FOLDER = Path(__file__).parent
GOLDEN: dict[str, Any] = json.loads((_FOLDER / "golden_interactions.json").read_text())
CGF: dict[str, Any] = json.loads((_FOLDER.parent / "units" / "golden_units.json").read_text())["cgf"]
ACTIVATIONS = {"linear": units.Gaussian, "relu": units.ReLU, "step": units.Bernoulli, "exponential": units.Poisson}
CASES = [(case, name) for case in GOLDEN["nbody"] for name in case["act"]]
IDS = [f"{len(case['W'])}x{len(case['c'])}-{name}" for case, name in CASES]


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=F64)


def rbm(visible: units.Unit, hidden: units.Unit, W: Any) -> hm.RBM:
    weight = W if isinstance(W, Tensor) else tensor(W)
    return hm.RBM(visible, hidden, hm.couplings.Dense(tuple(visible.shape), tuple(hidden.shape), weight))


def golden(case: dict[str, Any], activation: str, b: Any) -> hm.RBM:
    """In Bulso & Roudi (2021), c is a threshold; the bias is -c."""
    hidden = ACTIVATIONS[activation](len(case["c"]), bias=-tensor(case["c"]))
    return rbm(units.Bernoulli(len(b), bias=tensor(b)), hidden, case["W"])


def random_rbm(visible: units.Unit, hidden: units.Unit, scale: float = 1.0, seed: int = 0) -> hm.RBM:
    """Random weights and biases of both layers, in float64."""
    generator = torch.Generator().manual_seed(seed)
    machine = rbm(visible, hidden, scale * torch.randn(visible.size, hidden.size, generator=generator, dtype=F64))
    for unit in (visible, hidden):
        unit.shift_bias(torch.randn(unit.shape, generator=generator, dtype=F64))
    return machine


def subsets(n: int) -> Iterator[tuple[int, ...]]:
    return (part for order in range(1, n + 1) for part in combinations(range(n), order))


def moebius(log_p: Tensor, n: int) -> dict[tuple[int, ...], float]:
    """Interactions of {0, 1} variables from ln p of every state (variable 0 changes fastest), one alternating sum each.

    I_S = Σ_{T⊆S} (-1)^{|S|-|T|} ln p(1_T).
    """
    found = {}
    for part in subsets(n):
        total = 0.0
        for size in range(len(part) + 1):
            for inner in combinations(part, size):
                total += (-1) ** (len(part) - size) * log_p[sum(2**k for k in inner)].item()
        found[part] = total
    return found


def walsh(log_p: Tensor, n: int) -> dict[tuple[int, ...], float]:
    """Interactions of spins: J_S = 2^{-n} Σ_σ ln p(σ) Π_S σ."""
    spins = 2.0 * (torch.arange(2**n).unsqueeze(1) >> torch.arange(n) & 1) - 1
    return {part: (log_p * spins[:, list(part)].prod(1)).mean().item() for part in subsets(n)}
