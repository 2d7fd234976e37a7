"""Parameters after two epochs, in float64: what a change of the code must not change unless it changes the algorithm.

    python tests/training/test_golden_training.py  # computes the numbers anew; only if an algorithm is meant to change

Draws in float64 do not use the kernels in C, so that the numbers are the same on every machine.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium import units
from harmonium.couplings import Conv2d, Masked

FILE = Path(__file__).with_name("golden_training.json")
ROWS = 60
Case = Callable[[], tuple[Any, Any, dict[str, Any]]]


def _source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bits(n: int = 6) -> Tensor:
    pattern = torch.rand(ROWS, 1, generator=_source()) < 0.4
    noise = torch.rand(ROWS, n, generator=_source(1)) < 0.15
    return (pattern ^ (torch.arange(n) < n // 2) ^ noise).double()


def letters(sites: int = 3, states: int = 4) -> Tensor:
    drawn = torch.randint(states, (ROWS, sites), generator=_source(2))
    drawn[:, 1:] = torch.where(torch.rand(ROWS, 1, generator=_source(3)) < 0.7, drawn[:, :1], drawn[:, 1:])
    return torch.nn.functional.one_hot(drawn, states).double()


def reals(n: int = 5) -> Tensor:
    return (torch.randn(ROWS, 1, generator=_source(4)) + 0.5 * torch.randn(ROWS, n, generator=_source(5))).double()


def words(n: int = 6) -> Tensor:
    topic = (torch.rand(ROWS, 1, generator=_source(6)) < 0.5).double()
    share = torch.linspace(0.2, 3, n).expand(ROWS, n) * topic + torch.linspace(3, 0.2, n).expand(ROWS, n) * (1 - topic)
    drawn = torch.multinomial(share, 8, replacement=True, generator=_source(7))
    return torch.nn.functional.one_hot(drawn, n).sum(1).double()


def rbm(visible: Any, hidden: Any, coupling: Any = None) -> Any:
    machine = hm.RBM(visible, hidden, coupling).double()
    torch.nn.init.normal_(machine.weight, std=0.3, generator=_source(8))
    machine.coupling.project()
    return machine


def deep() -> Any:
    machine = hm.DeepBoltzmannMachine([units.Bernoulli(n) for n in (6, 4, 3)]).double()
    for k, coupling in enumerate(machine.couplings):
        torch.nn.init.normal_(coupling.weight, std=0.3, generator=_source(9 + k))
    return machine


def stack() -> Any:
    return hm.DeepBeliefNetwork([rbm(6, 4), rbm(4, 3)])


def binary(negative: Any, **options: Any) -> Case:
    return lambda: (rbm(6, 3), bits(), {"negative": negative, **options})


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


CASES: dict[str, Case] = {
    "cd-1": binary("cd:1"),
    "cd-3": binary("cd:3"),
    "pcd-1": binary("pcd:1"),
    "pcd-2 with 17 chains": binary("pcd:2,chains=17"),
    "exact": binary("exact"),
    "exact, adam": binary("exact", optimizer="adam"),
    "pcd, adam": binary("pcd:1", optimizer="adam"),
    "pcd, momentum": binary("pcd:1", optimizer=momentum),
    "pcd, plain coordinates": binary("pcd:1", centered=False),
    "pcd, l1 and l2": binary("pcd:1", penalties=[hm.L1(0.01), hm.L2(0.02)]),
    "pcd, average": binary("pcd:1", constraints=[hm.Average(0.9)]),
    "pcd, growing steps": binary("pcd:1", schedule="growing:2"),
    "tempering": binary("parallel-tempering:1,rungs=3"),
    "mean field": binary(hm.MeanField(3, persistent=False)),
    "missing values": lambda: (
        rbm(6, 3),
        hm.Incomplete(bits().masked_fill(torch.rand(ROWS, 6, generator=_source(10)) < 0.2, torch.nan)),
        {"negative": "pcd:1"},
    ),
    "spins": lambda: (rbm(units.Spin(6), units.Spin(3)), 2 * bits() - 1, {"negative": "pcd:1"}),
    "letters": lambda: (rbm(units.Potts((3, 4)), 3), letters(), {"negative": "pcd:1"}),
    "real values": lambda: (rbm(units.Gaussian(5), 3), reals(), {"negative": "cd:1"}),
    "relu": lambda: (rbm(6, units.ReLU(3)), bits(), {"negative": "pcd:1"}),
    "words": lambda: (rbm(units.Multinomial(6), 3), words(), {"negative": "cd:1"}),
    "masked": lambda: (
        rbm(6, 3, Masked((6,), (3,), mask=torch.arange(18).reshape(6, 3) % 4 != 0)),
        bits(),
        {"negative": "pcd:1"},
    ),
    "convolution": lambda: (
        rbm(units.Bernoulli((1, 4, 4)), units.Bernoulli((2, 3, 3)), Conv2d((1, 4, 4), (2, 3, 3), kernel=2)),
        bits(16).reshape(ROWS, 1, 4, 4),
        {"negative": "pcd:1"},
    ),
    "deep": lambda: (deep(), bits(), {"negative": hm.DeepPCD(1, positive="mean-field", iterations=5)}),
    "deep mean field": lambda: (deep(), bits(), {"negative": hm.MeanField(3, persistent=True)}),
    "stack": lambda: (stack(), bits(), {"negative": "cd:1"}),
}


def parameters(name: str) -> dict[str, list[float]]:
    """Return the parameters of a machine after two epochs, as flat lists."""
    machine, data, options = CASES[name]()
    options = {"learning_rate": 0.05, "optimizer": "sgd", "batch_size": 25, "schedule": "constant", **options}
    if callable(options["optimizer"]):
        del options["learning_rate"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hm.fit(machine, data, epochs=2, seed=3, initialize="keep", progress=False, **options)
    return {key: value.detach().flatten().tolist() for key, value in machine.named_parameters()}


@pytest.mark.parametrize("name", CASES)
def test_parameters_after_two_epochs(name: str) -> None:
    expected, got = json.loads(FILE.read_text())[name], parameters(name)
    assert got.keys() == expected.keys()
    for key, values in expected.items():
        torch.testing.assert_close(got[key], values, rtol=1e-11, atol=1e-11, msg=key)


if __name__ == "__main__":
    numbers = {name: parameters(name) for name in CASES}
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in numbers.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(numbers)} cases, {sum(len(v) for case in numbers.values() for v in case.values())} numbers")
    sys.exit()
