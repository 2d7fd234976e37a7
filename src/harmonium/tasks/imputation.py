"""Imputation of missing values and inpainting."""

from __future__ import annotations

from typing import Any

import torch

from .. import noise
from ..arrays import as_tensor
from ..errors import InvalidData, InvalidOption
from ..machines import RBM, BoltzmannMachine, partial
from ..machines.partial import PartialRows
from ..noise import Seed
from .channels import Erasure
from .denoising import METHODS, denoise, evidence_of
from .inference import summable
from .posterior import Posterior

_ROWS = 1024  # rows that are completed at once


def impute(
    machine: BoltzmannMachine,
    x: Any,
    missing: Any = None,
    *,
    method: str | None = None,
    chains: int = 4,
    seed: Seed = None,
    **options: Any,
) -> Posterior:
    """Infer missing values given the known values: the posterior of the missing values.

    Known values are unchanged in ``means`` and ``rounded``. With ``method="gibbs"`` or ``"exact"``, ``draws`` has
    complete rows drawn from the posterior.

    Args:
        machine: the prior P(x), of any depth.
        x: rows (n, *visible).
        missing: boolean mask (n, *visible), or (*visible) for the same mask in all rows. By default NaN values are
            missing. A one-hot unit is missing if any of its components is.
        method: "tap" or "naive" for mean field, "gibbs" for Gibbs sampling, or "exact" for an RBM whose hidden layer
            has at most 2^20 states (20 Bernoulli units), with any number of missing values. By default "exact" where
            that takes seconds and no other option is given, else "tap".
        chains: number of draws for each row.
        seed: seed of the draws.
        options: other options of :func:`denoise`.

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
    if method is None:
        method = "exact" if not options and summable(machine, len(states)) else "tap"
    if method != "exact":
        return denoise(machine, states, Erasure(1.0), method=method, chains=chains, seed=seed, **options)
    if not isinstance(machine, RBM):
        raise InvalidOption(f"exact: expected an RBM (two layers), found {type(machine).__name__}; use {METHODS[-1]}")
    if options:
        raise InvalidOption(f"exact: expected no option {next(iter(options))}, which belongs to other methods")
    return _exact(machine, states, chains, noise.generator(seed, machine.device))


def _exact(rbm: RBM, states: torch.Tensor, chains: int, generator: torch.Generator | None) -> Posterior:
    partial.check_enumerable(rbm)
    evidence = evidence_of(rbm, states, Erasure(1.0))
    known = evidence.known
    assert known is not None
    rows = PartialRows(torch.where(known, evidence.values, 0.0), known)
    parts = []
    for index in torch.arange(len(states), device=rbm.device).split(_ROWS):
        some = rows.rows(index)
        found = partial.moments(rbm, some)
        parts.append(
            Posterior(
                "exact",
                found.visible,
                found.variance,
                converged=torch.ones(len(index), dtype=torch.bool, device=rbm.device),
                iterations=torch.zeros(len(index), dtype=torch.int64, device=rbm.device),
                visible=rbm.visible,
                draws=partial.draws(rbm, some, chains, generator),
            )
        )
    return Posterior.join(parts)
