"""Entropies in nats: of a machine, of observed states, and the upper bound of independent sites."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ..errors import InvalidData, InvalidOption
from ..estimates import Estimate
from ..machines import RBM
from .distinct import codes
from .inputs import ArrayLike, one_hot_size, rows

MOST_VALUES = 256  # maximum number of values of a discrete site
_SEEN = 0.95  # minimum coverage: probability of the observed states
_CHUNK = 4096


@dataclass(frozen=True)
class Entropy:
    """Entropy estimated from the frequencies of states; ``trustworthy`` if the observed states cover most of them.

    ``coverage`` is the estimated total probability of the observed states, one minus the fraction of rows whose state
    occurs once (Good 1953). Unobserved states are missing from the entropy.
    """

    value: float
    standard_error: float
    states: int
    coverage: float

    @property
    def trustworthy(self) -> bool:
        """Whether the coverage is at least 0.95."""
        return self.coverage >= _SEEN


@torch.no_grad()
def entropy(
    machine: RBM,
    log_partition: float | None = None,
    samples: ArrayLike | None = None,
    *,
    log_partition_error: float = 0.0,
) -> Estimate:
    """Entropy of the visible layer, S = ln Z + ⟨F(v)⟩, in nats.

    Args:
        machine: an RBM.
        log_partition: ln Z; computed by enumeration if None.
        samples: independent samples (n, *visible) of the machine for the average ⟨F(v)⟩; None for the exact average
            over all visible states.
        log_partition_error: standard error of ``log_partition``.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> round(entropy(rbm).value / math.log(2), 9)
    3.0
    >>> entropy(rbm, rbm.log_partition(), torch.zeros(10, 3))
    Estimate(value=2.07944..., standard_error=0.0, dof=inf)
    """
    if not isinstance(machine, RBM):
        raise InvalidOption(f"machine: expected an RBM (two layers), found {type(machine).__name__}")
    if samples is None:
        if log_partition is not None:
            raise InvalidOption("samples: expected samples of the machine together with log_partition, found None")
        _, log_p = machine.distribution()
        return Estimate(-float((log_p.exp() * log_p).nan_to_num(0.0).sum()), 0.0)
    states = machine.as_states(rows(samples, "samples", fewest=2))
    machine.visible.check(states, "samples")
    log_z = machine.log_partition() if log_partition is None else float(log_partition)
    if not math.isfinite(log_z):
        raise InvalidOption(f"log_partition: expected a finite number, found {log_z}")
    free = torch.cat([machine.free_energy(chunk, check=False).double() for chunk in states.split(_CHUNK)])
    error = float(free.std()) / math.sqrt(len(free))
    return Estimate(log_z + float(free.mean()), math.hypot(error, log_partition_error))


def site_entropy(x: ArrayLike) -> Estimate:
    """Entropy Σ_i S(x_i) of independent sites with the observed frequencies, an upper bound of the entropy of the rows.

    Includes the bias correction of Miller (1955).

    Args:
        x: rows of discrete values (n, *shape), or one-hot rows (n, ..., sites, states).

    >>> round(site_entropy(torch.tensor([[0.0, 1], [1, 1]] * 500)).value, 3)
    0.694
    """
    x = rows(x, "rows", fewest=2)
    n = len(x)
    if (states := one_hot_size(x)) > 1:
        indicators = [x.reshape(n, -1, states)[..., k] for k in range(states)]
    else:
        values = x.unique()
        if len(values) > MOST_VALUES:
            raise InvalidData(f"rows: expected at most {MOST_VALUES} discrete values, found {len(values)}")
        indicators = [x.flatten(1) == value for value in values]
    total, occurring, surprise = 0.0, 0, torch.zeros(n, dtype=torch.float64, device=x.device)
    for indicator in indicators:
        frequency = indicator.mean(0, dtype=torch.float64)
        information = -frequency.clamp_min(1e-300).log()
        total += float(frequency @ information)
        occurring += int((frequency > 0).sum())
        surprise += (indicator.float() @ information.float()).double()  # per row, because sites may be correlated
    sites = indicators[0].shape[1]
    return Estimate(total + (occurring - sites) / (2 * n), float(surprise.std()) / math.sqrt(n))


def state_entropy(x: ArrayLike) -> Entropy:
    """Entropy of the rows (n, *shape) from the frequencies of their states, with the correction of Miller (1955).

    Suitable only for few states, because the estimate is limited to about ln n; check ``trustworthy``.

    >>> found = state_entropy(torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]] * 50))
    >>> round(found.value - math.log(4), 4), found.states, found.trustworthy
    (0.0075, 4, True)
    """
    x = rows(x, "rows", fewest=2)
    counts = codes(x)[0].bincount()
    n = len(x)
    p = counts.double() / n
    value = -float((p * p.log()).sum())
    variance = max(0.0, float((p * p.log().square()).sum()) - value**2)
    coverage = 1 - int((counts == 1).sum()) / n
    return Entropy(value + (len(counts) - 1) / (2 * n), math.sqrt(variance / n), len(counts), coverage)
