"""Mixing diagnostics of Markov chains."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

if TYPE_CHECKING:
    from .chain import BoltzmannMachine
    from .given import Given


def autocorrelation(series: Tensor, lags: int | None = None) -> Tensor:
    """The normalized autocorrelation of ``series`` (steps, chains), averaged over the chains: (lags + 1,).

    The mean is taken over all chains and steps, so that chains that stay in different regions count as correlated.
    """
    steps = len(series)
    x = series.double().reshape(steps, -1)
    x = x - x.mean()
    size = 2 * steps
    power = torch.fft.rfft(x, size, dim=0)
    covariance = torch.fft.irfft(power.abs().square(), size, dim=0)[:steps].mean(1)
    covariance = covariance / torch.arange(steps, 0, -1, dtype=torch.float64, device=x.device)
    correlation = covariance / covariance[0] if covariance[0] > 0 else torch.ones_like(covariance)
    return correlation[: (steps if lags is None else lags) + 1]


def integrated_autocorrelation_time(series: Tensor, window: float = 6.0) -> float:
    """The integrated autocorrelation time τ = 1/2 + Σ_t ρ(t), summed to the first t ≥ window·τ (Sokal 1997).

    Independent draws are 2τ steps apart. ``series`` is (steps,) or (steps, chains). Infinite if the sum does not
    converge within the series.

    >>> g = torch.Generator().manual_seed(0)
    >>> round(integrated_autocorrelation_time(torch.randn(4000, 10, generator=g)), 1)
    0.5
    """
    rho = autocorrelation(series if series.ndim > 1 else series.unsqueeze(1))
    tau = 0.5 + rho[1:].cumsum(0)
    lag = torch.arange(1, len(rho), dtype=torch.float64, device=rho.device)
    settled = torch.nonzero(lag >= window * tau)
    if len(settled) == 0 or settled[0].item() > len(rho) // 2:
        return float("inf")
    return max(0.5, tau[int(settled[0].item())].item())


_FEWEST_CHAINS, _FEWEST_RECORDS, _FEWEST_STATES = 2, 20, 800  # below which mixing cannot be judged
_FEWEST_FOR_DRIFT = 8  # chains, below which the standard error of their mean is unreliable


class Monitor:
    """Judge from a run of ``sweeps`` sweeps whether independent chains have mixed.

    The monitor records the first ``chains`` chains, projected on ``projections`` random directions that are the same
    for every run. Chains that all start in the same mode and stay there appear mixed; their states alone cannot show
    the difference.
    """

    def __init__(self, sweeps: int, *, chains: int = 256, projections: int = 8, records: int = 400) -> None:
        self.sweeps, self.chains, self.projections = sweeps, chains, projections
        self.every = max(1, sweeps // records)
        self._records: list[Tensor] = []
        self._directions: Tensor | None = None

    def start(self, x: Tensor) -> None:
        """Record the initial states (n, *shape) of the chains."""
        flat = x[: self.chains].flatten(1)
        direction = torch.randn(
            flat.shape[1], self.projections, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
        )
        self._directions = (direction / direction.norm(dim=0)).to(flat)
        self._records = [flat @ self._directions]

    def observe(self, step: int, x: Tensor) -> None:
        """Record the states after sweep number ``step``, counted from 1."""
        if step % self.every == 0:
            assert self._directions is not None, "start was not called"
            self._records.append(x[: self.chains].flatten(1) @ self._directions)

    @property
    def time(self) -> float:
        """The integrated autocorrelation time in sweeps of the slowest projection, over the second half of the run."""
        series = torch.stack(self._records[len(self._records) // 2 :])
        return self.every * max(integrated_autocorrelation_time(series[..., k]) for k in range(self.projections))

    @property
    def memory(self) -> float:
        """The correlation over the chains between initial and last states, averaged over the projections."""
        first, last = (x - x.mean(0) for x in (self._records[0].double(), self._records[-1].double()))
        scale = (first.square().sum(0) * last.square().sum(0)).sqrt()
        return torch.where(scale > 0, (first * last).sum(0) / scale.clamp(min=1e-300), 0.0).mean().item()

    @property
    def unjudged(self) -> str | None:
        """Why mixing cannot be judged, and what would be needed; ``None`` if it can be judged.

        One chain cannot be compared with others, and the autocorrelation time needs 20 recorded sweeps and 800 states
        over all chains.
        """
        n, count = len(self._records[0]), len(self._records)
        if n >= _FEWEST_CHAINS and count >= _FEWEST_RECORDS and n * count >= _FEWEST_STATES:
            return None
        chains = max(n, _FEWEST_CHAINS)
        sweeps = max(self.sweeps, _FEWEST_RECORDS, math.ceil(_FEWEST_STATES / chains))
        made = f"{n} chain{'s' if n > 1 else ''} of {self.sweeps} sweep{'' if self.sweeps == 1 else 's'}"
        return (
            f"{made} {'are' if n > 1 else 'is'} too few; expected at least {sweeps} sweeps of {chains} or more chains"
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """Evidence that the chains have not mixed; see also :attr:`unjudged`."""
        n, count = len(self._records[0]), len(self._records)
        found = []
        if count > 1 and n >= 16 and self.memory > 0.1 + 4 / math.sqrt(n * self.projections):
            found.append(f"states are still correlated with the initial states ({self.memory:.2f})")
        if self.unjudged is None:
            drift, time = self.drift(), self.time
            if drift > 5 and n >= _FEWEST_FOR_DRIFT:
                found.append(
                    f"the mean over the chains still drifts (by {drift:.0f} standard errors in the second half)"
                )
            if math.isinf(time):
                found.append(f"the autocorrelation does not decay within {self.sweeps} sweeps")
            elif 20 * time > self.sweeps:
                found.append(
                    f"independent states are about {2 * time:.0f} sweeps apart, but only {self.sweeps} were made"
                )
        return tuple(found)

    def drift(self, since: float = 0.5) -> float:
        """The change of the mean over the chains from the fraction ``since`` of the run to its end, in standard errors.

        The maximum over the projections; ``since=0`` is the initial state.
        """
        then, last = self._records[int(since * len(self._records))].double(), self._records[-1].double()
        error = ((then.var(0) + last.var(0)) / len(last)).sqrt()
        moved = (last.mean(0) - then.mean(0)).abs()
        return torch.where(error > 0, moved / error.clamp(min=1e-300), 0.0).max().item()


@torch.no_grad()
def watch(
    machine: BoltzmannMachine,
    start: Tensor,
    sweeps: int,
    generator: Generator | None = None,
    callback: Callable[[int, list[Tensor]], None] | None = None,
    *,
    given: Given | None = None,
) -> tuple[Monitor, list[Tensor]]:
    """Run Gibbs chains from the visible states ``start`` (n, *visible); returns the monitor and the last state.

    Units that are observed according to ``given``, whose rows are repeated, keep their value in ``start``. Only chains
    with the same observed values and the same context can be compared, so the monitor records those of the first row.
    """
    monitor = Monitor(sweeps)
    held = {} if given is None else {0: given.cycled(len(start)).mask}
    alike = math.lcm(machine.distinct, 1 if given is None else len(given))
    monitor.start(start[::alike])
    machine = machine.conserving(start)
    state = machine.initial_state(start, generator)
    for step in range(sweeps):
        state = machine.sweep(state, generator, held=held)
        monitor.observe(step + 1, state[0][::alike])
        if callback is not None:
            callback(step, state)
    return monitor, state
