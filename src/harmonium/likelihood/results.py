"""The two results of this package: an estimate of ln Z, and an estimate of the log-likelihood of data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from .. import noise
from ..estimates import Estimate, mean_of
from ..machines import Machine
from ..machines.phase_masses import Phases
from ..noise import Seed
from ..shown import Shown, short
from .rows import RowWeights, row_weights

_ERRORS = 3  # standard errors of sampled free energies in an interval


@dataclass(frozen=True, kw_only=True, repr=False)
class LogPartition(Shown):
    """An estimate of ln Z.

    Attributes:
        machine: the machine; for a deep belief network, ln Z is that of its top machine.
        value, standard_error: ln Z and its standard error: 0 for enumeration, infinite if it is unknown.
        interval: interval of ln Z at the level of three standard errors; an end without a bound is infinite.
        method: where the value comes from: "enumeration", "annealing", "reverse annealing", "both directions",
            "tempering", "population", "phases" or "TAP".
        problems: reasons to distrust the value; an empty tuple does not mean that it is accurate.
        samples: visible states (n, *visible) of the machine and their log-weights (n,), if the method has any.
        details: what else the method knows, by name; the function that returns the estimate documents it.
    """

    machine: Machine
    value: float
    standard_error: float
    interval: tuple[float, float]
    method: str
    problems: tuple[str, ...] = ()
    samples: tuple[Tensor, Tensor] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def trustworthy(self) -> bool:
        """Whether ``problems`` is empty."""
        return not self.problems

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The value of ln Z, its interval, the method, and whether to trust it."""
        facts = {"ln Z": short(self.value, 6), "interval": _interval(self.interval, 6), "method": self.method}
        return "LogPartition", {**facts, "trustworthy": _trust(self.problems)}

    def log_likelihood(
        self,
        data: Any,
        *,
        mask: Any = None,
        hidden: str | None = None,
        runs: int = 20,
        betas: int = 200,
        seed: Seed = None,
    ) -> LogLikelihood:
        """The mean of ln p(v) over the rows of ``data``, with this ln Z.

        Args:
            data: rows (n, *visible).
            mask: boolean, ``True`` for observed units; the others are summed out, and their values in ``data`` ignored.
                The sum is exact if the hidden layer has at most 2^20 states, otherwise annealed for each row.
            hidden: what replaces the sum over hidden layers of a deep machine that are too large: "naive" mean field,
                which gives a lower bound; "annealing" for each row, which is closer, and too small on average; or
                "tap". By default naive mean field, and "tap" if ln Z is that of TAP.
            runs: number of annealing runs for each row, or of samples of the hidden layers of a deep belief network.
            betas: number of steps of that annealing.
            seed: seed of the random generator.

        >>> import torch
        >>> import harmonium as hm
        >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
        >>> found = hm.likelihood.exact(rbm).log_likelihood(torch.zeros(2, 3))
        >>> round(found.value / math.log(2), 6), found.interval == (found.value, found.value)
        (-3.0, True)
        """
        generator = noise.generator(seed, self.machine.device)
        hidden = hidden or ("tap" if self.method == "TAP" else "naive")
        rows = row_weights(self.machine, data, mask, hidden=hidden, runs=runs, betas=betas, generator=generator)
        return LogLikelihood.of(self, rows)


