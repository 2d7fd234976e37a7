"""The saddle-point equations for many ensembles or initial states at once.

Decelle, Fissore & Furtlehner (2017), eqs. (11) and (12), as stated in :mod:`harmonium.replicas.thermodynamics`. The
state of a layer is (m_1, …, m_K, q), its overlaps with the modes and its spin-glass overlap: (n, K + 1). A sweep
computes the visible state from the hidden state through the field h, then the hidden state from it through h̄.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InvalidOption
from .averages import COMPONENTS, Averages, Components, averages
from .ensemble import Ensemble


@dataclass(frozen=True)
class ReplicaLayer:
    """``state`` (n, K + 1) of a layer in a given field, and the averages from which it is computed."""

    state: Tensor
    averages: Averages
    scale: Tensor

    @property
    def entropy(self) -> Tensor:
        """Contribution κ^{∓1/2} E ln 2cosh of the layer to ln Z / L."""
        return self.averages.log_2cosh / self.scale


@dataclass(frozen=True)
class Solved:
    """Result of the iteration: the states of the layers (n, K + 1), and for each row (n,) the other quantities.

    ``free_energy`` is -ln Z / L, ``at`` the de Almeida–Thouless value.
    """

    hidden: Tensor
    visible: Tensor
    free_energy: Tensor
    at: Tensor
    iterations: Tensor
    converged: Tensor


@dataclass(frozen=True)
class Equations:
    """The equations of n ensembles: ``w``, ``eta``, ``theta`` are (n, K), ``sigma`` and ``kappa`` (n,)."""

    components: Components
    w: Tensor
    sigma: Tensor
    kappa: Tensor
    eta: Tensor
    theta: Tensor

    @classmethod
    def of(cls, ensemble: Ensemble, copies: int) -> Equations:
        """Equations of one ensemble for ``copies`` initial states."""

        def rows(values: float | Sequence[float]) -> Tensor:
            return torch.tensor([values] * copies, dtype=torch.float64)

        eta, theta = map(rows, ensemble.biases)
        return cls(
            COMPONENTS[ensemble.components], rows(ensemble.w), rows(ensemble.sigma), rows(ensemble.kappa), eta, theta
        )

    def visible(self, hidden: Tensor) -> ReplicaLayer:
        """Compute the visible state (m̄, q̄) from the hidden state (m, q)."""
        return self._layer(hidden, self.eta, self.kappa**0.5)

    def hidden(self, visible: Tensor) -> ReplicaLayer:
        """Compute the hidden state (m, q) from the visible state (m̄, q̄)."""
        return self._layer(visible, self.theta, self.kappa**-0.5)

    def sweep(self, hidden: Tensor) -> Tensor:
        """Compute the new hidden state (m, q) after one update of both layers."""
        return self.hidden(self.visible(hidden).state).state

    def _layer(self, other: Tensor, bias: Tensor, scale: Tensor) -> ReplicaLayer:
        root = scale.sqrt()[:, None]  # κ^{1/4} for the visible, κ^{-1/4} for the hidden layer
        found = averages(
            self.components,
            variance=scale * self.sigma**2 * other[:, -1],
            fields=root * (self.w * other[:, :-1] + bias),
        )
        return ReplicaLayer(torch.cat([found.projected / root, found.tanh2[:, None]], -1), found, scale)

    def select(self, rows: Tensor) -> Equations:
        """Equations of the ensembles with the given indices."""
        return Equations(
            self.components, self.w[rows], self.sigma[rows], self.kappa[rows], self.eta[rows], self.theta[rows]
        )

    def solve(self, start: Tensor, damping: float, tolerance: float, max_iterations: int) -> Solved:
        """Iterate from ``start`` (n, K + 1) until no overlap changes by more than ``tolerance``."""
        if not 0 <= damping < 1:
            raise InvalidOption(f"damping: expected a number in [0, 1), found {damping}")
        if not tolerance > 0 or max_iterations < 1:
            raise InvalidOption(
                f"tolerance and max_iterations: expected above 0, found {tolerance} and {max_iterations}"
            )
        state, n = start.clone(), len(start)
        converged, iterations = torch.zeros(n, dtype=torch.bool), torch.full((n,), max_iterations)
        active, equations = torch.arange(n), self
        for iteration in range(1, max_iterations + 1):
            before = state[active]
            after = equations.sweep(before)
            done = (after - before).abs().amax(-1) <= tolerance
            state[active] = torch.where(done[:, None], after, damping * before + (1 - damping) * after)
            if done.any():
                converged[active[done]], iterations[active[done]] = True, iteration
                active = active[~done]
                if len(active) == 0:
                    break
                equations = self.select(active)
        return self._at(state, iterations, converged)

    def _at(self, state: Tensor, iterations: Tensor, converged: Tensor) -> Solved:
        visible = self.visible(state)
        hidden = self.hidden(visible.state)
        noise = 0.5 * self.sigma**2 * (1 - state[:, -1]) * (1 - visible.state[:, -1])
        modes = (self.w * state[:, :-1] * visible.state[:, :-1]).sum(-1)
        return Solved(
            hidden=state,
            visible=visible.state,
            free_energy=modes - noise - visible.entropy - hidden.entropy,
            at=self.sigma**4 * visible.averages.sech4 * hidden.averages.sech4,
            iterations=iterations,
            converged=converged,
        )

    def rates(self, state: Tensor) -> Tensor:
        """Spectral radius (n,) of the Jacobian of a sweep: the growth factor of a small perturbation of (m, q)."""
        matrices = [
            torch.autograd.functional.jacobian(self.select(torch.tensor([n])).sweep, state[n : n + 1])[0, :, 0]
            for n in range(len(state))
        ]
        radii = [torch.linalg.eigvals(matrix).abs().max().item() for matrix in matrices]
        return torch.tensor(radii, dtype=torch.float64)
