"""Machines of 30 kinds, and six deep ones, whose ln Z is known by enumeration and whose phases chains may not find.

The "needle" kinds have strong hidden units; the states in which only one of them is on are a phase with a mass that was
drawn, from 0.05 to 0.95. ``make(kind, seed)`` gives a machine, and ``rows(machine, seed)`` data: exact draws for odd
seeds, otherwise states of a single mode. The ``DEEP`` kinds have three or four layers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

import harmonium as hm
from harmonium.machines import enumeration

U = hm.units
Machine = TypeVar("Machine", bound=hm.BoltzmannMachine)


def built(visible: U.Unit, hidden: U.Unit, W: np.ndarray, b: np.ndarray, c: np.ndarray) -> hm.RBM:
    """A machine in double precision with weights W (visible, hidden) and biases b, c."""
    machine = hm.RBM(visible, hidden).double()
    with torch.no_grad():
        machine.coupling.weight.copy_(torch.as_tensor(W).reshape(machine.coupling.weight.shape))
        for unit, bias in ((machine.visible, b), (machine.hidden, c)):
            unit.shift_bias(torch.as_tensor(bias, dtype=torch.float64).reshape(unit.shape) - unit.bias)
    return machine


def hidden_states(machine: hm.BoltzmannMachine) -> tuple[Tensor, Tensor]:
    """Every state of the first hidden layer (states, hidden), with its unnormalized log-probability."""
    parts = [(state[1].flatten(1), log_p) for state, log_p in enumeration.chunks(machine, 1)]
    return torch.cat([h for h, _ in parts]), torch.cat([log_p for _, log_p in parts])


@torch.no_grad()
def balanced(machine: Machine, strong: list[int], rng: Generator) -> Machine:
    """Shift the biases of ``strong`` units of the first hidden layer so that "only unit j is on" has a random mass."""
    h, log_p = hidden_states(machine)
    none = (h[:, strong] == 0).all(1)
    if len(strong) == 1:
        on = rng.uniform(0.05, 0.95)
        masses = np.array([1 - on, on])
    else:
        masses = rng.dirichlet(np.ones(len(strong) + 1)).clip(0.05)
    shift = torch.zeros(machine.layer(1).size, dtype=torch.float64)
    for k, j in enumerate(strong):
        alone = (h[:, j] == 1) & (h[:, strong].sum(1) == 1)
        ratio = torch.logsumexp(log_p[alone], 0) - torch.logsumexp(log_p[none], 0)
        shift[j] = math.log(masses[k + 1] / masses[0]) - ratio
    machine.layer(1).shift_bias(shift.view(machine.layer(1).shape))
    return machine


# -- strong hidden units -----------------------------------------------------------------------------------------------


def needles(
    rng: Generator,
    number: int,
    visible: str = "bernoulli",
    n: tuple[int, int] = (18, 60),
    w: tuple[float, float] = (2.5, 5.0),
    weak: float = 0.3,
) -> hm.RBM:
    """``number`` strong hidden units beside two to five weak ones."""
    size, k = int(rng.integers(*n)), int(rng.integers(2, 6))
    strength = rng.uniform(*w, number)
    unit: U.Unit = U.Bernoulli(size)
    if visible == "potts":
        sites, q = size // 2, 4
        pattern = np.eye(q)[rng.integers(0, q, (number, sites))].reshape(number, sites * q)
        unit, size = U.Potts((sites, q)), sites * q
    elif visible == "gaussian":
        size = int(rng.integers(5, 20))
        pattern = rng.normal(0, 1, (number, size))
        pattern *= rng.uniform(7, 14, (number, 1)) / np.linalg.norm(pattern, axis=1, keepdims=True)
        strength, unit = np.ones(number), U.Gaussian(size)
    elif visible == "spin":
        pattern, unit = rng.choice([-0.5, 0.5], (number, size)), U.Spin(size)
    else:
        pattern = rng.choice([-1.0, 1.0], (number, size))
    W = np.c_[(strength[:, None] * pattern).T, rng.normal(0, weak, (size, k))]
    b = rng.normal(0, 0.3, size)
    machine = built(unit, U.Bernoulli(number + k), W, b, rng.normal(0, 0.5, number + k))
    return balanced(machine, list(range(number)), rng)


def needle1(rng: Generator) -> hm.RBM:
    return needles(rng, 1)


def needle2(rng: Generator) -> hm.RBM:
    return needles(rng, 2)


def needle3(rng: Generator) -> hm.RBM:
    return needles(rng, 3)


def needle_spin(rng: Generator) -> hm.RBM:
    return needles(rng, int(rng.integers(1, 3)), "spin")


def needle_potts(rng: Generator) -> hm.RBM:
    return needles(rng, int(rng.integers(1, 3)), "potts")


def needle_gauss(rng: Generator) -> hm.RBM:
    return needles(rng, int(rng.integers(1, 3)), "gaussian")


def needle_wide(rng: Generator) -> hm.RBM:
    """One strong unit in a strongly coupled background."""
    return needles(rng, 1, n=(24, 50), w=(3.0, 5.0), weak=rng.uniform(0.8, 1.5))


def twophase(rng: Generator) -> hm.RBM:
    return needles(rng, 1, n=(20, 100), w=(0.6, 1.6), weak=0.15)


def pairs(rng: Generator) -> hm.RBM:
    """Two strong units that matter only together: each alone has little mass."""
    n, k = int(rng.integers(24, 50)), int(rng.integers(2, 5))
    pattern, w = rng.choice([-1.0, 1.0], n), rng.uniform(1.5, 3.0)
    W = np.c_[w * pattern, w * pattern * (rng.random(n) < 0.9), rng.normal(0, 0.3, (n, k))]
    machine = built(U.Bernoulli(n), U.Bernoulli(2 + k), W, np.zeros(n), np.zeros(2 + k))
    h, log_p = hidden_states(machine)
    none, both = (torch.logsumexp(log_p[h[:, :2].sum(1) == j], 0).item() for j in (0, 2))
    on = rng.uniform(0.05, 0.95)
    shift = torch.zeros(2 + k, dtype=torch.float64)
    shift[:2] = (math.log(on / (1 - on)) - both + none) / 2
    machine.hidden.shift_bias(shift)
    return machine


def needle_large(rng: Generator) -> hm.RBM:
    return needles(rng, int(rng.integers(1, 4)), n=(150, 400), w=(0.6, 3.0), weak=0.1)


def many_needles(rng: Generator) -> hm.RBM:
    return needles(rng, int(rng.integers(5, 9)), n=(24, 70))


# -- patterns and glasses ----------------------------------------------------------------------------------------------


def deepclusters(rng: Generator) -> hm.RBM:
    """Clusters with deep wells: every unit of four to eight is strong."""
    n, k = int(rng.integers(14, 30)), int(rng.integers(4, 9))
    pattern, w = rng.choice([-1.0, 1.0], (k, n)), rng.uniform(2.5, 4.5)
    c = -np.log1p(np.exp(w * pattern)).sum(1) + n * math.log(2) + rng.uniform(-1, 3, k)
    return built(U.Bernoulli(n), U.Bernoulli(k), (w * pattern).T, np.zeros(n), c)


def planted(rng: Generator) -> hm.RBM:
    n, k = int(rng.integers(30, 60)), int(rng.integers(5, 10))
    W = rng.choice([-1.0, 1.0], (n, k)) * rng.uniform(0.6, 0.9, (1, k))
    return built(U.Bernoulli(n), U.Bernoulli(k), W, -W.sum(1) / 2, -W.sum(0) / 2 - 3 * np.abs(rng.normal(size=k)))


def hopfield(rng: Generator) -> hm.RBM:
    n, k = int(rng.integers(12, 16)), int(rng.integers(2, 6))
    W = math.sqrt(rng.uniform(1.2, 3) / n) * rng.choice([-1.0, 1.0], (n, k))
    return built(U.Spin(n), U.Gaussian(k, learn=("bias",)), W, rng.normal(0, 0.05, n), np.zeros(k))


def glass(rng: Generator) -> hm.RBM:
    n, k = int(rng.integers(14, 30)), int(rng.integers(8, 14))
    W = rng.normal(0, rng.uniform(0.5, 1.4), (n, k))
    return built(U.Spin(n), U.Spin(k), W, rng.normal(0, 0.2, n), rng.normal(0, 0.2, k))


def frustrated(rng: Generator) -> hm.RBM:
    n, k = int(rng.integers(18, 40)), int(rng.integers(8, 11))
    W = rng.normal(0, rng.uniform(1.5, 4), (n, k))
    b, c = rng.normal(0, 1.5, n) - W.sum(1) / 2, rng.normal(0, 1, k) - W.sum(0) / 2
    return built(U.Bernoulli(n), U.Bernoulli(k), W, b, c)


def wells(rng: Generator) -> hm.RBM:
    """Two wells of a ferromagnet with different masses."""
    n, k = int(rng.integers(16, 40)), int(rng.integers(3, 8))
    J = rng.uniform(1.2, 3.5) / math.sqrt(n * k)
    W = J + rng.normal(0, 0.02, (n, k))
    return built(U.Spin(n), U.Spin(k), W, np.full(n, rng.normal(0, 1.0) / n), np.zeros(k))


def two_wells(rng: Generator) -> hm.RBM:
    n, m, w = int(rng.integers(18, 30)), int(rng.integers(4, 8)), rng.uniform(0.9, 1.4)
    b = np.full(n, -w * m / 2) + rng.normal() * 0.06 + 0.02 * rng.normal(size=n)
    return built(U.Bernoulli(n), U.Bernoulli(m), np.full((n, m), w), b, np.full(m, -w * n / 2))


def bam(rng: Generator) -> hm.RBM:
    """Hebbian couplings of pairs of random patterns: every receptive field is a mixture of the patterns."""
    n, k, p = int(rng.integers(16, 40)), int(rng.integers(7, 13)), int(rng.integers(2, 6))
    below, above = rng.choice([-1.0, 1.0], (n, p)), rng.choice([-1.0, 1.0], (p, k))
    W = rng.uniform(1.2, 3.0) / math.sqrt(n * k) * below @ above
    return built(U.Spin(n), U.Spin(k), W, rng.normal(0, 0.1, n), rng.normal(0, 0.1, k))


def glass_hard(rng: Generator) -> hm.RBM:
    n, k = int(rng.integers(30, 50)), int(rng.integers(14, 17))
    W = rng.normal(0, rng.uniform(0.8, 2.0), (n, k))
    return built(U.Spin(n), U.Spin(k), W, rng.normal(0, 0.2, n), rng.normal(0, 0.2, k))


def combos(rng: Generator) -> hm.RBM:
    """Random patterns of moderate strength; the biases are such that no unit is on with a probability of 5 to 60 %."""
    n, k = int(rng.integers(20, 60)), int(rng.integers(4, 9))
    W = rng.uniform(1.0, 2.2) * rng.choice([-1.0, 1.0], (n, k))
    machine = built(U.Bernoulli(n), U.Bernoulli(k), W, np.zeros(n), rng.normal(0, 1, k))
    off = rng.uniform(0.05, 0.6)
    low, high = -200.0, 200.0  # a shift of all hidden biases
    h, log_p = hidden_states(machine)
    on = h.sum(1)
    for _ in range(50):
        middle = (low + high) / 2
        share = (log_p + middle * on)[on == 0].item() - torch.logsumexp(log_p + middle * on, 0).item()
        low, high = (middle, high) if share > math.log(off) else (low, middle)
    machine.hidden.shift_bias(torch.full((k,), low, dtype=torch.float64))
    return machine


# -- other units and easy machines -------------------------------------------------------------------------------------


def gaussian(rng: Generator) -> hm.RBM:
    n, k = int(rng.integers(8, 22)), int(rng.integers(5, 10))
    W, b = rng.normal(0, 1.2, (n, k)), rng.normal(size=n)
    return built(U.Gaussian(n), U.Bernoulli(k), W, b, -(W**2).sum(0) / 2 + 3 * rng.normal(size=k) - W.T @ b)


def mixture(rng: Generator) -> hm.RBM:
    n, q = int(rng.integers(24, 50)), int(rng.integers(5, 13))
    W = rng.uniform(2, 4) * (rng.choice([0.0, 1.0], (n, q)) - 0.5)
    c = -np.log1p(np.exp(W)).sum(0) + 1.5 * rng.normal(size=q)
    return built(U.Bernoulli(n), U.Potts((1, q)), W, -W.mean(1), c)


def relu(rng: Generator) -> hm.RBM:
    n, k = int(rng.integers(10, 13)), int(rng.integers(3, 5))
    W, b = rng.normal(0, 0.7, (n, k)), rng.normal(0, 0.3, n)
    return built(U.Spin(n), U.ReLU(k, learn=("bias",)), W, b, -1 - np.abs(rng.normal(size=k)))


def weak(rng: Generator) -> hm.RBM:
    n, k = int(rng.integers(12, 40)), int(rng.integers(6, 11))
    return built(U.Bernoulli(n), U.Bernoulli(k), rng.normal(0, 0.5, (n, k)), rng.normal(0, 1, n), rng.normal(0, 1, k))


def tall(rng: Generator) -> hm.RBM:
    """Few visible units and many hidden ones."""
    n, k = int(rng.integers(10, 14)), int(rng.integers(25, 80))
    W = rng.normal(0, rng.uniform(0.4, 1.2), (n, k))
    b, c = rng.normal(0, 1, n) - W.sum(1) / 2, rng.normal(0, 1, k) - W.sum(0) / 2
    return built(U.Bernoulli(n), U.Bernoulli(k), W, b, c)


def binomial(rng: Generator) -> hm.RBM:
    n, k = int(rng.integers(10, 16)), int(rng.integers(6, 11))
    W = rng.normal(0, rng.uniform(0.5, 1.0), (n, k))
    return built(U.Binomial(n, trials=4), U.Spin(k), W, rng.normal(0, 1, n), -2 * W.sum(0))


# -- trained machines --------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _digits() -> Tensor:
    return torch.as_tensor(hm.data.load("digits", binarize="threshold")).float()


def _trained(rng: Generator, hidden: int) -> hm.RBM:
    rbm = hm.RBM(U.Bernoulli(64), U.Bernoulli(hidden))
    data = _digits()[rng.choice(len(_digits()), 600, replace=False)]
    _fit(rbm, data, int(rng.choice([5, 15, 40])), rng, hm.PCD(1))
    return rbm.double()


def _fit(
    machine: hm.BoltzmannMachine, data: Tensor, epochs: int, rng: Generator, negative: hm.training.NegativePhase
) -> None:
    hm.fit(
        machine,
        data,
        negative=negative,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.01),
        epochs=epochs,
        batch_size=50,
        seed=int(rng.integers(1 << 30)),
        progress=False,
    )


def digits(rng: Generator) -> hm.RBM:
    return _trained(rng, int(rng.integers(6, 12)))


def digits_needle(rng: Generator) -> hm.RBM:
    """A machine trained on digits, with one strong unit in addition."""
    base = _trained(rng, int(rng.integers(5, 9)))
    W = np.c_[rng.choice([-1.0, 1.0], 64) * rng.uniform(2.5, 5), base.coupling.weight.detach().numpy()]
    b, c = (unit.bias.detach().numpy() for unit in (base.visible, base.hidden))
    return balanced(built(U.Bernoulli(64), U.Bernoulli(W.shape[1]), W, b, np.r_[0, c]), [0], rng)


def bars(rng: Generator) -> hm.RBM:
    """A machine trained on bars and stripes."""
    side = int(rng.choice([3, 4]))
    bits = torch.tensor([[(i >> j) & 1 for j in range(side)] for i in range(2**side)]).float()
    data = torch.cat([bits.repeat_interleave(side, 1), bits.repeat(1, side)]).repeat(20, 1)
    rbm = hm.RBM(U.Bernoulli(side**2), U.Bernoulli(int(rng.integers(8, 20))))
    _fit(rbm, data, int(rng.choice([10, 40, 80])), rng, hm.PCD(1))
    return rbm.double()


# -- deep machines -----------------------------------------------------------------------------------------------------


@torch.no_grad()
def deep(layers: list[U.Unit], W: list[np.ndarray], biases: list[np.ndarray]) -> hm.BoltzmannMachine:
    """A deep machine in double precision with weights W and ``biases`` of all layers."""
    machine = hm.DeepBoltzmannMachine(layers).double()
    for coupling, values in zip(machine.couplings, W, strict=True):
        coupling.weight.copy_(torch.as_tensor(values))
    for unit, bias in zip(machine.layers, biases, strict=True):
        unit.shift_bias(torch.as_tensor(bias, dtype=torch.float64) - unit.bias)
    return machine


@torch.no_grad()
def balanced_top(machine: hm.BoltzmannMachine, rng: Generator) -> hm.BoltzmannMachine:
    """Shift the bias of the first unit of the last layer so that it is on with a random probability."""
    unit, on = machine.layers[-1], rng.uniform(0.05, 0.95)
    first = torch.zeros(unit.shape, dtype=torch.float64)
    first[0] = 1
    both = machine.log_partition()
    unit.shift_bias(-1000 * first)
    off = machine.log_partition()
    ratio = both + math.log1p(-math.exp(off - both)) - off
    unit.shift_bias((1000 + math.log(on / (1 - on)) - ratio) * first)
    return machine


def deep_needle(rng: Generator) -> hm.BoltzmannMachine:
    """A strong unit in the first hidden layer, and weak units in the second."""
    below, k = needles(rng, 1), int(rng.integers(2, 5))
    size = below.hidden.size
    layers = [below.visible, below.hidden, U.Bernoulli(k)]
    W = [below.coupling.weight.detach().numpy(), rng.normal(0, 0.5, (size, k))]
    biases = [below.visible.bias.detach().numpy(), below.hidden.bias.detach().numpy(), rng.normal(0, 0.5, k)]
    return balanced(deep(layers, W, biases), [0], rng)


def deep_top(rng: Generator) -> hm.BoltzmannMachine:
    """A strong unit in the second hidden layer, which determines the first and thereby the visible units."""
    n, m, k = int(rng.integers(16, 50)), int(rng.integers(8, 13)), int(rng.integers(2, 5))
    pattern = np.c_[rng.uniform(4, 8) * rng.choice([-1.0, 1.0], m), rng.normal(0, 0.3, (m, k))]
    W = [rng.normal(0, rng.uniform(0.8, 1.6), (n, m)), pattern]
    biases = [rng.normal(0, 0.3, n) - W[0].sum(1) / 2, rng.normal(0, 0.3, m) - W[0].sum(0) / 2, np.zeros(k + 1)]
    return balanced_top(deep([U.Bernoulli(n), U.Bernoulli(m), U.Bernoulli(k + 1)], W, biases), rng)


def deep_clusters(rng: Generator) -> hm.BoltzmannMachine:
    """Clusters with deep wells; the units of the second hidden layer favor groups of them."""
    below, k = deepclusters(rng), int(rng.integers(3, 6))
    m = below.hidden.size
    W = [below.coupling.weight.detach().numpy(), rng.uniform(1, 3) * rng.choice([-1.0, 1.0], (m, k))]
    hidden = below.hidden.bias.detach().numpy() - W[1].sum(1) / 2
    biases = [below.visible.bias.detach().numpy(), hidden, rng.normal(0, 0.5, k) - W[1].sum(0) / 4]
    return deep([below.visible, below.hidden, U.Bernoulli(k)], W, biases)


def deep_glass(rng: Generator) -> hm.BoltzmannMachine:
    sizes = [int(rng.integers(14, 30)), int(rng.integers(8, 13)), int(rng.integers(6, 12))]
    W = [rng.normal(0, rng.uniform(0.3, 1.0), shape) for shape in pairwise(sizes)]
    return deep([U.Spin(size) for size in sizes], W, [rng.normal(0, 0.2, size) for size in sizes])


def deep_tower(rng: Generator) -> hm.BoltzmannMachine:
    """Four layers of random weights."""
    sizes = [int(rng.integers(14, 40)), int(rng.integers(6, 9)), int(rng.integers(6, 9)), int(rng.integers(3, 6))]
    W = [rng.normal(0, rng.uniform(0.5, 2.0), shape) for shape in pairwise(sizes)]
    biases = [rng.normal(0, 0.5, size) for size in sizes]
    for k, weight in enumerate(W):
        biases[k] -= weight.sum(1) / 2
        biases[k + 1] -= weight.sum(0) / 2
    return deep([U.Bernoulli(size) for size in sizes], W, biases)


def deep_digits(rng: Generator) -> hm.BoltzmannMachine:
    """A machine with three layers trained on digits."""
    sizes = 64, int(rng.integers(8, 13)), int(rng.integers(4, 9))
    machine = hm.DeepBoltzmannMachine([U.Bernoulli(size) for size in sizes])
    data = _digits()[rng.choice(len(_digits()), 600, replace=False)]
    _fit(machine, data, int(rng.choice([5, 15, 40])), rng, hm.DeepPCD(positive="gibbs", iterations=1))
    return machine.double()


PHASES: dict[str, Callable[[Generator], hm.BoltzmannMachine]] = {
    kind.__name__: kind
    for kind in (
        *(needle1, needle2, needle3, needle_spin, needle_potts, needle_gauss, needle_wide, twophase, pairs),
        *(deepclusters, planted, hopfield, glass, frustrated, wells, two_wells, digits, digits_needle, gaussian),
        *(mixture, relu, weak, needle_large, combos, tall, binomial, bam, bars, many_needles, glass_hard),
    )
}
DEEP: dict[str, Callable[[Generator], hm.BoltzmannMachine]] = {
    kind.__name__: kind for kind in (deep_needle, deep_top, deep_clusters, deep_glass, deep_tower, deep_digits)
}


def make(kind: str, seed: int) -> hm.BoltzmannMachine:
    """A machine of one of ``PHASES`` or ``DEEP``."""
    kinds = {**PHASES, **DEEP}
    return kinds[kind](np.random.default_rng([list(kinds).index(kind), seed]))


@torch.no_grad()
def rows(machine: hm.BoltzmannMachine, seed: int, n: int = 50) -> Tensor:
    """Exact draws for odd seeds, otherwise states a few sweeps away from one exact draw: (n, *visible)."""
    source = torch.Generator().manual_seed(seed)
    if seed % 2:
        return enumeration.draws(machine, n, source)[0]
    state = [x.expand(n, *x.shape[1:]).clone() for x in enumeration.draws(machine, 1, source)]
    for _ in range(5):
        state = machine.sweep(state, source)
    return state[0]
