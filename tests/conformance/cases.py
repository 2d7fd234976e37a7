"""The cases of the conformance suite. A new unit, coupling, machine, sampler or negative phase adds one entry here.

Every unit case defines, independently of the code of the unit, its states (``sites``: quadrature or enumeration of one
site) and how its weight decays at infinity, which determines the pairs with a finite partition function.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

import harmonium as hm
from harmonium import units
from harmonium.couplings import Conv2d, Coupling, Dense, Masked
from harmonium.testing.nodes import F64, Nodes, line, product, segment, states, union
from harmonium.testing.oracle import State
from harmonium.training.gradient import Gradient
from harmonium.training.negative import (
    CD,
    PCD,
    Batch,
    DeepPCD,
    Discriminative,
    Exact,
    GibbsLangevin,
    Langevin,
    MeanField,
    NegativePhase,
    ParallelTempering,
    Reconstruction,
    TrajectoryTempering,
    UnbiasedCD,
    WeightedSum,
)


def generator(*names: object) -> Generator:
    """A separate random stream for every combination of names."""
    return Generator().manual_seed(zlib.crc32("/".join(map(str, names)).encode()))


# -- where the states of one unit are ---------------------------------------------------------------------------


def compositions(total: int, size: int) -> list[tuple[int, ...]]:
    grid = np.indices((total + 1,) * size).reshape(size, -1).T
    return [tuple(row) for row in grid.tolist() if sum(row) == total]


# -- units ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnitCase:
    """``build(shape, generator)`` gives a layer of sites of that shape; ``site`` the states of one of them."""

    build: Callable[[tuple[int, ...], Generator], units.Unit]
    site: Nodes
    tail: str = "bounded"  # or "gaussian", "half-gaussian", "factorial"

    def nodes(self, unit: units.Unit) -> Nodes:
        """The states of the whole layer: (m, *unit.shape) and (m,)."""
        points, weights = product(*[self.site] * (unit.size // self.site[0][0].numel()))
        return points.reshape(-1, *unit.shape), weights


def layer(kind: Any, ranges: dict[str, tuple[float, float]], event: tuple[int, ...] = (), **options: Any) -> Any:
    """A builder of layers with natural parameters drawn uniformly from their ranges, all of them learned."""

    def build(shape: tuple[int, ...], source: Generator) -> units.Unit:
        full = (*shape, *event)
        stored = tuple(1 if k in options.get("shared", ()) else n for k, n in enumerate(full))
        drawn = {
            name: low + (high - low) * torch.rand(stored, generator=source, dtype=F64)
            for name, (low, high) in ranges.items()
        }
        return kind(full, learn=kind.naturals, **drawn, **options)

    return build


def mixed(*parts: Callable[[tuple[int, ...], Generator], units.Unit]) -> Any:
    """A builder of mixed layers; for each site, one unit of every part."""

    def build(shape: tuple[int, ...], source: Generator) -> units.Unit:
        return units.Mixed(*(part((1,), source) for _ in range(math.prod(shape)) for part in parts))

    return build


def categories(*states: int) -> Any:
    """A builder of ragged one-hot layers; for each site, one unit with each of these numbers of states."""

    def build(shape: tuple[int, ...], source: Generator) -> units.Unit:
        many = states * math.prod(shape)
        return units.Categories(many, bias=0.3 + 0.5 * torch.rand(sum(many), generator=source, dtype=F64))

    return build


BIAS = {"bias": (0.3, 0.8)}  # not zero, to detect a sampler that ignores it
PRECISE = {**BIAS, "precision": (1.0, 1.6)}
THRESHOLDS = (-1.0, 0.2, 1.5)

_bernoulli = layer(units.Bernoulli, BIAS)
_gaussian = layer(units.Gaussian, PRECISE)
_potts = layer(units.Potts, BIAS, event=(3,))

UNITS: dict[str, UnitCase] = {
    "bernoulli": UnitCase(_bernoulli, states([0, 1])),
    "bernoulli-shared": UnitCase(layer(units.Bernoulli, BIAS, shared=(0,)), states([0, 1])),
    "spin": UnitCase(layer(units.Spin, BIAS), states([-1, 1])),
    "binomial": UnitCase(layer(units.Binomial, BIAS, trials=3), states([0, 1, 2, 3])),
    "gaussian": UnitCase(_gaussian, line(), tail="gaussian"),
    "relu": UnitCase(layer(units.ReLU, PRECISE), segment(0.0, 12.0, 60), tail="half-gaussian"),
    "double-relu": UnitCase(
        layer(
            units.DoubleReLU,
            {**BIAS, "tilt": (-0.4, 0.4), "precision_plus": (1.0, 1.4), "precision_minus": (1.2, 1.8)},
        ),
        union(segment(-12.0, 0.0, 44), segment(0.0, 12.0, 44)),
        tail="gaussian",
    ),
    "poisson": UnitCase(layer(units.Poisson, {"bias": (-0.8, -0.3)}), states(range(45)), tail="factorial"),
    "potts": UnitCase(_potts, states(torch.eye(3))),
    "categories": UnitCase(categories(2, 3), product(states(torch.eye(2)), states(torch.eye(3)))),
    "at-most-one": UnitCase(
        layer(units.AtMostOne, {"bias": (-1.2, -0.4)}, event=(4,)), states([[0.0] * 4, *torch.eye(4).tolist()])
    ),
    "ratings": UnitCase(layer(units.Ratings, BIAS, event=(3,), complete=True), states(torch.eye(3))),
    "multinomial": UnitCase(layer(units.Multinomial, BIAS, event=(3,), total=2), states(compositions(2, 3))),
    "truncated-gaussian": UnitCase(
        layer(units.TruncatedGaussian, {**BIAS, "precision": (-1.0, 3.0)}, low=-0.5, high=1.5), segment(-0.5, 1.5, 20)
    ),
    "truncated-gauss-bernoulli": UnitCase(
        layer(
            units.TruncatedGaussBernoulli,
            {**BIAS, "precision": (-1.0, 3.0), "rho": (0.3, 0.7)},
            low=-0.5,
            high=1.5,
        ),
        union(states([0.0]), segment(-0.5, 1.5, 20)),
    ),
    "multinary": UnitCase(layer(units.Multinary, BIAS, levels=3, offsets=THRESHOLDS), states([0, 1, 2, 3])),
    "multinary-integral": UnitCase(
        layer(units.Multinary, BIAS, levels=2, scale=0.5, form="integral"), states([0, 0.5, 1, 1.5, 2])
    ),
    "mixed": UnitCase(mixed(_bernoulli, _potts), product(states([0, 1]), states(torch.eye(3)))),
    "mixed-unbounded": UnitCase(mixed(_bernoulli, _gaussian), product(states([0, 1]), line()), tail="gaussian"),
}

#: the sign of the weights with which two unbounded units have a finite partition function; "any" within a bound
_SIGNS = {
    frozenset({"factorial"}): "negative",
    frozenset({"factorial", "half-gaussian"}): "negative",
    frozenset({"factorial", "gaussian"}): "none",
}


def sign(visible: str, hidden: str) -> str:
    """Which weights a pair allows: "any" (small enough), "negative" or "none"."""
    return _SIGNS.get(frozenset({UNITS[visible].tail, UNITS[hidden].tail}), "any")


ALL_PAIRS = [(visible, hidden) for visible in UNITS for hidden in UNITS]
PAIRS = [pair for pair in ALL_PAIRS if sign(*pair) != "none"]
REFUSED = [pair for pair in ALL_PAIRS if sign(*pair) != "any"]
#: one unit for each kind of tail and shape of a site; a pair of two others differs in nothing that both were not
#: tested with
PARTNERS = ("bernoulli", "gaussian", "relu", "potts")
#: the pairs of `make test`: every unit with itself and with each partner, in both layers; `make conformance` has all
EVERY_PAIR = os.environ.get("CONFORMANCE") == "all"
TESTED = [
    (visible, hidden)
    for visible, hidden in PAIRS
    if EVERY_PAIR or visible == hidden or visible in PARTNERS or hidden in PARTNERS
]
FINITE = [name for name, case in UNITS.items() if case.build((1,), generator()).cardinality is not None]


def id_of(pair: tuple[str, ...]) -> str:
    return "-".join(pair)


# -- couplings --------------------------------------------------------------------------------------------------


def weights(shape: Sequence[int], source: Generator, sign: str = "any") -> Tensor:
    """Sizes between 0.2 and 0.4: strong enough to be seen, within the spectral bound of one or two Gaussian units."""
    size = 0.2 + 0.2 * torch.rand(*shape, generator=source, dtype=F64)
    flip = 2.0 * torch.randint(2, tuple(shape), generator=source) - 1
    return size * {"any": flip, "negative": -1.0, "positive": 1.0}[sign]


def _dense(lower: tuple[int, ...], upper: tuple[int, ...], source: Generator, sign: str) -> Coupling:
    return Dense(lower, upper, weights((math.prod(lower), math.prod(upper)), source, sign))


def _masked(lower: tuple[int, ...], upper: tuple[int, ...], source: Generator, sign: str) -> Coupling:
    shape = (math.prod(lower), math.prod(upper))
    mask = torch.arange(shape[0])[:, None] % 2 != torch.arange(shape[1])[None, :] % 3
    return Masked(lower, upper, weights(shape, source, sign), mask=mask)


def _conv2d(lower: tuple[int, ...], upper: tuple[int, ...], source: Generator, sign: str) -> Coupling:
    weight = weights((upper[0], lower[0], 2, 2), source, sign)
    return Conv2d(lower, upper, kernel=2, pool=1 if len(upper) == 3 else 2, weight=weight)


COUPLINGS: dict[str, Callable[[tuple[int, ...], tuple[int, ...], Generator, str], Coupling]] = {
    "dense": _dense,
    "masked": _masked,
    "conv2d": _conv2d,
}


# -- machines ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MachineCase:
    """A machine of layers (unit, shape of sites) with a coupling of the given kind between neighbors."""

    kind: Any
    layers: tuple[tuple[str, tuple[int, ...]], ...]
    coupling: str = "dense"
    sign: str = "any"

    def build(self) -> hm.BoltzmannMachine:
        source = generator(self)
        parts = [UNITS[name].build(shape, source) for name, shape in self.layers]
        make = COUPLINGS[self.coupling]
        links = [make(tuple(a.shape), tuple(b.shape), source, self.sign) for a, b in pairwise(parts)]
        return self.kind(*parts, *links) if self.kind is hm.RBM else self.kind(parts, links)

    def nodes(self, machine: hm.BoltzmannMachine) -> list[Nodes]:
        return [UNITS[name].nodes(unit) for (name, _), unit in zip(self.layers, machine.layers, strict=True)]


def rbm(visible: str, hidden: str, sites: tuple[int, int] = (2, 1), sign_of_weights: str | None = None) -> MachineCase:
    """The machine of a pair of units."""
    chosen = sign(visible, hidden) if sign_of_weights is None else sign_of_weights
    return MachineCase(hm.RBM, ((visible, sites[:1]), (hidden, sites[1:])), sign=chosen)


MACHINES: dict[str, MachineCase] = {
    "rbm": rbm("bernoulli", "bernoulli", (4, 3)),
    "rbm-masked": MachineCase(hm.RBM, (("spin", (4,)), ("bernoulli", (3,))), "masked"),
    "rbm-conv2d": MachineCase(hm.RBM, (("bernoulli", (1, 3, 3)), ("spin", (1, 2, 2))), "conv2d"),
    "rbm-shared": MachineCase(hm.RBM, (("bernoulli", (1, 3, 3)), ("bernoulli-shared", (2, 2, 2))), "conv2d"),
    "rbm-pooled": MachineCase(hm.RBM, (("bernoulli", (1, 3, 3)), ("at-most-one", (2, 1, 1))), "conv2d"),
    "chain": MachineCase(hm.BoltzmannMachine, (("potts", (2,)), ("bernoulli", (3,)))),
    "deep": MachineCase(hm.DeepBoltzmannMachine, (("bernoulli", (3,)), ("bernoulli", (2,)), ("bernoulli", (2,)))),
    "deep-units": MachineCase(hm.DeepBoltzmannMachine, (("spin", (2,)), ("gaussian", (1,)), ("potts", (1,)))),
    "deep-relu": MachineCase(hm.DeepBoltzmannMachine, (("truncated-gaussian", (1,)), ("spin", (2,)), ("relu", (1,)))),
    "deep-four": MachineCase(
        hm.DeepBoltzmannMachine, (("bernoulli", (2,)), ("spin", (2,)), ("binomial", (1,)), ("multinomial", (1,)))
    ),
    "deep-masked": MachineCase(
        hm.DeepBoltzmannMachine, (("bernoulli", (3,)), ("spin", (2,)), ("bernoulli", (2,))), "masked"
    ),
}


# -- samplers ---------------------------------------------------------------------------------------------------


def _sweeps(machine: hm.BoltzmannMachine, state: State, steps: int, source: Generator) -> State:
    for _ in range(steps):
        state = machine.sweep(state, source)
    return state


def _phase(phase: CD | PCD, machine: hm.BoltzmannMachine, state: State, source: Generator) -> State:
    phase = phase.resolved(len(state[0]))
    with torch.no_grad():
        begun = phase.init(machine, state[0], source)
        gradient, after = phase.step(machine, Batch(state[0]), begun, source)
    sample = gradient.loss.__self__  # type: ignore[union-attr]
    return [sample.model.clone(), after["h"] if "h" in after else sample.hidden.clone()]


@dataclass(frozen=True)
class SamplerCase:
    """``run(machine, state, steps, generator)`` updates every chain of ``state``; the distribution is invariant."""

    run: Callable[[hm.BoltzmannMachine, State, int, Generator], State]
    deep: bool = True  # whether it supports machines with more than two layers


SAMPLERS: dict[str, SamplerCase] = {
    "sweep": SamplerCase(_sweeps),
    "cd": SamplerCase(lambda machine, state, steps, g: _phase(CD(steps), machine, state, g), deep=False),
    "pcd": SamplerCase(lambda machine, state, steps, g: _phase(PCD(steps), machine, state, g), deep=False),
}


# -- negative phases --------------------------------------------------------------------------------------------


def _own_loss(machine: hm.RBM, gradient: Gradient, data: Tensor) -> Tensor:
    """The loss at the states or fixed points that the phase has used."""
    assert gradient.loss is not None
    return gradient.loss()


def _reconstruction_loss(machine: hm.RBM, gradient: Gradient, data: Tensor) -> Tensor:
    again = machine.reconstruct(machine.reconstruct(data))
    return hm.losses.contrastive(machine, data, again)


def _exact_loss(machine: hm.RBM, gradient: Gradient, data: Tensor) -> Tensor:
    if machine.visible.cardinality is not None:
        log_z = torch.logsumexp(-machine.free_energy(machine.visible.enumerate()), 0)
    else:
        log_z = torch.logsumexp(-machine.hidden_free_energy(machine.hidden.enumerate()), 0)
    return machine.free_energy(data).mean() + log_z


def _discriminative_loss(machine: hm.RBM, gradient: Gradient, data: Tensor) -> Tensor:
    """-ln p(label | features); the label is the last Potts unit of the mixed layer."""
    label = torch.eye(3, dtype=data.dtype)
    every = [machine.free_energy(torch.cat([data[:, :-3], state.expand(len(data), 3)], 1)) for state in label]
    return (machine.free_energy(data) + torch.logsumexp(-torch.stack(every), 0)).mean()


def step(
    phase: NegativePhase, machine: hm.RBM, data: Tensor, source: Generator, context: Tensor | None = None
) -> Gradient:
    """The gradient of one step, also in ``.grad``; its loss is that at the states of this step."""
    phase = phase.resolved(len(data))
    with torch.no_grad():
        gradient, _ = phase.step(machine, Batch(data, context), phase.init(machine, data, source), source)
        gradient.write()
    return gradient


@dataclass(frozen=True)
class PhaseCase:
    """A negative phase, and its loss ⟨F⟩_data - F_model for comparison with autograd."""

    build: Callable[[], NegativePhase]
    loss: Callable[[hm.RBM, Gradient, Tensor], Tensor]
    enumerates: bool = False  # whether one of the two layers must have finitely many states
    slow: bool = False  # test each unit with one other type only
    without: tuple[str, ...] = ()  # units for which the phase is not defined
    visible: tuple[str, ...] = ()  # visible units for which it is defined; empty: any

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of units on which the phase is tested."""
        few = [pair for pair in PAIRS if pair[0] == "spin" or pair[1] == "binomial"]
        chosen = few if self.slow else TESTED
        chosen = [pair for pair in chosen if not self.enumerates or set(pair) & set(FINITE)]
        chosen = [pair for pair in chosen if not set(pair) & set(self.without)]
        return [pair for pair in chosen if not self.visible or pair[0] in self.visible]


