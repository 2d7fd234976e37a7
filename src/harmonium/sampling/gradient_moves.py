"""Langevin and Gibbs–Langevin sampling of machines with real-valued visible units (Liao et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, Unpack, cast

import torch
from torch import Generator, Tensor

from .. import noise
from ..checks import count
from ..errors import InvalidOption
from ..machines import RBM
from ..machines.chain import ArrayLike, BoltzmannMachine
from ..noise import Seed
from ..shown import brief
from ..signatures import forwards
from ..units.support import real

Random = Generator | None
LogDensity = Callable[[Tensor], Tensor]
Move = Callable[[RBM, Tensor, Generator | None], tuple[Tensor, Tensor]]


@brief
@dataclass(frozen=True)
class Moved:
    """Samples, and the acceptance rate of the Metropolis steps (1 without them).

    Attributes:
        samples: visible states (n, *visible).
        acceptance: the share of accepted proposals, over all steps.
    """

    samples: Tensor
    acceptance: float


class Chains(TypedDict, total=False):
    """Keyword arguments of all samplers: initial states and randomness."""

    start: ArrayLike | None
    seed: Seed


@torch.no_grad()
def _begin(machine: RBM, n: int | None, *, start: ArrayLike | None = None, seed: Seed = None) -> tuple[Tensor, Random]:
    """Return the initial visible states (n, *visible) and the random generator."""
    machine.check_normalizable()
    generator = noise.generator(seed, machine.device)
    if start is None:
        return machine.independent(100 if n is None else n, generator), generator
    return machine.checked_states(start, "start", n), generator


@torch.no_grad()
def _sampled(machine: RBM, move: Move, repeats: int, n: int | None, chains: Chains) -> Moved:
    """Begin ``n`` chains, and apply a move to all of them, ``repeats`` times."""
    if count("repeats", repeats) < 1 or (n is not None and count("n", n) < 1):
        raise InvalidOption(f"expected at least one sweep or step and n ≥ 1, found {repeats} and n={n}")
    v, generator = _begin(machine, n, **chains)
    total = torch.zeros((), dtype=torch.float64, device=v.device)
    for _ in range(repeats):
        v, rate = move(machine, v, generator)
        total += rate
    return Moved(v, cast("float", (total / repeats).item()))


@forwards(_begin)
def langevin(
    machine: RBM,
    n: int | None = None,
    *,
    steps: int = 1000,
    step_size: float | None = None,
    adjusted: bool = True,
    **chains: Unpack[Chains],
) -> Moved:
    """Draw ``n`` samples by Langevin steps on the free energy F(v), with the hidden layer summed out.

    A step proposes v' = v - ε s² ∇F(v) + √(2ε) s ξ, where s is the standard deviation of each unit without couplings
    and ξ is normal noise. A Metropolis step accepts v' or keeps v, row by row: p(v) is invariant for every ε. Without
    it (``adjusted=False``) the chains have a bias of order ε: for uncoupled Gaussian units their variance is
    1/(1 - ε/2) times too large.

    Args:
        machine: an RBM with real-valued visible units.
        n: number of samples; by default the number of rows of ``start``, or 100.
        steps: number of steps.
        step_size: ε; by default N^(-1/3) for N visible units, at which acceptance does not vanish for large N.
        adjusted: whether to apply the Metropolis step.
        start: initial visible states (m, *visible), repeated if there are fewer than ``n``.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Gaussian(4), hm.units.Bernoulli(2))
    >>> hm.sampling.langevin(rbm, 10, steps=5, seed=0).samples.shape
    torch.Size([10, 4])
    """
    check_real(machine, "langevin")
    move = partial(langevin_steps, steps=1, step_size=step_size, adjusted=adjusted)
    return _sampled(machine, move, steps, n, chains)


@forwards(_begin)
def gibbs_langevin(
    machine: RBM,
    n: int | None = None,
    *,
    sweeps: int = 1000,
    steps: int = 10,
    step_size: float = 0.2,
    adjusted: bool = True,
    **chains: Unpack[Chains],
) -> Moved:
    """Draw ``n`` samples by Gibbs–Langevin sweeps: a draw of h given v, then Langevin steps of v given h.

    The steps are those of :func:`langevin` with the conditional density p(v | h). Its units are independent, so the
    Metropolis step accepts or rejects each unit by itself, and p(v | h) is invariant for every step size; Liao et al.
    accept or reject a whole sweep. Without it, see :func:`langevin`. In the limit of many steps a sweep is a Gibbs
    sweep; with few, v moves less far.

    Args:
        machine, n, start, seed, generator: as in :func:`langevin`.
        sweeps: number of sweeps.
        steps: number of Langevin steps in a sweep.
        step_size: ε.
        adjusted: whether to apply the Metropolis steps.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Gaussian(4), hm.units.Bernoulli(2))
    >>> hm.sampling.gibbs_langevin(rbm, 10, sweeps=5, seed=0).samples.shape
    torch.Size([10, 4])
    """
    check_real(machine, "gibbs_langevin")
    move = partial(gibbs_langevin_sweep, steps=steps, step_size=step_size, adjusted=adjusted)
    return _sampled(machine, move, sweeps, n, chains)


def check_real(machine: BoltzmannMachine, what: str) -> None:
    """Raise :class:`InvalidOption` unless the machine is an RBM with real-valued visible units."""
    if not isinstance(machine, RBM):
        raise InvalidOption(f"{what}: expected an RBM, found {type(machine).__name__}")
    others = [part.name() for part in machine.visible.parts if part.support != real]
    if others:
        raise InvalidOption(f"{what}: expected real-valued visible units such as gaussian, found {others[0]}")


def check_steps(steps: int, step_size: float | None) -> None:
    """Raise :class:`InvalidOption` unless there is at least one step, of a positive size."""
    if steps < 1 or (step_size is not None and not step_size > 0):
        raise InvalidOption(f"steps, step_size: expected steps ≥ 1 and step_size > 0, found {steps} and {step_size}")


@torch.no_grad()
def langevin_steps(
    rbm: RBM, v: Tensor, generator: Generator | None, *, steps: int, step_size: float | None, adjusted: bool
) -> tuple[Tensor, Tensor]:
    """Return the states after ``steps`` Langevin steps on F(v), (n, *visible), and the acceptance rate."""
    size = rbm.visible.size ** (-1 / 3) if step_size is None else step_size
    return _Langevin(lambda x: -rbm.free_energy(x), _deviation(rbm), size, adjusted).steps(v, steps, generator)


@torch.no_grad()
def gibbs_langevin_sweep(
    rbm: RBM, v: Tensor, generator: Generator | None, *, steps: int, step_size: float, adjusted: bool
) -> tuple[Tensor, Tensor]:
    """Return the states after one Gibbs–Langevin sweep, (n, *visible), and the acceptance rate."""
    visible, field = rbm.visible, rbm.coupling.down(rbm.sample_hidden(v, seed=generator))

    def log_density(x: Tensor) -> Tensor:
        return visible.log_weight(x) + field * x

    return _Langevin(log_density, _deviation(rbm), step_size, adjusted).steps(v, steps, generator)


def _deviation(rbm: RBM) -> Tensor:
    return rbm.visible.free_variance().detach().sqrt()


@dataclass(frozen=True)
class _Langevin:
    """Langevin steps on a log-density with one value for each row, or for each unit: these are moved independently.

    ``scale`` is the standard deviation of each unit without couplings, and ``size`` the step size ε.
    """

    log_density: LogDensity
    scale: Tensor
    size: float
    adjusted: bool

    def steps(self, v: Tensor, steps: int, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """Return the states after ``steps`` steps, and the acceptance rate."""
        size, scale = self.size, self.scale
        value, slope = _with_slope(self.log_density, v)
        rate = torch.zeros((), dtype=torch.float64, device=v.device)
        for _ in range(steps):
            kick = torch.empty_like(v).normal_(generator=generator)
            proposed = v + size * scale.square() * slope + (2 * size) ** 0.5 * scale * kick
            there, slope_there = _with_slope(self.log_density, proposed)
            if not self.adjusted:
                v, slope, rate = proposed, slope_there, rate + 1
                continue
            # ln q(v | v') - ln q(v' | v), with the noise that leads back
            back = (v - proposed - size * scale.square() * slope_there) / ((2 * size) ** 0.5 * scale)
            ratio = there - value + _as(value, (kick.square() - back.square()) / 2)
            uniform = torch.empty_like(ratio).uniform_(generator=generator)
            accepted = uniform.log() < ratio  # a proposal with an infinite or undefined density is rejected
            rows = accepted.reshape(*accepted.shape, *(1 for _ in range(v.ndim - accepted.ndim)))
            v, slope = torch.where(rows, proposed, v), torch.where(rows, slope_there, slope)
            value = torch.where(accepted, there, value)
            rate += accepted.double().mean()
        return v, rate / steps


def _as(value: Tensor, terms: Tensor) -> Tensor:
    """The sum of terms (n, *visible) over the units, if there is one value for each row."""
    return terms if value.shape == terms.shape else terms.flatten(1).sum(1)


def _with_slope(log_density: LogDensity, v: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        x = v.detach().requires_grad_()
        value = log_density(x)
        (slope,) = torch.autograd.grad(value.sum(), x)
    return value.detach(), slope