@dataclass(frozen=True, kw_only=True, repr=False)
class LogLikelihood(Shown):
    """An estimate of the mean of ln p(v) over rows of data, in nats per row.

    Attributes:
        value: the mean.
        standard_error: standard error of the mean over the rows, that is, from the choice of the data.
        interval: interval of ``value`` for these rows, from the errors of ln Z and of the free energies.
        per_row: ln p of each row (n,), which may be paired with that of another machine.
        bound: whether value and interval are those of a lower bound (mean field, deep belief network).
        baseline: the value for independent units with the means of the data; None if units are missing.
        log_partition: the estimate of ln Z; None if every row has its own.
        problems: reasons to distrust the value.
        details: what else is known, by name: "row_errors" (n,) are the standard errors of ``per_row``, without ln Z.
    """

    value: float
    standard_error: float
    interval: tuple[float, float]
    per_row: Tensor
    bound: bool = False
    baseline: float | None = None
    log_partition: LogPartition | None = None
    problems: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(log_partition: LogPartition, rows: RowWeights) -> LogLikelihood:
        """The log-likelihood that follows from ln Z and ln p* of the rows."""
        per_row, (low, high) = rows.values - log_partition.value, log_partition.interval
        mean, error = rows.values.mean().item(), _ERRORS * rows.error
        unknown = () if math.isfinite(mean) else (f"the mean free energy of the data is {-mean}",)
        return LogLikelihood(
            value=mean - log_partition.value,
            standard_error=mean_of(per_row).standard_error,
            interval=(mean - high - error, mean - low + error),
            per_row=per_row,
            bound=rows.bound,
            baseline=rows.baseline,
            log_partition=log_partition,
            problems=(*log_partition.problems, *unknown),
            details={"row_errors": rows.errors},
        )

    @property
    def trustworthy(self) -> bool:
        """Whether ``problems`` is empty."""
        return not self.problems

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The log-likelihood, its interval, that of independent units, and whether to trust it."""
        name = f"{'lower bound of the ' * self.bound}log-likelihood"
        facts: dict[str, Any] = {name: f"{short(self.value, 5)} nats", "interval": _interval(self.interval, 5)}
        if self.baseline is not None:
            facts["independent units"] = f"{short(self.baseline, 5)} nats"
        return "LogLikelihood", {**facts, "rows": len(self.per_row), "trustworthy": _trust(self.problems)}

    def with_log_partition(self, other: LogPartition) -> LogLikelihood:
        """The log-likelihood of the same rows with another estimate of ln Z of the same machine."""
        assert self.log_partition is not None, "every row has its own ln Z"
        values = self.per_row + self.log_partition.value
        return LogLikelihood.of(other, RowWeights(values, self.details["row_errors"], self.bound, self.baseline))

    def minus(self, other: LogLikelihood) -> Estimate:
        """The difference from the log-likelihood of the same rows under another machine.

        The error is that of the mean of the paired differences over the rows, and of both ln Z.
        """
        difference = mean_of(self.per_row - other.per_row)
        both = {id(x): x for x in (self.log_partition, other.log_partition) if x is not None}
        errors = [x.standard_error for x in both.values()] if len(both) == 2 else [0.0]
        return Estimate(difference.value, math.hypot(difference.standard_error, *errors), difference.dof)

    def perplexity(self, lengths: Tensor) -> Estimate:
        """exp(-Σ ln p/ΣD) of documents with D = ``lengths`` (n,) words: the perplexity per word of all together.

        The error is that of a ratio of two means over the documents; infinite for one document.
        """
        lengths = lengths.to(self.per_row)
        value = math.exp(-(self.per_row.sum() / lengths.sum()).item())
        residuals = mean_of(self.per_row + math.log(value) * lengths)
        return Estimate(value, value * residuals.standard_error / lengths.mean().item(), residuals.dof)


def judge(found: LogPartition, check: Phases, missed: float, *, repair: bool | None = None) -> LogPartition:
    """Compare an estimate of ln Z with the phases of the machine, which are found without samples.

    All estimators end here. A sum over the phases of small error confirms an estimate with which it agrees, whatever
    its other problems (:meth:`Phases.verdict`). With ``repair``, it replaces an estimate that misses phases. With
    ``repair`` None, missed phases are only reported.

    Args:
        found: the estimate.
        check: the phases of its machine.
        missed: nats of phases that the samples of the estimate do not visit (:meth:`Phases.missed`).
        repair: whether the phases may replace the estimate.
    """
    details = {**found.details, "missed": missed}
    if repair is None:
        return replace(found, problems=(*found.problems, *check.problems(found.value, missed)), details=details)
    verdict = check.verdict(found.value, found.interval, found.problems, missed, replace=repair)
    known = replace(found, interval=verdict.interval, problems=verdict.problems, details=details)
    if verdict.log_partition == found.value or not math.isfinite(found.value):
        return known
    return replace(known, value=verdict.log_partition, standard_error=check.standard_error, method="phases")


def _interval(ends: tuple[float, float], digits: int) -> str:
    return f"[{short(ends[0], digits)}, {short(ends[1], digits)}]"


def _trust(problems: tuple[str, ...]) -> str:
    return "yes" if not problems else f"no: {'; '.join(problems)}"
