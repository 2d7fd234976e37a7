"""Imputation of missing values and inpainting."""

from __future__ import annotations

from typing import Any

import torch

from ..arrays import as_tensor
from ..errors import InvalidData
from ..machines import BoltzmannMachine
from .channels import Erasure
from .denoising import denoise
from .posterior import Posterior


def impute(machine: BoltzmannMachine, x: Any, missing: Any = None, **options: Any) -> Posterior:
    """Infer missing values given the known values: the posterior of the missing values.

    Known values are unchanged in ``means`` and ``rounded``. With ``method="gibbs"``, ``draws`` has complete rows
    drawn from the posterior.

    Args:
        machine: the prior P(x), of any depth.
        x: rows (n, *visible).
        missing: boolean mask (n, *visible), or (*visible) for the same mask in all rows. By default NaN values are
            missing. A one-hot unit is missing if any of its components is.
        options: options of :func:`denoise`.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> impute(rbm, [[1.0, float("nan"), 0.0]]).means
    tensor([[1.0000, 0.5000, 0.0000]])
    """
    states = machine.as_states(x, missing=True)
    if missing is not None:
        mask = as_tensor(missing, "missing").to(states.device)
        if mask.dtype != torch.bool or mask.shape not in (states.shape, states.shape[1:]):
            raise InvalidData(
                f"missing: expected a boolean mask of shape {tuple(states.shape)} or {tuple(states.shape[1:])}, "
                f"found {mask.dtype} {tuple(mask.shape)}"
            )
        if bool((torch.isnan(states) & ~mask).any()):
            raise InvalidData("missing: expected every NaN to be in the mask, found a NaN outside it")
        states = states.masked_fill(mask, torch.nan)
    return denoise(machine, states, Erasure(1.0), **options)
