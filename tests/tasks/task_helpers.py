"""Machines with known posteriors, and the exact posterior of small machines by two methods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from cases import F64, UNITS, Nodes, product
from oracle import joint
from torch import Tensor

import harmonium as hm
from harmonium import units
from harmonium.couplings import Dense
from harmonium.tasks.observed import Evidence, posterior_machine

BSC: dict[str, Any] = json.loads((Path(__file__).parent / "golden_tasks.json").read_text())["bsc"]


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=F64)


def binary(kind: Any = units.Bernoulli, scale: float = 1.0) -> hm.RBM:
    """The machine of the reference values."""
    visible, hidden = (kind(len(BSC[name]), bias=tensor(BSC[name])) for name in "bc")
    return hm.RBM(visible, hidden, Dense(visible.size, hidden.size, scale * tensor(BSC["W"])))


def deep() -> hm.DeepBoltzmannMachine:
    source = torch.Generator().manual_seed(5)
    layers = [units.Bernoulli(n, bias=torch.randn(n, generator=source, dtype=F64)) for n in (4, 3, 2)]
    links = [Dense(a, b, 0.8 * torch.randn(a, b, generator=source, dtype=F64)) for a, b in ((4, 3), (3, 2))]
    return hm.DeepBoltzmannMachine(layers, links)


def gaussian_posterior(machine: hm.BoltzmannMachine, nodes: list[Nodes], y: Tensor, sigma: float) -> Tensor:
    """⟨x⟩ given y = x + σ noise for each row of y, by quadrature: (n, *visible)."""
    exact = joint(machine, nodes)
    points = exact.points[0]
    distance = (y.flatten(1).unsqueeze(1) - points.flatten(1)).square().sum(-1)
    weight = torch.softmax(exact.marginal(0).log() - distance / (2 * sigma**2), 1)
    return torch.tensordot(weight, points, 1)


def conditional(machine: hm.BoltzmannMachine, names: list[str], x: Tensor, known: Tensor) -> Tensor:
    """⟨x⟩ of one state given its known units, by quadrature over the others: (*visible)."""
    site = UNITS[names[0]].site
    size = site[0][0].numel()
    parts = [
        (part[None], torch.zeros(1, dtype=F64)) if bool(seen.all()) else site
        for part, seen in zip(x.reshape(-1, size), known.reshape(-1, size), strict=True)
    ]
    points, weights = product(*parts)
    others = [UNITS[name].nodes(unit) for name, unit in zip(names[1:], machine.layers[1:], strict=True)]
    exact = joint(machine, [(points.reshape(-1, *machine.visible.shape), weights), *others])
    return torch.tensordot(exact.marginal(0), exact.points[0], 1)


@torch.no_grad()
def summed(machine: hm.RBM, evidence: Evidence, hidden: Nodes) -> Tensor:
    """⟨x⟩ of each row from the visible layer of the posterior machine, averaged over all hidden states."""
    points, weights = hidden
    found = []
    for row in range(len(evidence)):
        view = posterior_machine(machine, evidence.rows(slice(row, row + 1)))
        field = view.field(0, [None, points])
        log_p = view.layers[1].log_weight(points).flatten(1).sum(1) + weights
        log_p = log_p + view.visible.log_partition(field).reshape(len(points), -1).sum(1)
        found.append(torch.tensordot(torch.softmax(log_p, 0), view.visible.mean(field), 1))
    return torch.stack(found)
