"""Negative phases by Langevin and Gibbs–Langevin sampling of real-valued visible units (Liao et al. 2022)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from torch import Generator, Tensor

from ...machines import RBM, BoltzmannMachine
from ...sampling.gradient_moves import check_real, check_steps, gibbs_langevin_sweep, langevin_steps
from .base import State
from .gibbs import Sampled


@dataclass(frozen=True)
class Langevin(Sampled):
    """Persistent chains that move by ``k`` Langevin steps on F(v) per step (:func:`harmonium.sampling.langevin`).

    >>> Langevin(10, step_size=0.1)
    Langevin(k=10, chains=None, step_size=0.1, adjusted=True)
    """

    k: int = 10
    _: KW_ONLY
    step_size: float | None = None
    adjusted: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_steps(self.k, self.step_size)

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        check_real(machine, type(self).__name__)
        return super().init(machine, rows, generator)

    def moves(self, rbm: RBM, v: Tensor, generator: Generator | None) -> Tensor:
        # all at once, which computes every slope only once
        return langevin_steps(rbm, v, generator, steps=self.k, step_size=self.step_size, adjusted=self.adjusted)[0]


@dataclass(frozen=True)
class GibbsLangevin(Sampled):
    """Persistent chains that move by ``k`` Gibbs–Langevin sweeps (:func:`harmonium.sampling.gibbs_langevin`).

    >>> GibbsLangevin(1, steps=5)
    GibbsLangevin(k=1, chains=None, steps=5, step_size=0.2, adjusted=True)
    """

    _: KW_ONLY
    steps: int = 10
    step_size: float = 0.2
    adjusted: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_steps(self.steps, self.step_size)

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        check_real(machine, type(self).__name__)
        return super().init(machine, rows, generator)

    def move(self, rbm: RBM, v: Tensor, generator: Generator | None) -> Tensor:
        size, adjusted = self.step_size, self.adjusted
        return gibbs_langevin_sweep(rbm, v, generator, steps=self.steps, step_size=size, adjusted=adjusted)[0]
