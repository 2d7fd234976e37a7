"""The contrastive loss, a difference of two free energies."""

from __future__ import annotations

from torch import Tensor

from ..machines import RBM


def contrastive(machine: RBM, data: Tensor, model: Tensor) -> Tensor:
    """Return the loss ⟨F(v)⟩_data - ⟨F(v')⟩_model; Hwang, Hwang & Jo (2020), eq. (4) with corrected sign.

    ``data`` (n, *visible) and ``model`` (m, *visible) are constants; the gradient with respect to the parameters is
    that of contrastive divergence. ``fit`` computes the same gradient as a difference of moments, without autograd.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    >>> contrastive(rbm, torch.ones(3, 4), torch.ones(3, 4)).item()
    0.0
    """
    return machine.free_energy(data.detach()).mean() - machine.free_energy(model.detach()).mean()
