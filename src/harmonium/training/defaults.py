"""Defaults that ``fit`` chooses: the amount of training, the schedule, and the scale of initial weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..errors import InvalidOption
from ..machines import Machine

if TYPE_CHECKING:
    from .batches import Source

_PASSES, _UPDATES = 10, 4000
_MEASUREMENTS = 200  # at most, of the default training


def default_epochs(data: Source, machine: Machine, batch_size: int, share: int | None = None) -> int:
    """Return the default number of epochs: 4000 updates, or more if 10 passes over the distinct rows need more.

    The number of updates does not depend on how often the rows are repeated. ``share`` is the number of rows of one
    of several processes.

    >>> import torch, harmonium as hm
    >>> from harmonium.training.batches import as_rows
    >>> rows, rbm = torch.eye(16), hm.RBM(16, 2)
    >>> default_epochs(as_rows(rows), rbm, 100), default_epochs(as_rows(rows.repeat(1000, 1)), rbm, 100)
    (4000, 25)
    """
    share = len(data) if share is None else share
    if batch_size < 1:
        raise InvalidOption(f"batch_size: expected at least 1, found {batch_size}")
    steps = math.ceil(share / batch_size)
    updates = _UPDATES
    if _PASSES * steps > updates:  # only then the distinct rows are counted, which reads all rows
        updates = max(updates, math.ceil(_PASSES * steps * data.distinct(machine) / len(data)))
    return math.ceil(updates / steps)


def default_metrics_every(epochs: int) -> int:
    """Return the default number of epochs between measurements: at most 200 measurements.

    >>> default_metrics_every(100), default_metrics_every(4000)
    (1, 20)
    """
    return math.ceil(epochs / _MEASUREMENTS)


def default_schedule(from_data: bool) -> str:
    """Return the default schedule: one that ends at zero if the learning rates are chosen ``from_data``.

    With a constant learning rate, persistent chains of machines that mix slowly keep losing modes, and the likelihood
    depends on the step at which training ends. A learning rate given by the user is not changed.

    >>> default_schedule(True), default_schedule(False)
    ('linear:0.5', 'constant')
    """
    return "linear:0.5" if from_data else "constant"


def label_scale(machine: Machine) -> float:
    """Return the scale of the initial weights of a machine that learns to classify, 1/√(number of visible units).

    At zero weights ln p(label | features) has a saddle point: the gradients of the weights of the features and of the
    label are proportional to each other. Training leaves it slowly from weights of the usual scale 0.01.

    >>> import harmonium as hm
    >>> label_scale(hm.RBM(hm.units.Mixed(hm.units.Bernoulli(6), hm.units.Potts((1, 10))), 3))
    0.25
    """
    return 1 / math.sqrt(machine.visible.size)
