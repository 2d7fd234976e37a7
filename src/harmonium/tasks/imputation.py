"""Missing values and in-painting: what a machine makes of the rest."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import InvalidData
from ..machines import BoltzmannMachine
from .channels import Erasure
from .denoising import denoise
from .posterior import Posterior


def impute(machine: BoltzmannMachine, x: Any, missing: Any = None, **options: Any) -> Posterior:
    """The posterior of the missing values of ``x`` (n, *visible) given those that are there.

    ``missing`` is a mask, (n, *visible) or (*visible) for the same region of all rows; without it, what is NaN is
    missing. A one-hot unit is missing if any of its components is. Known values stay exactly as they are in ``means``
    and ``rounded``; with ``method="gibbs"``, ``draws`` has complete rows drawn from the posterior. The ``options`` are
    those of :func:`denoise`.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> impute(rbm, [[1.0, float("nan"), 0.0]]).means
    tensor([[1.0000, 0.5000, 0.0000]])
    """
    states = machine.as_states(x)
    if missing is not None:
        mask = torch.as_tensor(missing, device=states.device)
        if mask.dtype != torch.bool or mask.shape not in (states.shape, states.shape[1:]):
            raise InvalidData(
                f"missing: expected a boolean mask of shape {tuple(states.shape)} or {tuple(states.shape[1:])}, "
                f"found {mask.dtype} {tuple(mask.shape)}"
            )
        if bool((torch.isnan(states) & ~mask).any()):
            raise InvalidData("missing: expected every NaN to be in the mask, found one that is not")
        states = states.masked_fill(mask, torch.nan)
    return denoise(machine, states, Erasure(1.0), **options)
