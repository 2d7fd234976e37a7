"""Stability of fixed points: leading eigenvalues of the linearized iteration.

Let f be the undamped update of all tensors of the state from the same state x (magnetizations and variances for TAP,
messages for BP), and J = ∂f/∂x at a fixed point, with eigenvalues λ. The parallel iteration x ← d x + (1 - d) f(x) has
the eigenvalues d + (1 - d) λ. All of them are inside the unit circle for some damping d < 1 if and only if

    Re λ < 1 for every λ.

In this case the flow dx/dt = f(x) - x returns to the fixed point; otherwise no damping makes it attractive. The
iterations of this library update layer by layer. This is a different map for d < 1, but it has the same flow for d → 1
and therefore the same condition for a damping close to 1. For naive mean field J = C W, with the variances C and the
symmetric couplings W. The condition then means that C⁻¹ - W, the Hessian of the free energy, is positive definite: a
stable fixed point is a local minimum.

The speed of convergence depends on the order of the updates. Layer by layer, with the reaction term from the previous
magnetizations, undamped TAP is the iteration of Bolthausen (2014), which converges up to the line of de Almeida &
Thouless (1978). For a spin machine with random weights of variance σ²/√(N_v N_h), each iteration multiplies the squared
distance by σ⁴ E[sech⁴ h] E[sech⁴ h̄], the squared spectral radius; Kabashima (2003) has the same result for message
passing. Plefka (1982) derives the condition for the validity of the TAP expansion.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..machines import BoltzmannMachine
from ..shown import brief
from . import adaptive, chain, messages
from .iteration import Map
from .solutions import Solutions

_TOLERANCE = 1e-8  # largest residual of an eigenpair, relative to max(1, |λ|)
_MOST_VECTORS = 300  # largest dimension of the Krylov space
_BETWEEN = 5  # number of new vectors between checks of the eigenvalues
_CHUNK_ELEMENTS = 2**25
_BREAKDOWN = 1e-13


@brief
@dataclass(frozen=True)
class Stability:
    """Leading eigenvalues of the iteration at each of n solutions, computed on first access.

    For solutions that have not converged they are NaN, and the masks are False.
    """

    machine: BoltzmannMachine
    solutions: Solutions

    @cached_property
    def radius(self) -> Tensor:
        """max |λ| of one undamped iteration, layer by layer: (n,), in float64."""
        return self._leading(0.0, torch.abs)

    @cached_property
    def rate(self) -> Tensor:
        """max |λ| of one iteration with the damping of the solution: (n,), in float64.

        Near the solution, each iteration multiplies the distance to it by this factor.
        """
        return self.radius if self.solutions.damping == 0 else self._leading(self.solutions.damping, torch.abs)

    @cached_property
    def abscissa(self) -> Tensor:
        """max Re λ of the undamped update of all layers at once: (n,), in float64."""
        return self._leading(None, torch.real)

    @property
    def stable(self) -> Tensor:
        """Mask (n,): ``abscissa`` < 1, so the point is attractive for every damping close enough to 1."""
        return self.abscissa < 1

    @property
    def attractive(self) -> Tensor:
        """Mask (n,): ``rate`` < 1, so the iteration with the damping of the solution returns to the point."""
        return self.rate < 1

    def _leading(self, damping: float | None, size: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the largest ``size`` of an eigenvalue of a sweep, or of the parallel map if ``damping`` is None."""
        s = self.solutions
        found = torch.full((len(s),), torch.nan, dtype=torch.float64, device=s.free_energy.device)
        rows = torch.nonzero(s.converged).flatten()
        if len(rows) == 0:
            return found
        width = sum(x[0].numel() for x in _as_map(self.machine, s.select(rows[:1])).state)
        vectors = min(width, _MOST_VECTORS) + 1
        for part in rows.split(max(1, _CHUNK_ELEMENTS // (width * vectors))):
            transposed = _Transposed(_as_map(self.machine, s.select(part)), damping)
            found[part] = _arnoldi(transposed, len(part), width, size).to(found.device)
        return found


def stability(machine: BoltzmannMachine, solutions: Solutions) -> Stability:
    """Compute the stability of fixed points from the eigenvalues of the linearized iteration, by Arnoldi's method.

    Args:
        machine: the machine for which the solutions were computed, with the same parameters.
        solutions: solutions of any method. An eigenvalue costs as much as some tens of iterations of each solution. It
            is computed in float64 to 1e-8, or to the accuracy of a Krylov space of 300 dimensions.

    Returns:
        ``Stability`` with ``radius``, ``rate``, ``abscissa`` (n,) and the masks ``stable`` and ``attractive``.

    The zero magnetization of a ferromagnet is an unstable fixed point:

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Spin(20), hm.units.Spin(20))
    >>> _ = torch.nn.init.constant_(rbm.coupling.weight, 0.1)
    >>> found = hm.meanfield.naive(rbm, torch.tensor([[1e-6], [1.0]]).expand(2, 20))
    >>> found.converged.tolist(), stability(rbm, found).stable.tolist()
    ([True, True], [False, True])
    >>> stability(rbm, found).abscissa[:1]  # 20 · 0.1
    tensor([2.0000], dtype=torch.float64)
    """
    double = copy.deepcopy(machine).double().requires_grad_(False)
    return Stability(double, solutions)


def _as_map(machine: BoltzmannMachine, solutions: Solutions) -> Map:
    s = solutions.double()
    machine = machine.conserving(s.magnetizations[0])
    if s.messages:
        return messages.as_map(machine, s)
    return (adaptive if s.method == "adatap" else chain).as_map(machine, s)


class _Transposed:
    """Products of row vectors with the Jacobian, for all rows in parallel; Jᵀ has the same eigenvalues as J."""

    def __init__(self, iteration: Map, damping: float | None) -> None:
        self._leaves = [x.detach().requires_grad_() for x in iteration.state]
        with torch.enable_grad():
            images = iteration.parallel(self._leaves) if damping is None else iteration.sweep(self._leaves, damping)
        self._moving = [k for k, image in enumerate(images) if image.requires_grad]
        self._images = [images[k] for k in self._moving]

    def __call__(self, x: Tensor) -> Tensor:
        """(rows, width) -> (rows, width)."""
        if not self._images:
            return torch.zeros_like(x)
        parts = x.split([leaf[0].numel() for leaf in self._leaves], 1)
        pulls = [parts[k].reshape(image.shape) for k, image in zip(self._moving, self._images, strict=True)]
        slopes = torch.autograd.grad(self._images, self._leaves, pulls, retain_graph=True, materialize_grads=True)
        return torch.cat([slope.flatten(1) for slope in slopes], 1)


@torch.no_grad()
def _arnoldi(apply: _Transposed, rows: int, width: int, size: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the largest ``size`` of an eigenvalue of a linear map for each row: (rows,).

    The sizes used here, |λ| and Re λ, have their maximum at an extreme point of the convex hull of the spectrum, where
    Krylov methods converge first. An eigenpair has converged when its residual is small enough.
    """
    device = apply._leaves[0].device
    most = min(width, _MOST_VECTORS)
    start = torch.randn(width, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(device)
    basis = torch.zeros(rows, most + 1, width, dtype=torch.float64, device=device)
    basis[:, 0] = start / start.norm()  # the same for all rows, so a result does not depend on other rows
    hessenberg = torch.zeros(rows, most, most, dtype=torch.float64, device=device)
    found = torch.full((rows,), torch.nan, dtype=torch.float64)
    left = torch.arange(rows)
    for m in range(1, most + 1):
        image = apply(basis[:, m - 1])
        for _ in range(2):  # orthogonalize twice for numerical stability
            along = torch.einsum("bmn,bn->bm", basis[:, :m], image)
            image -= torch.einsum("bmn,bm->bn", basis[:, :m], along)
            hessenberg[:, :m, m - 1] += along
        rest = torch.linalg.vector_norm(image, dim=1)
        scale = torch.linalg.matrix_norm(hessenberg[:, :m, :m])
        closed = (rest <= _BREAKDOWN * scale.clamp_min(1.0)).cpu()  # invariant subspace: its eigenvalues are exact
        if m % _BETWEEN == 0 or m == most or bool(closed[left].any()):
            values, vectors = torch.linalg.eig(hessenberg[left.to(device), :m, :m].cpu())
            best = size(values).argmax(1, keepdim=True)
            value = values.gather(1, best).squeeze(1)
            residual = rest.cpu()[left] * vectors[:, -1].gather(1, best).squeeze(1).abs()
            done = (residual <= _TOLERANCE * value.abs().clamp_min(1.0)) | closed[left] | torch.tensor(m == most)
            found[left[done]] = size(value[done])
            left = left[~done]
            if len(left) == 0:
                break
        hessenberg[:, m, m - 1] = rest
        basis[:, m] = torch.where(closed.to(device).unsqueeze(1), 0.0, image / rest.unsqueeze(1))
    return found
