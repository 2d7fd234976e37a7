"""Replica-symmetric theory of RBMs with weights of low rank plus noise.

Decelle, Fissore & Furtlehner (2017), eqs. (10)-(12), with corrected factors; Decelle, Fissore & Furtlehner (2018). Both
layers have ±1 units, and the weights are

    W = Σ_α w_α u^α v^αᵀ + r,     r_ij ~ N(0, σ²/L),     L = √(N_v N_h),     κ = N_h / N_v,          (10)

where the rescaled components √N_v u_i^α and √N_h v_j^α are independent with unit variance. The order parameters are
the overlaps with the modes, m_α = Σ_j v_j^α ⟨σ_j⟩ / √L (hidden layer) and m̄_α = Σ_i u_i^α ⟨s_i⟩ / √L (visible layer),
and the spin-glass overlaps q = E⟨σ_j⟩² and q̄ = E⟨s_i⟩². With x standard normal, u and v the rescaled components, and
E the average over all of them, the saddle-point equations and the free energy are

    h = κ^{1/4} (σ √q x + Σ_α (w_α m_α + η_α) u^α),     h̄ = κ^{-1/4} (σ √q̄ x + Σ_α (w_α m̄_α + θ_α) v^α)

    m_α = κ^{1/4} E[v^α tanh h̄],     m̄_α = κ^{-1/4} E[u^α tanh h]          (11)
    q = E[tanh² h̄],                  q̄ = E[tanh² h]                        (12)

    ln Z / L = κ^{-1/2} E ln 2cosh h + κ^{1/2} E ln 2cosh h̄ + ½ σ² (1 - q)(1 - q̄) - Σ_α w_α m_α m̄_α.

The biases enter through their projections η_α = Σ_i η_i u_i^α / √L and θ_α = Σ_j θ_j v_j^α / √L. With noise, w_α is
not a singular value of W; the corresponding singular value is √((w² + σ² κ^{1/2}) (w² + σ² κ^{-1/2})) / w.
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
from ..noise import Seed
from .ensemble import Ensemble, numbers
from .equations import Equations, Solved

#: overlaps m and q below these values count as zero; both decay slowly to zero near phase boundaries
RESOLUTION, GLASS_RESOLUTION = 1e-3, 1e-6

_SAME = 1e-6  # saddle points are the same if no overlap differs by more than this
_MARGINAL = 1e-9  # a rate this close to 1 is marginal, neither attracting nor repelling

Phase = Literal["paramagnetic", "spin glass", "ferromagnetic", "mixed"]


@dataclass(frozen=True)
class SaddlePoint:
    """A solution of eqs. (11) and (12).

    ``hidden`` and ``visible`` are the overlaps m_α and m̄_α (K,), ``hidden_overlap`` and ``visible_overlap`` are q and
    q̄, and ``free_energy`` is -ln Z / L. ``at`` is σ⁴ E[sech⁴ h] E[sech⁴ h̄] (de Almeida & Thouless 1978), the factor by
    which a sweep multiplies a small deviation of the overlap of two replicas from q. ``rate`` is the factor for a
    small perturbation of (m, q), the spectral radius of the Jacobian of a sweep.
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
        """Whether the replica-symmetric solution is stable, at < 1; otherwise it is only an approximation."""
        return self.at < 1

    @property
    def attracts(self) -> bool:
        """Whether the iteration returns to this point after a small perturbation of (m, q)."""
        return self.rate < 1 - _MARGINAL

    @property
    def phase(self) -> Phase:
        """Name of the phase, see :func:`phase`. With a bias, m ≠ 0 in every phase."""
        return phase(max(map(abs, self.hidden), default=0.0), self.hidden_overlap, self.at)


def phase(m: float, q: float, at: float) -> Phase:
    """Name of the phase of a solution with overlaps m and q.

    It is "paramagnetic" if m = q = 0, "spin glass" if m = 0 < q, "ferromagnetic" if m ≠ 0 and at < 1, and "mixed" if
    m ≠ 0 and replica symmetry is broken, at ≥ 1.

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
    """Solve eqs. (11) and (12) by fixed-point iteration.

    Args:
        ensemble: the ensemble of machines.
        start: initial (m, q). By default q = ½ and m = 1 for the strongest mode, with the sign of its bias.
        damping: fraction of the old (m, q) that is kept in each iteration.
        tolerance: stop if a sweep changes no overlap by more than this.
        max_iterations: maximum number of iterations.

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
    seed: Seed = None,
    damping: float = 0.0,
    tolerance: float = 1e-12,
    max_iterations: int = 10_000,
) -> tuple[SaddlePoint, ...]:
    """Find the distinct saddle points reached from many initial states, in order of increasing free energy.

    The initial states have no overlap, overlap with single modes, overlap with combinations of modes, and then random
    overlaps, up to ``starts`` in total. Those that do not converge are dropped. The sign of a mode without bias is a
    symmetry, and only one sign is returned. An initial state without overlap with a mode keeps zero overlap with it.
    Therefore the result includes unstable saddle points; see ``attracts``. Gaussian modes of equal strength have a
    continuum of solutions; some of its points are returned, and none of them attracts.

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
    """Model correlations ⟨s_α σ_β⟩ = L/Z Σ_p e^{-F_p} m̄_α^p m_β^p of the modes, (K, K).

    The sum runs over the ``points`` p that attract and over their images under sign changes of the modes without bias.
    The free energies F = L f are averages over the ensemble; those of a single machine differ by O(√L).

    Args:
        points: saddle points that are distinct up to these signs, as returned by :func:`saddle_points`.
        size: L = √(N_v N_h).

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
    # averaged over the images, the product of two different modes is zero, unless both have a bias
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


def _many_starts(ensemble: Ensemble, starts: int, seed: Seed) -> Tensor:
    """Initial states (starts, K + 1): combinations of modes, in order of their number, then random overlaps."""
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
