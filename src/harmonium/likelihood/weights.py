"""The theory of intervals: what independent estimates of a positive number say about the logarithm of their mean.

Annealing gives unbiased estimates w of Z, or of p*(v) of a row, of 1/Z in the reverse direction, or of Z for each
document length. Everything that is said about ln⟨w⟩, its error and its interval is in this module.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..estimates import LEVEL, quantile

CARRIED = 0.2  # smallest effective number of estimates, as a share; below it, intervals miss the true value too often
_ERRORS = 3.0
_MARKOV = math.log(370)  # 1/370 is the two-sided tail probability of three standard errors
_POPULATIONS_CARRIED = 0.6  # smallest effective number of populations, as a share
_STATES_CARRIED = 0.1  # the same for states without resampling, of which there are more
_FAMILIES = 3.0  # smallest effective number of families per population; with fewer, populations may agree by chance


@dataclass(frozen=True)
class Weights:
    """Logarithms of n independent estimates w of a positive number, or of as many numbers as the other dimensions have.

    The mean of w is unbiased, so its logarithm is too small on average (Jensen's inequality), and it is never far too
    large: P(⟨w⟩ > c·E w) ≤ 1/c (Markov's inequality). It may be much too small if large weights are rare.

    The entries of ``log_weights`` (n, *batch) are in float64. ``families`` (m,) are the shares of the total weight of
    the families in population annealing, whose few estimates are the independent populations. Then errors are those of
    Student's t distribution and, for a single population, of the families.
    """

    log_weights: Tensor
    families: Tensor | None = None

    def __len__(self) -> int:
        return len(self.log_weights)

    @property
    def log_mean(self) -> Tensor:
        """ln⟨w⟩, (*batch,)."""
        return torch.logsumexp(self.log_weights, 0) - math.log(len(self))

    @property
    def effective(self) -> Tensor:
        """The effective number of estimates, (Σw)²/Σw² (*batch,)."""
        return 1 / torch.softmax(self.log_weights, 0).square().sum(0)

    @property
    def effective_families(self) -> float:
        """The effective number of families, 1/Σ shares².

        Resampling between small steps removes families by chance alone. This correlates the states but is not an error
        of ln Z.
        """
        return math.inf if self.families is None else 1 / self.families.square().sum().item()

    @property
    def standard_error(self) -> Tensor:
        """Relative standard error of ⟨w⟩, which is the standard error of ln⟨w⟩ to first order (*batch,).

        Infinite for a single estimate, or if an estimate is not finite. For a single population it follows from its m
        families: √((ρ - 1)/(m - 1)), where ρ = m Σ shares². This is too large if families die out by chance.
        """
        n, w = len(self), self._scaled
        if n == 1 and self.families is not None and len(self.families) > 1:
            m = len(self.families)
            spread = ((m / self.effective_families - 1) / (m - 1)) if self.effective_families < m else 0.0
            return torch.full_like(w[0], math.sqrt(spread))
        if n == 1:
            return torch.full_like(w[0], math.inf)
        error = w.std(0) / w.mean(0) / math.sqrt(n)
        return torch.where(self._finite, error, math.inf)

    @property
    def interval(self) -> tuple[Tensor, Tensor]:
        """Two-sided interval of ln E w at the level of three standard errors, if w represents its distribution.

        Infinite where the standard error is. ⟨w⟩ can be too small because large weights are rare. On that side the
        width is the largest of three standard errors with a correction for the skewness of w (Johnson 1978), and of an
        expansion of ln⟨w⟩ in the cumulants of ln w with its error; it is infinite if :attr:`uneven`. On the other side,
        Markov's inequality limits the width to ln 370.
        """
        value, known = self.log_mean, torch.isfinite(self.standard_error)
        low, high = value - self._excess, value + self._lack
        return torch.where(known, low, -math.inf), torch.where(known, high, math.inf)

    @property
    def uneven(self) -> Tensor:
        """Whether few estimates, or few families, have most of the weight (*batch,)."""
        return self.few(CARRIED) if self.families is None else self._few_populations | self._few_families

    def few(self, share: float) -> Tensor:
        """Whether the effective number of estimates is less than ``share`` of all of them (*batch,)."""
        return ~(self.effective >= share * len(self))

    def problems(self, share: float = CARRIED) -> tuple[str, ...]:
        """Reasons to distrust ln⟨w⟩ of a single number; ``share`` is the smallest effective share of the estimates."""
        n, effective = len(self), self.effective.item()
        if not self._finite:
            if self.families is not None:
                return ("the weights are not finite",)
            failed = int((~torch.isfinite(self.log_weights)).sum())
            return (f"the weights of {failed} of {n} runs are not finite",)
        if self.families is not None:
            return self._population_problems()
        if n == 1:
            return ("a single run gives no standard error: use more runs",)
        if not effective >= max(5.0, share * n):
            more = "runs" if n < 5 else "betas"
            return (f"the effective sample size is only {effective:.1f} of {n} runs: use more {more}",)
        return ()

    # -- the parts of an interval -------------------------------------------------------------------------------------

    @property
    def _scaled(self) -> Tensor:
        """The estimates relative to the largest one."""
        return (self.log_weights - self.log_weights.amax(0)).exp()

    @property
    def _finite(self) -> Tensor:
        return torch.isfinite(self.log_weights).all(0)

    @property
    def _quantile(self) -> float:
        """The number of standard errors: that of Student's t distribution for a few populations."""
        if self.families is None or len(self) == 1:
            return _ERRORS
        return quantile(LEVEL, len(self) - 1)

    @property
    def _excess(self) -> Tensor:
        """The amount by which ln⟨w⟩ may be too large."""
        spread = self._quantile * self.standard_error
        return torch.where(spread < 1, -torch.log1p(-spread.clamp(max=1)), math.inf).clamp(max=_MARKOV)

    @property
    def _lack(self) -> Tensor:
        """The amount by which ln⟨w⟩ may be too small because large weights are missing."""
        w, n, error = self.log_weights, len(self), self.standard_error
        if n == 1:
            lack = torch.log1p(self._quantile * error)
        elif self.families is None:
            scaled = self._scaled
            skewness = ((scaled - scaled.mean(0)) / scaled.std(0, correction=0)).pow(3).mean(0)
            skewed = torch.log1p(error * (3 + 19 / 6 * skewness / math.sqrt(n)).clamp_min(0))
            variance, third = w.var(0), (w - w.mean(0)).pow(3).mean(0).clamp_min(0)
            spread = 3 * (variance / n * (1 + variance / 2 + variance.square() / 6)).sqrt()
            lack = torch.maximum(skewed, w.mean(0) + variance / 2 + third / 6 + spread - self.log_mean)
        else:  # too few for a third moment: as if ln w were normal
            variance = w.var(0)
            spread = self._quantile * (variance / n * (1 + variance / 2)).sqrt()
            lack = torch.maximum(torch.log1p(self._quantile * error), w.mean(0) + variance / 2 + spread - self.log_mean)
        return torch.where(self.uneven, math.inf, torch.where(error == 0, 0.0, lack))

    # -- populations --------------------------------------------------------------------------------------------------

    @property
    def _unresampled(self) -> bool:
        """Whether every state is a population and a family of its own."""
        return self.families is not None and len(self) == len(self.families) > 1

    @property
    def _few_populations(self) -> Tensor:
        n = len(self)
        share = _STATES_CARRIED if self._unresampled else _POPULATIONS_CARRIED
        return ~(self.effective >= max(min(5.0, n / 2), share * n)) & (n > 1)

    @property
    def _few_families(self) -> bool:
        if self.families is None or self._unresampled:
            return False
        n, founders = len(self), len(self.families)
        least = max(5.0, min(100.0, 0.1 * founders)) if n == 1 else min(_FAMILIES * n, founders / 2)
        return not self.effective_families >= least

    def _population_problems(self) -> tuple[str, ...]:
        assert self.families is not None
        n, founders, problems = len(self), len(self.families), []
        advice = "use more betas, sweeps or states"
        if bool(self._few_populations):
            parts = "states" if n == founders else "independent populations"
            problems.append(f"{self.effective.item():.1f} of {n} {parts} contribute to ln Z: {advice}")
        if self._few_families:
            number = f"{self.effective_families:.1f} of {founders} families"
            problems.append(f"{number} contribute to the population: {advice}")
        return tuple(problems)
