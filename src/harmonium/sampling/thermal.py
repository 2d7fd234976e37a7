"""A machine at several temperatures: energy, specific heat and states, from chains that exchange states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import noise
from ..checks import count
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..noise import Seed
from ..shown import Shown, short
from . import ladder as ladders
from .ladder import Acceptance, PathLadder, exchange_sweeps
from .path import Path

_BETAS = tuple(k / 10 for k in range(21))  # from infinite to half of the present temperature


@dataclass(frozen=True, repr=False)
class TemperatureSweep(Shown):
    """A machine at several inverse temperatures β, with standard errors from independent replicas.

    Attributes:
        betas: the inverse temperatures (m,).
        energy: mean energy ⟨E⟩ = -∂ ln Z/∂β in nats (m,), and ``energy_error``, its standard error.
        specific_heat: β²(⟨E²⟩ - ⟨E⟩²) (m,), and ``specific_heat_error``, its standard error.
        samples: visible states at the end (m, n, *visible); those at one β are independent replicas.
        acceptance: acceptance rate of the exchanges between neighboring temperatures (m - 1,).
    """

    betas: Tensor
    energy: Tensor
    energy_error: Tensor
    specific_heat: Tensor
    specific_heat_error: Tensor
    samples: Tensor
    acceptance: Tensor

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The temperatures, the maximum of the specific heat, and the exchanges."""
        top = int(self.specific_heat.argmax())
        return "TemperatureSweep", {
            "betas": f"{self.betas[0]:g} to {self.betas[-1]:g} ({len(self.betas)})",
            "replicas": self.samples.shape[1],
            "largest specific heat": f"{short(self.specific_heat[top].item())} at β = {self.betas[top]:g}",
            "lowest acceptance": short(self.acceptance.min().item(), 2),
        }


@torch.no_grad()
def temperature_sweep(
    machine: BoltzmannMachine,
    betas: Sequence[float] = _BETAS,
    *,
    n: int = 100,
    sweeps: int = 500,
    start: ArrayLike | None = None,
    seed: Seed = None,
) -> TemperatureSweep:
    """Simulate a machine at several inverse temperatures, p_β ∝ e^{-βE}, and measure energy and specific heat.

    Each of ``n`` replicas is a ladder of all temperatures, which exchange states after each sweep (parallel tempering).
    So low temperatures are reached from high ones. The first half of the sweeps is not measured. Replicas are
    independent: their spread gives the standard errors, and their states the overlaps (``hm.quality.overlaps``). β
    multiplies biases and weights. The shape of unbounded units, such as the precision of Gaussian units, stays fixed,
    and E leaves it out.

    Args:
        machine: a machine whose partition function is finite at all ``betas``.
        betas: increasing inverse temperatures; 1 is the machine itself.
        n: number of replicas, at least 2.
        sweeps: number of Gibbs sweeps, at least 2.
        start: initial visible states (m, *visible) of all temperatures, repeated if there are fewer than ``n``.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Spin(6), hm.units.Spin(3))
    >>> rbm.initialize(scale=1.0, seed=0)
    >>> found = temperature_sweep(rbm, [0.0, 0.5, 1.0], n=50, sweeps=100, seed=0)
    >>> found.samples.shape, bool((found.energy.diff() < 0).all())
    (torch.Size([3, 50, 6]), True)
    """
    if count("n", n) < 2 or count("sweeps", sweeps) < 2:
        raise InvalidOption(f"expected n ≥ 2 and sweeps ≥ 2, found n={n}, sweeps={sweeps}")
    path = Path(machine)
    ladder = PathLadder(path, betas)
    path.machine(float(betas[-1])).check_normalizable()
    generator = noise.generator(seed, machine.device)
    visible = machine.independent(n, generator) if start is None else machine.checked_states(start, "start", n)
    state = ladders.start(ladder, visible, generator)
    first = torch.zeros(ladder.size, n, dtype=torch.float64, device=machine.device)
    second, acceptance, shift = torch.zeros_like(first), Acceptance(ladder), None
    for k, (swept, moved, info) in enumerate(exchange_sweeps(ladder, state, sweeps, generator)):
        if k >= sweeps // 2:
            energy = _energy(path, swept.layers)
            shift = energy.mean(1, keepdim=True) if shift is None else shift  # keeps the squares small
            first += energy - shift
            second += (energy - shift).square()
        acceptance.add(info)
        state = moved
    measured = sweeps - sweeps // 2
    first, second = first / measured, second / measured
    mean = first.mean(1, keepdim=True)
    spread = second - 2 * mean * first + mean.square()  # ⟨(E - mean)²⟩ of each replica
    square = ladder.betas.double().square()
    assert shift is not None
    return TemperatureSweep(
        ladder.betas.double(),
        (mean + shift).squeeze(1),
        _standard_error(first),
        square * spread.mean(1),
        square * _standard_error(spread),
        state.layers[0],
        acceptance.rates,
    )


def _energy(path: Path, layers: Sequence[Tensor]) -> Tensor:
    """-∂_β ln p of the states (rungs, n, *shape) of all layers: (rungs, n) in float64."""
    flat = [x.flatten(0, 1) for x in layers]
    difference = path.target.energy(*flat).double() - path.base.energy(*flat).double()
    return difference.view(layers[0].shape[:2])


def _standard_error(x: Tensor) -> Tensor:
    """Standard error of the mean over the replicas: (rungs, n) -> (rungs,)."""
    return x.std(1) / x.shape[1] ** 0.5
