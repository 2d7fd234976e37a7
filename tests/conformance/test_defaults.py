"""Every pair of units, trained with default settings on data of such a machine, is better than independent units."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import cases
import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium.errors import NotEnumerable, NotLearned, NotNormalizable
from harmonium.sampling.path import independent, uncoupled_log_partition

#: a learner needs weights of both signs, which some unbounded pairs do not allow
LEARNABLE = [pair for pair in cases.PAIRS if cases.sign(*pair) == "any"]
#: every unit with a Bernoulli partner, and with its own kind (benchmarks/adversarial.py has every pair)
SLOW = {"relu", "double-relu", "truncated-gaussian", "truncated-gauss-bernoulli", "mixed-unbounded"}
TRIED = [pair for pair in LEARNABLE if "bernoulli" in pair or (pair[0] == pair[1] and pair[0] not in SLOW)]


def epochs(visible: str, hidden: str) -> int | None:
    """A fifth of the default is enough if both units are bounded, half of it with shared biases."""
    if "bernoulli-shared" in (visible, hidden):
        return 100
    return 40 if {cases.UNITS[name].tail for name in (visible, hidden)} == {"bounded"} else None


def teacher(visible: str, hidden: str) -> hm.RBM:
    """A machine with couplings that are strong for its units, but within the bound of unbounded pairs."""
    source = cases.generator("teacher", visible, hidden)
    parts = cases.UNITS[visible].build((4,), source), cases.UNITS[hidden].build((2,), source)
    machine = hm.RBM(*parts).double()
    for name, unit in zip((visible, hidden), parts, strict=True):
        if cases.UNITS[name].tail != "factorial":
            unit.shift_bias(-unit.bias.detach())
    spreads = [unit.variance(torch.zeros(unit.shape, dtype=cases.F64)).mean().sqrt().item() for unit in parts]
    tails = {cases.UNITS[name].tail for name in (visible, hidden)}
    strength = 0.7 if tails == {"bounded"} else 0.3 if hidden == "poisson" else 0.4
    if "factorial" in tails:  # rates grow exponentially with the field of all entries of the other layer
        strength /= max(parts[0].size / 4, parts[1].size / 2) ** 0.5
    sizes = cases.weights(machine.coupling.weight.shape, source) / 0.3
    with torch.no_grad():
        machine.coupling.weight.copy_(sizes * strength / (spreads[0] * spreads[1]))
        while not normalizable(machine.coupling.weight.mul_(0.9), machine):
            pass
        below, above = (unit.mean(torch.zeros(1, *unit.shape, dtype=cases.F64)) for unit in parts)
        parts[0].shift_bias(-machine.coupling.down(above)[0])
        parts[1].shift_bias(-machine.coupling.up(below)[0])
    return machine


def normalizable(weight: Tensor, machine: hm.RBM) -> bool:
    """Whether the partition function stays finite with weights a quarter larger."""
    wider = copy.deepcopy(machine)
    wider.coupling.weight.copy_(1.25 * weight)
    try:
        wider.check_normalizable()
    except NotNormalizable:
        return False
    return True


def untrained(machine: hm.RBM) -> hm.RBM:
    """The same units without couplings and biases; what is not learned by default is as in the machine.

    With another fixed precision the data may have less variance than any machine with couplings, and there is nothing
    to learn.
    """
    other = copy.deepcopy(machine)
    torch.nn.init.zeros_(other.coupling.weight)
    for unit in other.layers:
        unit.shift_bias(-unit.bias.detach())
        for name, parameter in unit.named_parameters():
            parameter.requires_grad_(name.split(".")[-1] == "bias")
    return other


def draws(machine: hm.RBM, n: int) -> Tensor:
    return machine.sample(n, sweeps=300, seed=1, check_mixing=False)


@torch.no_grad()
def gains(machine: hm.RBM, hidden: str, rows: Tensor) -> Tensor:
    """ln p of each row minus that of independent units fitted to the rows, in nats: (n,). There is no sampling error.

    If no layer can be enumerated, ln Z is a quadrature over the states of the hidden layer.
    """
    apart = independent(machine, rows)
    try:
        log_z = machine.log_partition()
    except NotEnumerable:
        states, weights = cases.UNITS[hidden].nodes(machine.hidden)
        log_z = torch.logsumexp(weights - machine.hidden_free_energy(states), 0).item()
    theirs = -apart.free_energy(rows) - uncoupled_log_partition(apart)
    return -machine.free_energy(rows) - log_z - theirs


def gain(pair: tuple[str, str], **options: Any) -> float:
    """The gain over independent units, in nats, of a machine trained with defaults except for ``options``."""
    made = teacher(*pair)
    data, learner = draws(made, 1000), untrained(made)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotLearned)
        hm.fit(learner, data, progress=False, **options)
    return gains(learner, pair[1], data).mean().item()


@pytest.mark.parametrize("pair", TRIED, ids=cases.id_of)
def test_defaults_learn(pair: tuple[str, str]) -> None:
    assert gain(pair, epochs=epochs(*pair)) > 0.01


#: with a constant rate the first ended up to 2.9 nats below independent units; the second did not leave zero weights
#: at a hundredth of the inverse curvature
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pair", [("spin", "multinomial"), ("potts", "relu")], ids=cases.id_of)
def test_defaults_learn_with_every_seed(pair: tuple[str, str], seed: int) -> None:
    assert gain(pair, seed=seed, metrics_every=1000) > 0.01
