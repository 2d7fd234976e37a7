"""The replica-symmetric mean field of machines whose weights are a few modes and noise: the spectral-dynamics paper.

Spins ±1 in both layers, and the weights of equation (10)

    W = Σ_α w_α u^α v^αᵀ + r,     r_ij ~ N(0, σ²/L),     L = √(N_v N_h),     κ = N_h / N_v,

where the rescaled components √N_v u_i^α and √N_h v_j^α are independent, of unit variance. The state is given by the
overlaps m_α = Σ_j v_j^α ⟨σ_j⟩ / √L of the hidden and m̄_α = Σ_i u_i^α ⟨s_i⟩ / √L of the visible layer, and by the
spin-glass overlaps q = E⟨σ_j⟩² and q̄ = E⟨s_i⟩². With x normal, u and v rescaled components, and E over all of them,

    h = κ^{1/4} (σ √q x + Σ_α (w_α m_α + η_α) u^α),     h̄ = κ^{-1/4} (σ √q̄ x + Σ_α (w_α m̄_α + θ_α) v^α)

    m_α = κ^{1/4} E[v^α tanh h̄],     m̄_α = κ^{-1/4} E[u^α tanh h]          (11)
    q = E[tanh² h̄],                  q̄ = E[tanh² h]                        (12)

    ln Z / L = κ^{-1/2} E ln 2cosh h + κ^{1/2} E ln 2cosh h̄ + ½ σ² (1 - q)(1 - q̄) - Σ_α w_α m_α m̄_α.

The biases enter by their projections η_α = Σ_i η_i u_i^α / √L and θ_α = Σ_j θ_j v_j^α / √L. With noise, w_α is not the
singular value of W: that is √((w² + σ² κ^{1/2}) (w² + σ² κ^{-1/2})) / w.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from .. import noise
from ..checks import whole
from ..errors import InvalidData, InvalidOption
from .ensemble import Ensemble, numbers
from .equations import Equations, Solved

#: below these an overlap m, or q, is called zero; both fall only slowly to zero on a line between phases
RESOLUTION, GLASS_RESOLUTION = 1e-3, 1e-6

_SAME = 1e-6  # two saddle points are one where no overlap differs by more
_MARGINAL = 1e-9  # a rate this near to 1 neither attracts nor repels

Phase = Literal["paramagnetic", "spin glass", "ferromagnetic", "mixed"]


@dataclass(frozen=True)
class SaddlePoint:
    """A solution of equations (11) and (12).

    ``hidden`` m_α and ``visible`` m̄_α (K,), ``hidden_overlap`` q and ``visible_overlap`` q̄, and ``free_energy``
    -ln Z / L. ``at`` is σ⁴ E[sech⁴ h] E[sech⁴ h̄] (de Almeida and Thouless), the factor by which a sweep through both
    layers multiplies a small difference between two replicas' overlap and q. ``rate`` is the factor for a small
    perturbation of (m, q) itself, the spectral radius of the sweep's Jacobian.
    """

    ensemble: Ensemble
    hidden: tuple[float, ...]
    visible: tuple[float, ...]
    hidden_overlap: float
    visible_overlap: float
    free_energy: float
    at: float
    rate: float = field(repr=False)
    iterations: int
    converged: bool

    @property
    def stable(self) -> bool:
        """Whether the replica-symmetric solution holds, at < 1; beyond, it is only an approximation."""
        return self.at < 1

    @property
    def attracts(self) -> bool:
        """Whether the equations return to the point from a small perturbation of (m, q)."""
        return self.rate < 1 - _MARGINAL

    @property
    def phase(self) -> Phase:
        """As of :func:`phase`; a bias makes m ≠ 0 anywhere."""
        return phase(max(map(abs, self.hidden), default=0.0), self.hidden_overlap, self.at)


def phase(m: float, q: float, at: float) -> Phase:
    """The name of a solution: "paramagnetic" has m = q = 0, "spin glass" m = 0 < q; with m ≠ 0 it is "ferromagnetic",
    or "mixed" where replica symmetry is broken, at ≥ 1.

    >>> phase(0.5, 0.3, at=0.2)
    'ferromagnetic'
    """
    if abs(m) > RESOLUTION:
        return "ferromagnetic" if at < 1 else "mixed"
    return "spin glass" if q > GLASS_RESOLUTION else "paramagnetic"


def saddle_point(
    ensemble: Ensemble,
    start: tuple[Sequence[float], float] | None = None,
    *,
    damping: float = 0.0,
    tolerance: float = 1e-12,
    max_iterations: int = 10_000,
) -> SaddlePoint:
    """Iterate equations (11) and (12) from (m, q) to a fixed point.

    Args:
        start: (m, q); by default m = 1 for the strongest mode, along its bias if it has one, and q = ½.
        damping: the share of the old (m, q) that is kept in a step.
        tolerance: converged where a sweep changes no overlap by more.

    >>> found = saddle_point(Ensemble([1.1], sigma=0.3))
    >>> found.phase, round(found.hidden[0], 6), round(found.hidden_overlap, 6)  # q = 1 - 1/w at κ = 1
    ('ferromagnetic', 0.289334, 0.090909)
    """
    first = _strongest(ensemble) if start is None else _start(ensemble, start)
    solved = Equations.of(ensemble, 1).solve(_rows([first]), damping, tolerance, max_iterations)
    return _points(ensemble, solved, [0])[0]


def saddle_points(
    ensemble: Ensemble,
    starts: int = 64,
    *,
    seed: int | None = None,
    damping: float = 0.0,
    tolerance: float = 1e-12,
    max_iterations: int = 10_000,
) -> tuple[SaddlePoint, ...]:
    """The distinct saddle points reached from many starts, the lowest free energy first.

    The starts are no mode, single modes and combinations of modes, then random overlaps up to ``starts``. Those that
    do not converge are dropped. Where no bias points along a mode, its sign is a symmetry and one sign stands for both.
    A start without a mode stays without it, so that points which repel are found as well: ask ``attracts``.
    Gaussian modes of equal strength have a continuum of solutions, of which some points are given; none attracts.

    >>> for point in saddle_points(Ensemble([2.0, 1.6], sigma=0.3), starts=8):
    ...     print([round(m, 2) for m in point.hidden], point.phase, point.attracts)
    [0.66, 0.0] ferromagnetic True
    [0.0, 0.58] ferromagnetic False
    [0.0, 0.0] paramagnetic False
    """
    if whole("starts", starts) < 1:
        raise InvalidOption(f"starts: expected at least 1, found {starts}")
    start = _many_starts(ensemble, starts, seed)
    solved = Equations.of(ensemble, len(start)).solve(start, damping, tolerance, max_iterations)
    kept: list[int] = []
    for n in torch.argsort(solved.free_energy, stable=True).tolist():
        known = (solved.hidden[kept] - solved.hidden[n]).abs().amax(-1) <= _SAME
        if solved.converged[n] and not known.any():
            kept.append(n)
    return _points(ensemble, solved, kept)


def response(points: Sequence[SaddlePoint], size: float) -> Tensor:
    """⟨s_α σ_β⟩ = L/Z Σ_q e^{-F_q} m̄_α^q m_β^q of the machine, (K, K), with L = ``size`` = √(N_v N_h).

    The sum runs over those of the ``points`` that attract, and their mirror images: the sign of every mode without bias
    is free. Free energies F = L f are those of the average machine; a single machine's differ by O(√L). The points are
    distinct up to these signs, as :func:`saddle_points` gives them.

    >>> response(saddle_points(Ensemble([2.0, 1.6], sigma=0.3), starts=8), size=100).round(decimals=2)
    tensor([[43.5700,  0.0000],
            [ 0.0000,  0.0000]], dtype=torch.float64)
    """
    if not (math.isfinite(size) and size > 0):
        raise InvalidOption(f"size: expected √(N_v N_h) above 0, found {size}")
    used = [point for point in points if point.attracts]
    if not used:
        raise InvalidData(f"response: expected at least one saddle point that attracts, found none among {len(points)}")
    if any(point.ensemble != used[0].ensemble for point in used):
        raise InvalidData("response: expected saddle points of one ensemble, found those of several")
    biased = torch.tensor(used[0].ensemble.biased, dtype=torch.bool)
    hidden, visible = (_rows([getattr(point, side) for point in used]) for side in ("hidden", "visible"))
    images = ((hidden.abs() > RESOLUTION) & ~biased).sum(-1) * math.log(2)
    weights = torch.softmax(images - size * _rows([point.free_energy for point in used]), 0)
    # over the images the product of two different modes averages to zero, unless a bias holds both signs
    survives = torch.eye(len(biased), dtype=torch.bool) | (biased[:, None] & biased)
    return size * torch.where(survives, torch.einsum("n,na,nb->ab", weights, visible, hidden), 0.0)


def _points(ensemble: Ensemble, solved: Solved, rows: list[int]) -> tuple[SaddlePoint, ...]:
    rates = Equations.of(ensemble, len(rows)).rates(solved.hidden[rows])
    return tuple(
        SaddlePoint(
            ensemble=ensemble,
            hidden=tuple(solved.hidden[n, :-1].tolist()),
            visible=tuple(solved.visible[n, :-1].tolist()),
            hidden_overlap=max(0.0, float(solved.hidden[n, -1])),  # rounding may leave -1e-17
            visible_overlap=max(0.0, float(solved.visible[n, -1])),
            free_energy=float(solved.free_energy[n]),
            at=float(solved.at[n]),
            rate=float(rate),
            iterations=int(solved.iterations[n]),
            converged=bool(solved.converged[n]),
        )
        for n, rate in zip(rows, rates, strict=True)
    )


def _start(ensemble: Ensemble, start: tuple[Sequence[float], float]) -> tuple[float, ...]:
    try:
        given_m, given_q = start
    except (TypeError, ValueError):
        raise InvalidOption(f"start: expected a pair (m, q), found {start!r}") from None
    m, q = numbers("start, m", given_m), numbers("start, q", [given_q])
    if len(m) != ensemble.modes:
        raise InvalidOption(f"start, m: expected one number for each of {ensemble.modes} modes, found {len(m)}")
    if not 0 <= q[0] <= 1:
        raise InvalidOption(f"start, q: expected a number in [0, 1], found {q[0]:g}")
    return m + q


def _strongest(ensemble: Ensemble) -> tuple[float, ...]:
    m = [0.0] * ensemble.modes
    if m:
        first = max(range(len(m)), key=ensemble.w.__getitem__)
        m[first] = math.copysign(1.0, sum(bias[first] for bias in ensemble.biases))
    return (*m, 0.5)


def _many_starts(ensemble: Ensemble, starts: int, seed: int | None) -> Tensor:
    """(starts, K + 1): the combinations of modes, of few before those of many, then random overlaps."""
    rows = _rows(list(itertools.islice(_combinations(ensemble), starts)))
    generator = noise.generator(seed)
    random = torch.rand(starts - len(rows), ensemble.modes + 1, generator=generator, dtype=torch.float64)
    both_signs = torch.tensor([*ensemble.biased, False])
    return torch.cat([rows, torch.where(both_signs, 2 * random - 1, random)])


def _combinations(ensemble: Ensemble) -> Iterator[list[float]]:
    none = [0.0] * ensemble.modes
    yield [*none, 0.0]
    for together in range(ensemble.modes + 1):
        for chosen in itertools.combinations(range(ensemble.modes), together):
            for signs in itertools.product(*((1.0, -1.0) if ensemble.biased[mode] else (1.0,) for mode in chosen)):
                m = dict(zip(chosen, signs, strict=True))
                yield [*(m.get(mode, 0.0) for mode in range(ensemble.modes)), 0.5]


def _rows(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
