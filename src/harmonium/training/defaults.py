"""Defaults that ``fit`` chooses: the number of epochs, the schedule, and the scale of initial weights."""

from __future__ import annotations

import math

from ..errors import InvalidOption
from ..machines import Machine

#: the default schedule of earlier versions, whose checkpoints do not name it
CONSTANT = "constant"
_FEWEST_EPOCHS, _MOST_EPOCHS, _FEWEST_UPDATES = 10, 1000, 2000


def default_epochs(rows: int, batch_size: int) -> int:
    """Return the default number of epochs: 10, or more (up to 1000) if 2000 updates need more.

    >>> default_epochs(60_000, 100), default_epochs(1797, 100)
    (10, 112)
    """
    if batch_size < 1:
        raise InvalidOption(f"batch_size: expected at least 1, found {batch_size}")
    return min(max(_FEWEST_EPOCHS, -(-_FEWEST_UPDATES // math.ceil(rows / batch_size))), _MOST_EPOCHS)


def default_schedule(from_data: bool) -> str:
    """Return the default schedule: one that ends at zero if the learning rates are chosen ``from_data``.

    With a constant learning rate, persistent chains of machines that mix slowly keep losing modes, and the likelihood
    depends on the step at which training ends. A learning rate given by the user is not changed.

    >>> default_schedule(True), default_schedule(False)
    ('linear:0.5', 'constant')
    """
    return "linear:0.5" if from_data else CONSTANT


def label_scale(machine: Machine) -> float:
    """Return the scale of the initial weights of a machine that learns to classify, 1/√(number of visible units).

    At zero weights ln p(label | features) has a saddle point: the gradients of the weights of the features and of the
    label are proportional to each other. Training leaves it slowly from weights of the usual scale 0.01.

    >>> import harmonium as hm
    >>> label_scale(hm.RBM(hm.units.Mixed(hm.units.Bernoulli(6), hm.units.Potts((1, 10))), 3))
    0.25
    """
    return 1 / math.sqrt(machine.visible.size)
