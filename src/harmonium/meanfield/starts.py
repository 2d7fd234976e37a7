"""Initial states of the mean-field iterations."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import torch
from torch import Generator, Tensor

from .. import noise
from ..checks import count
from ..errors import InvalidData, InvalidOption, NotNormalizable
from ..machines import BoltzmannMachine
from ..machines.chain import check_undirected
from ..noise import Seed
from ..units import Unit
from .layers import MeanFieldLayer
from .solutions import Solutions

Start = Any
State = tuple[list[Tensor], list[Tensor]]


def prepare(
    machine: BoltzmannMachine,
    start: Start,
    clamped: Any = None,
    *,
    quadratic: bool = True,
    seed: Seed = None,
) -> tuple[BoltzmannMachine, list[MeanFieldLayer], State]:
    """Return the machine, its layers, and the initial magnetizations and variances.

    In the returned machine, conserved quantities (such as the document length) are fixed to those of the start.

    Args:
        machine: any machine.
        start: None for one start at the uncoupled units; the number of samples of the uncoupled visible layer; visible
            states (n, *visible), which start with zero variance, Tramel et al. (2018), eqs. (36)-(37); or
            ``Solutions`` to continue from. Hidden layers start at their mean given the layer below.
        clamped: visible states (n, *visible) that stay fixed.
        quadratic: whether the method uses the quadratic term A.
        seed: seed of the random generator.
    """
    check_undirected(machine, "mean field")
    visible = _visible(machine, start, clamped, seed)
    if visible is not None:
        machine = machine.conserving(visible)
    layers = [MeanFieldLayer(unit) for unit in machine.layers]
    check(machine, quadratic, clamped is not None)
    if isinstance(start, Solutions):
        a, c = ([x.clone() for x in part] for part in (start.magnetizations, start.variances))
        if visible is not None and clamped is not None:
            a[0], c[0] = visible, torch.zeros_like(visible)
        return machine, layers, (a, c)
    zero = torch.zeros(1, *machine.visible.shape, dtype=machine.dtype, device=machine.device)
    if visible is None:
        first = machine.visible.mean(zero), machine.visible.variance(zero)
    else:
        first = visible.clone(), torch.zeros_like(visible)
    return machine, layers, upward(machine, *first)


def _visible(machine: BoltzmannMachine, start: Start, clamped: Any, seed: Seed) -> Tensor | None:
    """Return the initial visible magnetizations, or None for the uncoupled units."""
    if clamped is not None:
        if start is not None and not isinstance(start, Solutions):
            raise InvalidOption("clamped: expected start=None or Solutions, because the visible layer is fixed")
        visible = machine.as_states(clamped, missing=True)
        machine.visible.check(visible, "clamped")
    elif start is None:
        return None
    elif isinstance(start, Solutions):
        return start.magnetizations[0]
    elif isinstance(start, Integral):
        if count("start", int(start)) < 1:
            raise InvalidOption(f"start: expected at least 1, found {start}")
        generator = noise.generator(seed, machine.device)
        return machine.independent(int(start), generator)
    else:
        visible = machine.as_states(start, missing=True)
    if len(visible) == 0 or not bool(torch.isfinite(visible).all()):
        raise InvalidData(f"start: expected at least one row of finite states, found {len(visible)} rows")
    return visible


def upward(machine: BoltzmannMachine, a: Tensor, c: Tensor) -> State:
    """Return the means and variances of all layers, each hidden layer given the mean of the layer below."""
    means, variances = [a.clone()], [c.expand(a.shape).clone()]
    for unit, coupling in zip(machine.layers[1:], machine.couplings, strict=True):
        field = coupling.up(means[-1])
        means.append(unit.mean(field).clone())
        variances.append(unit.variance(field).clone())
    return means, variances


def scattered(unit: Unit, x: Tensor, most: float, generator: Generator | None) -> Tensor:
    """Return rows ``x`` (n, *shape) in which a random fraction of the units is replaced by uniform random values.

    The fraction of each row is uniform in [0, ``most``]. A replaced binary unit is flipped with probability ½, so
    ``most`` = 1 corresponds to binary symmetric channels with flip probabilities from 0 to ½.

    >>> from harmonium.units import Spin
    >>> scattered(Spin(8), torch.ones(2, 8), 1.0, torch.Generator().manual_seed(1))
    tensor([[ 1., -1.,  1.,  1.,  1.,  1.,  1., -1.],
            [ 1.,  1., -1.,  1.,  1.,  1.,  1.,  1.]])
    """
    share = most * torch.rand(len(x), 1, dtype=x.dtype, device=x.device, generator=generator)
    parts = []
    for part, rows in zip(unit.parts, x.flatten(1).split([part.size for part in unit.parts], 1), strict=True):
        values = part.support.states()
        if values is None:
            raise InvalidOption(f"noise: expected units with finitely many values, found {part.name()}")
        index = torch.randint(len(values), (len(x), part.sites), device=x.device, generator=generator)
        any_value = values.to(x)[index].flatten(1)
        taken = torch.rand(index.shape, dtype=x.dtype, device=x.device, generator=generator) < share
        parts.append(torch.where(taken.repeat_interleave(part.size // part.sites, 1), any_value, rows))
    return torch.cat(parts, 1).view_as(x)


def check(machine: BoltzmannMachine, quadratic: bool, clamped: bool) -> None:
    """Raise if the partition function of the machine diverges or the method is not defined for a unit."""
    free = machine.layers[1:] if clamped else machine.layers
    if not clamped:
        machine.check_normalizable()
    if not quadratic:
        return
    for unit in free:
        if bool(unit.tail().factorial.any()):
            raise NotNormalizable(
                f"{unit.name()}: this mean field multiplies the weight of a unit by e^(Bx - Ax²/2) with A < 0, which "
                "grows faster than the tail 1/x! decays, so it is not defined for these units; use naive mean field"
            )