SOFTMAX = ("potts", "categories", "at-most-one", "ratings", "multinomial", "mixed")  # with correlated components

PHASES: dict[str, PhaseCase] = {
    "cd": PhaseCase(lambda: CD(2), _own_loss),
    "pcd": PhaseCase(lambda: PCD(1, chains=5), _own_loss),
    "reconstruction": PhaseCase(lambda: Reconstruction(2), _reconstruction_loss),
    "parallel-tempering": PhaseCase(lambda: ParallelTempering(1, rungs=3, chains=5), _own_loss, slow=True),
    "trajectory-tempering": PhaseCase(lambda: TrajectoryTempering(1, chains=5), _own_loss, slow=True),
    "unbiased-cd": PhaseCase(lambda: UnbiasedCD(1), _own_loss, slow=True, visible=tuple(FINITE)),
    "deep-pcd": PhaseCase(lambda: DeepPCD(1, chains=5), _own_loss, slow=True),
    "langevin": PhaseCase(lambda: Langevin(2, chains=5), _own_loss, visible=("gaussian", "double-relu")),
    "gibbs-langevin": PhaseCase(
        lambda: GibbsLangevin(1, steps=2, chains=5), _own_loss, visible=("gaussian", "double-relu")
    ),
    "discriminative": PhaseCase(Discriminative, _discriminative_loss, visible=("mixed",)),
    "hybrid": PhaseCase(lambda: WeightedSum([(1.0, Discriminative()), (0.3, CD(1))]), _own_loss, visible=("mixed",)),
    "exact": PhaseCase(Exact, _exact_loss, enumerates=True),
    "naive": PhaseCase(lambda: MeanField(3, method="naive", starts=5), _own_loss, slow=True),
    "tap": PhaseCase(lambda: MeanField(3, starts=5), _own_loss, without=("poisson",)),
    "adatap": PhaseCase(
        lambda: MeanField(3, method="adatap", starts=5), _own_loss, slow=True, without=("poisson", *SOFTMAX)
    ),
    "bp": PhaseCase(lambda: MeanField(3, method="bp", starts=5), _own_loss, slow=True, without=("poisson", *SOFTMAX)),
    "bp-exact": PhaseCase(
        lambda: MeanField(3, method="bp-exact", starts=5),
        _own_loss,
        slow=True,
        without=("mixed", "categories", *(name for name in UNITS if name not in FINITE)),
    ),
}
