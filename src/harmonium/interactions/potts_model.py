"""Pairwise models of categorical variables: p(x) ∝ exp(Σ_i h_i(x_i) + Σ_{i<j} J_ij(x_i, x_j))."""

from __future__ import annotations

import torch
from torch import Tensor

from ..couplings import Dense
from ..errors import InvalidData
from ..machines import RBM
from ..units import Potts
from . import construction


class PottsModel:
    """Potts model with fields h (sites, q) and couplings J (sites, q, sites, q), in float64.

    Couplings are symmetric, J_ij(a, b) = J_ji(b, a), and those of a site with itself are zero.

    >>> model = PottsModel(torch.zeros(2, 3), torch.zeros(2, 3, 2, 3))
    >>> model.energy(torch.eye(3)[torch.tensor([[0, 1]])])
    tensor([-0.], dtype=torch.float64)
    """

    def __init__(self, fields: Tensor, couplings: Tensor) -> None:
        self.fields = torch.as_tensor(fields, dtype=torch.float64).detach().cpu()
        self.couplings = torch.as_tensor(couplings, dtype=torch.float64).detach().cpu()
        shape = tuple(self.fields.shape)
        if len(shape) != 2 or tuple(self.couplings.shape) != 2 * shape:
            raise InvalidData(
                "Potts model: expected fields (sites, q) and couplings (sites, q, sites, q), "
                f"found {shape} and {tuple(self.couplings.shape)}"
            )
        if not bool(torch.isfinite(self.fields).all() and torch.isfinite(self.couplings).all()):
            raise InvalidData("Potts model: expected finite fields and couplings")
        if not torch.equal(self.couplings, self.couplings.permute(2, 3, 0, 1)):
            raise InvalidData("couplings: expected J_ij(a, b) = J_ji(b, a)")
        if bool(self.couplings.diagonal(dim1=0, dim2=2).any()):
            raise InvalidData("couplings: expected zero couplings of a site with itself")

    def __repr__(self) -> str:
        sites, q = self.fields.shape
        return f"PottsModel({sites} sites of {q} states)"

    def energy(self, x: Tensor) -> Tensor:
        """Energy -Σ_i h_i(x_i) - Σ_{i<j} J_ij(x_i, x_j) of one-hot states: (batch, sites, q) -> (batch,)."""
        x = torch.as_tensor(x, dtype=torch.float64).flatten(1)
        if x.shape[1] != self.fields.numel():
            raise InvalidData(f"states: expected shape (batch, {', '.join(map(str, self.fields.shape))})")
        pairs = (x @ self._matrix() * x).sum(1) / 2
        return -(x @ self.fields.flatten()) - pairs

    def to_rbm(self, units: int | None = None) -> RBM:
        """Construct an RBM with Potts visible and Gaussian hidden units: Bulso & Roudi (2021), eq. (22).

        It is exact for sites · q - 1 hidden ``units``, the default. With fewer, the couplings are approximated.

        >>> J = torch.zeros(2, 2, 2, 2)
        >>> J[0, 0, 1, 0] = J[1, 0, 0, 0] = 1.0
        >>> rbm = PottsModel(torch.zeros(2, 2), J).to_rbm()
        >>> same, different = torch.eye(2)[torch.tensor([[0, 0], [0, 1]])]
        >>> round((rbm.free_energy(different[None]) - rbm.free_energy(same[None])).item(), 6)
        1.0
        """
        binary = construction.linear(self._matrix(), self.fields.flatten(), units)
        shape = tuple(self.fields.shape)
        visible = Potts(shape, bias=binary.visible.bias.detach().reshape(shape))
        return RBM(visible, binary.hidden, Dense(shape, binary.hidden.size, binary.weight.detach()))

    def _matrix(self) -> Tensor:
        return self.couplings.reshape(self.fields.numel(), -1)
