"""How much the likelihood would still rise if training continued."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .schedules import Clock, Setting

#: nats per row; a smaller expected gain is not reported
LEAST = 0.05
_WINDOW = 0.8  # likelihoods from 0.8 t to t are averaged, against the noise of single updates


def expected_gain(
    history: Sequence[dict[str, float]], epochs: int, schedule: Callable[[Clock], Setting]
) -> float | None:
    """Return the gain in log-likelihood per row, in nats, that another training of ``epochs`` epochs would bring.

    The time t of an epoch is the sum of the rates of the ``schedule`` up to it. With d₁ and d₂, the gains from t/4 to
    t/2 and from t/2 to t, the gain is assumed to change by the factor r = min(1, d₂/d₁) whenever the time doubles. This
    is exact if the likelihood approaches its limit as a power of the time, or rises as its logarithm. The last time t
    is the end of the full rate: afterwards the likelihood also rises because the updates become less noisy. None if
    the ``history`` has too few likelihoods.

    >>> def constant(clock):
    ...     return Setting()
    >>> history = [{"epoch": n, "log_likelihood": -1 - 1 / n} for n in range(1, 1001)]
    >>> round(expected_gain(history, 1000, constant), 5)  # exact: 1/1000 - 1/2000, without the average
    0.00056
    """
    rates = [schedule(Clock(n, epochs, (n - 0.5) / epochs)).rate for n in range(1, epochs + 1)]
    times = [0.0]
    for rate in rates:
        times.append(times[-1] + rate)
    most = max(rates)
    full = max((times[n] for n in range(1, epochs + 1) if rates[n - 1] > 0.99 * most), default=0.0)
    means = []
    for time in full / 4, full / 2, full:
        near = [
            row["log_likelihood"]
            for row in history
            if "log_likelihood" in row and _WINDOW * time <= times[int(row["epoch"])] <= time * (1 + 1e-9)
        ]
        if not near:
            return None
        means.append(sum(near) / len(near))
    earlier, later = means[1] - means[0], means[2] - means[1]
    if later <= 0:
        return 0.0
    ratio = min(1.0, later / earlier) if earlier > 0 else 1.0
    return later * ratio ** math.log2(2 * times[-1] / full)


def problem(gain: float | None) -> str | None:
    """Return what to do if the likelihood still rises; None if it does not, or if this is unknown."""
    if gain is None or gain < LEAST:
        return None
    return (
        f"the likelihood is still rising: another training of the same length would gain about {gain:.2g} nats per "
        f"row; call fit again, or give more epochs"
    )
