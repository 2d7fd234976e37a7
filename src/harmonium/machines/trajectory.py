"""The checkpoints of a training run in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import InvalidData
from . import BoltzmannMachine

Machines = Mapping[float, BoltzmannMachine] | Sequence[BoltzmannMachine]


def by_epoch(machines: Machines) -> tuple[list[float], list[BoltzmannMachine]]:
    """The sorted epochs and the machine of each epoch; the epochs of a sequence are 0, 1, 2, …

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Spin(2), hm.units.Spin(1))
    >>> by_epoch({8: rbm, 1: rbm})[0]
    [1.0, 8.0]
    """
    pairs = machines.items() if isinstance(machines, Mapping) else enumerate(machines)
    found = {float(epoch): machine for epoch, machine in pairs}
    if not found:
        raise InvalidData("machines: expected at least one checkpoint, found none")
    epochs = sorted(found)
    return epochs, [found[epoch] for epoch in epochs]
