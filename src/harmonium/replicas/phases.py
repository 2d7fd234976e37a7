"""Phase diagram of one mode with noise, analogous to a spin glass with a ferromagnetic coupling.

Decelle, Fissore & Furtlehner (2017) interpret 1/σ as a temperature T and w/σ as the coupling J.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InvalidOption
from ..shown import brief
from .averages import COMPONENTS
from .ensemble import Ensemble, numbers
from .equations import Equations
from .thermodynamics import Phase, phase

_ROWS = 8  # rows per call: the number of quadrature nodes depends on the largest field among them


@brief
@dataclass(frozen=True)
class PhaseDiagram:
    """The solution of lowest free energy at each temperature 1/σ (rows) and coupling w/σ (columns).

    ``hidden`` |m|, ``visible`` |m̄|, ``hidden_overlap`` q, ``visible_overlap`` q̄, ``free_energy`` -ln Z / L, ``at`` and
    ``converged`` have shape (temperatures, couplings).
    """

    temperatures: Tensor
    couplings: Tensor
    kappa: float
    components: str
    hidden: Tensor
    visible: Tensor
    hidden_overlap: Tensor
    visible_overlap: Tensor
    free_energy: Tensor
    at: Tensor
    converged: Tensor

    @property
    def phases(self) -> list[list[Phase]]:
        """Names of the phases, one list for each temperature; see :func:`harmonium.replicas.thermodynamics.phase`."""
        rows = zip(self.hidden.tolist(), self.hidden_overlap.tolist(), self.at.tolist(), strict=True)
        return [[phase(m, q, at) for m, q, at in zip(*row, strict=True)] for row in rows]


def phase_diagram(
    temperatures: Sequence[float],
    couplings: Sequence[float],
    *,
    kappa: float = 1.0,
    components: str = "gaussian",
    tolerance: float = 1e-10,
    max_iterations: int = 2_000,
) -> PhaseDiagram:
    """Solve the saddle-point equations for one mode on a grid of T = 1/σ and J = w/σ.

    At every point the iteration starts once with and once without overlap with the mode; the solution of lower free
    energy is kept. Near phase boundaries it converges slowly; ``converged`` tells where it did.

    Args:
        temperatures: values of T = 1/σ.
        couplings: values of J = w/σ.
        kappa: ratio N_h / N_v of the layer sizes.
        components: distribution of the components of the mode; see :class:`Ensemble`.
        tolerance: stop if no overlap changes by more than this.
        max_iterations: maximum number of iterations.

    >>> found = phase_diagram([0.6, 1.5], [0.2, 1.2, 2.0])
    >>> found.phases
    [['spin glass', 'mixed', 'ferromagnetic'], ['paramagnetic', 'paramagnetic', 'ferromagnetic']]
    """
    checked = Ensemble([], 1.0, kappa, components)
    up, across = _axis("temperatures", temperatures), _axis("couplings", couplings)
    parts = [_lowest(rows, across, checked, tolerance, max_iterations) for rows in up.split(_ROWS)]
    grids = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return PhaseDiagram(up, across, checked.kappa, components, **grids)


def _lowest(up: Tensor, across: Tensor, rest: Ensemble, tolerance: float, max_iterations: int) -> dict[str, Tensor]:
    """Compute the fields of a phase diagram for some of its rows."""
    n = len(up) * len(across)
    sigma = (1 / up).repeat_interleave(len(across)).repeat(2)
    w = sigma * across.repeat(2 * len(up))
    start = torch.tensor([[1.0, 0.5]] * n + [[0.0, 0.5]] * n, dtype=torch.float64)
    kappa, no_bias = torch.full_like(sigma, rest.kappa), torch.zeros_like(w)[:, None]
    equations = Equations(COMPONENTS[rest.components], w[:, None], sigma, kappa, no_bias, no_bias)
    solved = equations.solve(start, 0.0, tolerance, max_iterations)
    with_mode, without = solved.free_energy.split(n)
    best = torch.where(with_mode <= without, 0, n) + torch.arange(n)
    values = {
        "hidden": solved.hidden[:, 0].abs(),
        "visible": solved.visible[:, 0].abs(),
        "hidden_overlap": solved.hidden[:, 1].clamp(min=0),
        "visible_overlap": solved.visible[:, 1].clamp(min=0),
        "free_energy": solved.free_energy,
        "at": solved.at,
        "converged": solved.converged,
    }
    return {name: value[best].reshape(len(up), len(across)) for name, value in values.items()}


def _axis(name: str, values: Sequence[float]) -> Tensor:
    axis = torch.tensor(numbers(name, values), dtype=torch.float64)
    if len(axis) == 0 or not (axis > 0).all():
        raise InvalidOption(f"{name}: expected one or more numbers above 0, found {values}")
    return axis
