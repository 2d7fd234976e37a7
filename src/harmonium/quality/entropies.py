"""Entropies: of a machine, of rows whose states can be counted, and the bound from independent sites. In nats."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ..errors import InvalidData, InvalidOption
from ..machines import RBM
from .distinct import codes
from .inputs import ArrayLike, one_hot_size, rows
from .measured import Measured

MOST_VALUES = 256  # that a site may have and still count as discrete
_SEEN = 0.95  # of the probability that has to be in states that were met for their frequencies to mean something
_CHUNK = 4096


@dataclass(frozen=True)
class Entropy:
    """An entropy from the frequencies of whole states, ``trustworthy`` where most of the probability has been seen.

    ``coverage`` is the probability of the states that were met (Good and Turing: one minus the share of rows whose
    state was met once); what was not met is missing from the entropy.
    """

    estimate: float
    standard_error: float
    states: int
    coverage: float

    @property
    def trustworthy(self) -> bool:
        """Whether there are rows enough."""
        return self.coverage >= _SEEN


@torch.no_grad()
def entropy(
    machine: RBM,
    log_partition: float | None = None,
    samples: ArrayLike | None = None,
    *,
    log_partition_error: float = 0.0,
) -> Measured:
    """The entropy of the visible layer, S = ln Z + ⟨F(v)⟩, in nats.

    With ``samples`` (n, *visible) of the machine the mean is over them, taken as independent; ``log_partition`` may
    then be left out where the machine can be enumerated. Without samples it is exact, over all visible states.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> round(entropy(rbm).estimate / math.log(2), 9)
    3.0
    >>> entropy(rbm, rbm.log_partition(), torch.zeros(10, 3))
    Measured(value=2.07944..., error=0.0)
    """
    if not isinstance(machine, RBM):
        raise InvalidOption(f"entropy expects an RBM (two layers), found {type(machine).__name__}")
    if samples is None:
        if log_partition is not None:
            raise InvalidOption("entropy: expected samples of the machine beside its log_partition, found none")
        _, log_p = machine.distribution()
        return Measured(-float((log_p.exp() * log_p).nan_to_num(0.0).sum()), 0.0)
    states = machine.as_states(rows(samples, "samples", fewest=2))
    machine.visible.check(states, "samples")
    log_z = machine.log_partition() if log_partition is None else float(log_partition)
    if not math.isfinite(log_z):
        raise InvalidOption(f"log_partition: expected a finite number, found {log_z}")
    free = torch.cat([machine.free_energy(chunk).double() for chunk in states.split(_CHUNK)])
    error = float(free.std()) / math.sqrt(len(free))
    return Measured(log_z + float(free.mean()), math.hypot(error, log_partition_error))


def site_entropy(x: ArrayLike) -> Measured:
    """Σ_i S(x_i): the entropy of independent sites with these frequencies, an upper bound of that of the rows.

    ``x`` is (n, *shape) of discrete values, or (n, ..., sites, states) where every site is one-hot. With the
    correction of Miller and Madow for the number of rows.

    >>> round(site_entropy(torch.tensor([[0.0, 1], [1, 1]] * 500)).estimate, 3)
    0.694
    """
    x = rows(x, "rows", fewest=2)
    n = len(x)
    if (states := one_hot_size(x)) > 1:
        indicators = [x.reshape(n, -1, states)[..., k] for k in range(states)]
    else:
        values = x.unique()
        if len(values) > MOST_VALUES:
            raise InvalidData(f"entropy: expected at most {MOST_VALUES} discrete values, found {len(values)}")
        indicators = [x.flatten(1) == value for value in values]
    total, occurring, surprise = 0.0, 0, torch.zeros(n, dtype=torch.float64, device=x.device)
    for indicator in indicators:
        frequency = indicator.mean(0, dtype=torch.float64)
        information = -frequency.clamp_min(1e-300).log()
        total += float(frequency @ information)
        occurring += int((frequency > 0).sum())
        surprise += (indicator.float() @ information.float()).double()  # row by row: sites may depend on each other
    sites = indicators[0].shape[1]
    return Measured(total + (occurring - sites) / (2 * n), float(surprise.std()) / math.sqrt(n))


def state_entropy(x: ArrayLike) -> Entropy:
    """The entropy of the rows (n, *shape) from how often each state occurs, with the correction of Miller and Madow.

    For few units or few states only: it never exceeds ln n by much, and says by ``trustworthy`` whether that matters.

    >>> found = state_entropy(torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]] * 50))
    >>> round(found.estimate - math.log(4), 4), found.states, found.trustworthy
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
