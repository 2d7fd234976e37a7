"""Baselines for denoising without a machine: the pointwise estimator and nearest training rows."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..checks import whole
from ..errors import InvalidData, InvalidOption
from ..quality.inputs import rows
from ..units import Unit
from . import inference
from .channels import Channel
from .posterior import Posterior

_TILE = 2**24  # distances per step


class Pointwise:
    """Optimal pointwise estimator (OPE): Tramel et al. (2018), eq. (45), with the sign corrected.

    It is optimal among the estimators that treat all units as independent.

    Args:
        unit: layer of independent units with the single-site statistics of the signal; see also :meth:`from_data`.

    >>> from harmonium.units import Bernoulli
    >>> from harmonium.tasks import BinarySymmetric
    >>> estimator = Pointwise.from_data(Bernoulli(2), torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 1.0]]))
    >>> estimator.estimate(torch.tensor([[0.0, 0.0]]), BinarySymmetric(0.4)).means
    tensor([[0.3077, 0.7273]])
    """

    def __init__(self, unit: Unit) -> None:
        if not isinstance(unit, Unit):
            raise InvalidOption(
                f"unit: expected a layer of units, found {type(unit).__name__}. Use from_data for training data"
            )
        self.unit = unit

    @classmethod
    def from_data(cls, unit: Unit, data: Any, pseudocount: float | None = None) -> Pointwise:
        """Create the estimator from training data, with the same rule that initializes biases for training.

        Args:
            unit: layer of units of the type of the data.
            data: training rows (n, *shape).
            pseudocount: for binary units, number of observations of each value added to the data (default 1).
        """
        own = copy.deepcopy(unit)
        states = rows(data, "data", fewest=1).to(own.bias)
        own.check(states)
        own.initialize_from(states, pseudocount)
        return cls(own)

    def estimate(self, noisy: Any, channel: Channel) -> Posterior:
        """Posterior of each unit given only its own observation; ``noisy`` is (n, *shape)."""
        channel.check(self.unit)
        y = as_tensor(noisy, "observations").to(self.unit.bias)
        if y.shape[1:] != self.unit.shape or len(y) == 0:
            raise InvalidData(f"observations: expected shape (n, {tuple(self.unit.shape)}), found {tuple(y.shape)}")
        return inference.pointwise(self.unit, channel.log_likelihood_terms(y, self.unit))


@torch.no_grad()
def nearest_neighbors(train: Any, noisy: Any, *, k: int = 1) -> Tensor:
    """Mean of the ``k`` training rows (m, *shape) nearest to each observation: (n, *shape).

    Distances are Euclidean over the entries that are not erased (NaN). For binary values this is the number of flips,
    and the nearest row is the most probable training row under a binary symmetric channel.

    >>> nearest_neighbors(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([[1.0, 0.9]]))
    tensor([[1., 1.]])
    """
    examples = rows(train, "train", fewest=1)
    y = as_tensor(noisy, "observations").to(examples)
    if y.shape[1:] != examples.shape[1:]:
        raise InvalidData(f"observations: expected rows of shape {tuple(examples.shape[1:])}, found {tuple(y.shape)}")
    if not 1 <= whole("k", k) <= len(examples):
        raise InvalidOption(f"k: expected a number from 1 to {len(examples)}, found {k}")
    flat = examples.flatten(1)
    square, found = flat.square(), []
    for part in y.flatten(1).split(max(1, _TILE // len(flat))):
        seen = ~torch.isnan(part)
        distance = seen.to(flat) @ square.T - 2 * (torch.where(seen, part, 0.0) @ flat.T)
        index = distance.argmin(1, keepdim=True) if k == 1 else distance.topk(k, largest=False).indices
        found.append(examples[index].mean(1))
    return torch.cat(found)
