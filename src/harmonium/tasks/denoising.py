"""Denoising with a machine as prior, for any units, channel and depth: Tramel et al. (2018), section VII.4."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import noise
from ..errors import InvalidData, unknown
from ..machines import BoltzmannMachine
from ..noise import Seed
from . import inference
from .baselines import Pointwise
from .channels import Channel
from .observed import Evidence
from .posterior import Posterior

METHODS = ("exact", "tap", "naive", "gibbs")


def denoise(
    machine: BoltzmannMachine,
    noisy: Any,
    channel: Channel,
    *,
    method: str | None = None,
    start: str | Pointwise | Any = "pointwise",
    damping: float = 0.5,
    tolerance: float = 1e-8,
    max_iterations: int = 1000,
    chains: int = 4,
    sweeps: int = 500,
    warm_up: int = 100,
    seed: Seed = None,
) -> Posterior:
    """Infer signals from noisy observations: the posterior P(x|y) ∝ P(y|x) P(x).

    Args:
        machine: the prior P(x), of any depth.
        noisy: observations y (n, *visible).
        channel: the noise channel P(y|x).
        method: "exact" for the sum over the states of the hidden layer of an RBM, "tap" or "naive" for mean field,
            "gibbs" for Gibbs sampling, which is exact but slow. By default "exact" where that takes seconds, else
            "tap". The others are compared with the exact posterior, for large hidden layers mean field with Gibbs
            sampling of some rows; rows with a large difference have not converged, and a warning :class:`Inaccurate`
            says so.
        start: initial magnetizations; they matter because mean field has many solutions. "pointwise": the posterior of
            each visible unit without couplings. A :class:`Pointwise` estimator from training data, as in Tramel et
            al. (2018), is better for strong noise. Or magnetizations (n, *visible).
        damping, tolerance, max_iterations: options of mean field; see :func:`harmonium.meanfield.tap`.
        chains: number of Gibbs chains, or of exact draws, for each row.
        sweeps: number of Gibbs sweeps of each chain.
        warm_up: number of Gibbs sweeps to discard before these.
        seed: seed of Gibbs sampling and of exact draws.

    >>> import harmonium as hm
    >>> from harmonium.tasks import BinarySymmetric
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> found = denoise(rbm, torch.tensor([[0.0, 1.0, 1.0]]), BinarySymmetric(0.2))
    >>> found.means, found.rounded  # no couplings, no bias: only the observation counts
    (tensor([[0.2000, 0.8000, 0.8000]]), tensor([[0., 1., 1.]]))
    """
    if method is not None and method not in METHODS:
        raise unknown("method", str(method), METHODS)
    channel.check(machine.visible)
    evidence = evidence_of(machine, noisy, channel)
    begin = _start(machine, evidence, noisy, channel, start)
    if method is None:
        method = "exact" if inference.summable(machine, len(evidence)) else "tap"
    generator = noise.generator(seed, machine.device)
    if method == "exact":
        return inference.exact(machine, evidence, chains, generator)
    if method == "gibbs":
        found = inference.gibbs(machine, evidence, begin, inference.Chains(chains, sweeps, warm_up), generator)
    else:
        options = inference.FixedPoint(damping, tolerance, max_iterations)
        found = inference.mean_field(machine, evidence, begin, method, options)
    return inference.checked(found, machine, evidence, begin)


def evidence_of(machine: BoltzmannMachine, noisy: Any, channel: Channel) -> Evidence:
    """Evidence of observations (n, *visible) about the visible units of a machine."""
    y = machine.as_states(noisy, missing=True)  # erased values are NaN
    if len(y) == 0:
        raise InvalidData("observations: expected at least one row, found none")
    return channel.log_likelihood_terms(y, machine.visible)


def _start(
    machine: BoltzmannMachine, evidence: Evidence, noisy: Any, channel: Channel, start: str | Pointwise | Any
) -> Tensor:
    if isinstance(start, str):
        if start != "pointwise":
            raise unknown("start", start, ("pointwise",))
        return inference.pointwise(machine.visible, evidence).means
    if isinstance(start, Pointwise):
        return start.estimate(noisy, channel).means.to(evidence.values)
    begin = machine.as_states(start, missing=True)
    if len(begin) != len(evidence) or not bool(torch.isfinite(begin).all()):
        raise InvalidData(f"start: expected finite magnetizations of {len(evidence)} rows, found {len(begin)} rows")
    return evidence.fix(begin)
