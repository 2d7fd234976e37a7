"""How well chains mix."""

from __future__ import annotations

import torch
from torch import Tensor


def autocorrelation(series: Tensor, lags: int | None = None) -> Tensor:
    """The normalised autocorrelation of ``series`` (steps, chains), averaged over the chains: (lags + 1,).

    The mean is taken over all chains and steps, so that chains that stay apart count as correlated.
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
    """τ = 1/2 + Σ_t ρ(t), summed to the first t ≥ window·τ (Sokal): the steps between independent draws are 2τ.

    ``series`` is (steps,) or (steps, chains). Infinite when the sum has not settled within the series.

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
