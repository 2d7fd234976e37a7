"""Dynamics of the singular values and vectors during learning.

Decelle, Fissore & Furtlehner (2017), eqs. (6)-(9), with corrected signs and factors. A change dW of the weights changes
each singular value and rotates the singular vectors. In a linear machine, in which all units are Gaussian, the dynamics
is solvable: modes of the data with a variance above that of the visible units grow to a finite singular value, the
largest variance first; all other modes decay to zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidData, InvalidOption
from ..machines import RBM
from ..machines.chain import ArrayLike
from ..shown import brief
from .singular_values import Spectrum, spectrum

_REACH, _NODES = 20.0, 401  # range and number of nodes of a Gaussian integral
_CHUNK = 4096


@brief
@dataclass(frozen=True)
class Kinematics:
    """First-order changes of the singular values and vectors under a change dW of the weights.

    ``rates`` (modes,) are dw_α. ``visible`` and ``hidden`` (modes, modes) are the rotations Ω_αβ = du^α·u^β and
    dv^α·v^β. ``outwards`` (2, modes) are the norms of the components of du^α and dv^α orthogonal to the span of the
    left and of the right vectors.
    """

    spectrum: Spectrum
    rates: Tensor
    visible: Tensor
    hidden: Tensor
    outwards: Tensor


@torch.no_grad()
def kinematics(modes: Spectrum, change: Tensor) -> Kinematics:
    """Compute the changes of singular values and vectors: Decelle, Fissore & Furtlehner (2017), eqs. (6)-(8).

    Rotations between modes with equal singular values are not defined and set to 0.

    Args:
        modes: spectrum of the weights.
        change: the change dW of the weights, (lower size, upper size).

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Spin(2), hm.units.Spin(2))
    >>> _ = rbm.coupling.weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    >>> motion = kinematics(spectrum(rbm), torch.tensor([[0.1, 0.2], [0.2, 0.0]]))
    >>> [round(rate, 6) for rate in motion.rates.tolist()], round(motion.visible[0, 1].item(), 6)
    ([0.1, 0.0], 0.1)
    """
    if tuple(change.shape) != modes.size:
        raise InvalidData(f"change: expected shape {modes.size}, found {tuple(change.shape)}")
    u, v, w = modes.left.flatten(1).T, modes.right.flatten(1).T, modes.values
    change = change.to(w)
    driven = u.T @ change @ v
    symmetric, skew = (driven + driven.T) / 2, (driven - driven.T) / 2
    apart, together = w[:, None] - w, w[:, None] + w
    same = apart.abs() <= 1e-12 * w.max()
    from_symmetric = torch.where(same, 0.0, symmetric / torch.where(same, 1.0, apart))
    from_skew = torch.where(same, 0.0, skew / torch.where(same, 1.0, together))
    # dW v^α = dw_α u^α + w_α du^α + …: the part outside the span of all u rotates u^α out of that span
    out_left = torch.linalg.vector_norm(change @ v - u @ driven, dim=0) / w
    out_right = torch.linalg.vector_norm(change.T @ u - v @ driven.T, dim=0) / w
    turned = torch.stack([out_left, out_right])
    return Kinematics(modes, driven.diag(), from_symmetric - from_skew, from_symmetric + from_skew, turned)


@torch.no_grad()
def drive(rbm: RBM, data: ArrayLike, samples: ArrayLike) -> Kinematics:
    """Changes of the modes under the gradient of the log-likelihood, ⟨v h⟩_data - ⟨v h⟩_model, as in eq. (6).

    The hidden units are averaged out, given the visible units.

    Args:
        rbm: the machine.
        data: rows of data, (n, *visible).
        samples: samples of the machine, (m, *visible).
    """
    change = _correlation(rbm, data) - _correlation(rbm, samples)
    return kinematics(spectrum(rbm), change)


def _correlation(rbm: RBM, states: ArrayLike) -> Tensor:
    rows = rbm.as_states(states)
    if len(rows) == 0:
        raise InvalidData("states: expected at least one row, found none")
    total = torch.zeros(rbm.visible.size, rbm.hidden.size, dtype=torch.float64, device=rbm.device)
    for part in rows.split(_CHUNK):
        total.addmm_(part.flatten(1).double().T, rbm.hidden_mean(part).flatten(1).double())
    return total / len(rows)


def mean_slope(x: Tensor) -> Tensor:
    """Mean slope V(x) = ∫ Dy sech²(√x y) of tanh in a Gaussian field of variance x ≥ 0, used in eq. (9).

    >>> mean_slope(torch.tensor([0.0, 1.0])).round(decimals=6).tolist()
    [1.0, 0.605706]
    """
    # trapezoidal rule in τ = y·max(1, √x): the poles are at least π/2 from the real axis, so it is exact to rounding
    root = x.double().sqrt().unsqueeze(-1)
    scale = root.clamp(min=1.0)
    y = torch.linspace(-_REACH, _REACH, _NODES, dtype=torch.float64, device=x.device) / scale
    step = 2 * _REACH / (_NODES - 1) / scale.squeeze(-1)
    return (torch.exp(-y.square() / 2) / torch.cosh(root * y).square()).sum(-1) * step / math.sqrt(2 * math.pi)


@torch.no_grad()
def empirical_term(modes: Spectrum, data: Tensor, theta: Tensor | None = None) -> Tensor:
    """Data term ⟨s_α σ_β⟩_data of the gradient: Decelle, Fissore & Furtlehner (2017), eq. (9). Shape (modes, modes).

    Computes ⟨s_α (w_β s_β + θ_β) V((1/N_h) Σ_γ (w_γ s_γ + θ_γ)²)⟩ over the rows of the data, for ±1 units and right
    singular vectors with Gaussian components; V is :func:`mean_slope`.

    Args:
        modes: spectrum of the weights.
        data: rows of ±1 values, (n, *visible).
        theta: projections of the hidden biases on the right vectors, (modes,); zero by default.
    """
    hidden = modes.size[1]
    shift = torch.zeros_like(modes.values) if theta is None else theta.to(modes.values)
    total = torch.zeros(len(modes), len(modes), dtype=modes.values.dtype, device=modes.values.device)
    for part in data.split(_CHUNK):
        s = modes.project(part)
        field = s * modes.values + shift
        total.addmm_(s.T, field * mean_slope(field.square().sum(1) / hidden)[:, None])
    return total / len(data)


@dataclass(frozen=True)
class LinearTheory:
    """Learning dynamics of a machine of Gaussian units, for modes aligned with the principal axes of the data.

    The singular vectors rotate toward the principal axes during learning.

    Args:
        variances: variances s_α of the data along its principal axes.
        visible_variance: variance σ_v² of the visible units without coupling.
        hidden_variance: variance σ_h² of the hidden units without coupling.

    >>> theory = LinearTheory([5.0, 1.5, 1.01, 0.99, 0.2])
    >>> [round(w, 4) for w in theory.equilibrium(hidden=5).tolist()]
    [0.8944, 0.5774, 0.0995, 0.0, 0.0]
    """

    variances: Any
    visible_variance: float = 1.0
    hidden_variance: float = 1.0

    def __post_init__(self) -> None:
        found = torch.as_tensor(self.variances, dtype=torch.float64)
        if found.ndim != 1 or len(found) == 0 or not bool((found >= 0).all()):
            raise InvalidOption("variances: expected a nonempty list of numbers that are not negative")
        if not (0 < self.visible_variance < math.inf and 0 < self.hidden_variance < math.inf):
            raise InvalidOption(
                "visible_variance and hidden_variance: expected positive variances, found "
                f"{self.visible_variance} (visible) and {self.hidden_variance} (hidden)"
            )
        object.__setattr__(self, "variances", found.sort(descending=True).values)

    @property
    def unstable(self) -> int:
        """Number of modes that grow from small weights: those with a data variance above σ_v²."""
        return int((self.variances > self.visible_variance).sum())

    def equilibrium(self, hidden: int) -> Tensor:
        """Singular values at equilibrium, (min(hidden, modes),): w² = (s - σ_v²)/(σ_v² σ_h² s) if s > σ_v², else 0."""
        s = self.variances[:hidden]
        room = (s - self.visible_variance).clamp(min=0)
        scale = self.visible_variance * self.hidden_variance
        return torch.where(room > 0, room / (scale * s).clamp(min=1e-300), 0.0).sqrt()

    def rates(self, w: Tensor) -> Tensor:
        """Rates dw_α/dt = σ_h² w_α (s_α - σ_v²/(1 - σ_v² σ_h² w_α²)): (..., modes) -> (..., modes)."""
        v, h = self.visible_variance, self.hidden_variance
        return h * w * (self.variances[: w.shape[-1]] - v / (1 - v * h * w.square()))

    def evolve(self, start: Tensor, times: Tensor) -> Tensor:
        """Singular values at ``times`` (n,), starting from ``start`` (modes,) at time 0: (n, modes).

        Time is the number of gradient steps times the learning rate.
        """
        from scipy.integrate import solve_ivp  # slow to load

        start, times = (torch.as_tensor(x, dtype=torch.float64) for x in (start, times))
        if start.ndim != 1 or len(start) > len(self.variances):
            raise InvalidData(f"start: expected at most {len(self.variances)} values, found {tuple(start.shape)}")
        limit = 1 / math.sqrt(self.visible_variance * self.hidden_variance)
        if not bool(((start >= 0) & (start < limit)).all()):
            raise InvalidData(f"start: expected values from 0 to below {limit:g}, where ln Z diverges")
        if times.ndim != 1 or len(times) == 0 or not bool((times.diff() >= 0).all()) or times[0] < 0:
            raise InvalidData("times: expected times ≥ 0 in increasing order")

        def slope(_: float, w: np.ndarray) -> np.ndarray:
            return self.rates(torch.from_numpy(w)).numpy()

        found = solve_ivp(
            slope,
            (0.0, times[-1].item()),
            start.numpy(),
            t_eval=times.numpy(),
            method="LSODA",
            rtol=1e-9,
            atol=1e-12,
        )
        return torch.from_numpy(found.y.T.copy()).clamp(min=0)  # rounding can make decayed modes slightly negative

    def log_likelihood(self, w: Tensor) -> Tensor:
        """Log-likelihood of the data in nats per row, for singular values w (..., modes) on the leading axes: (...)."""
        v, h = self.visible_variance, self.hidden_variance
        room = torch.zeros(*w.shape[:-1], len(self.variances), dtype=torch.float64)
        room[..., : w.shape[-1]] = w
        precision = 1 / v - h * room.square()
        return 0.5 * (torch.log(precision) - precision * self.variances - math.log(2 * math.pi)).sum(-1)
