"""The machine at which a path begins: resolved from what was given, with its ln Z and states of it."""

from __future__ import annotations

from torch import Generator, Tensor

from ..errors import InvalidOption, NotEnumerable
from ..machines import BoltzmannMachine, enumeration
from ..machines.chain import ArrayLike
from .path import draws, fitted, free, independent, matched, uncoupled_log_partition

_EXACT_STATES = 2**20  # up to which coupled machines are drawn from by enumeration
_SWEEPS = 1000


def base_machine(
    machine: BoltzmannMachine,
    base: BoltzmannMachine | ArrayLike | None = None,
    *,
    near: bool = False,
    coupled: bool = True,
    generator: Generator | None = None,
) -> BoltzmannMachine:
    """The base of a path to ``machine``, from data, another machine or nothing.

    Args:
        machine: the end of the path.
        base: data (n, *visible), whose single-site statistics the base takes; a machine, which is the base; or
            ``None``.
        near: whether the base takes the single-site statistics of *all* layers near those of the machine: of hidden
            states given the data (:func:`matched`) or, without data, of short chains (:func:`fitted`). Otherwise the
            visible units alone take those of the data (:func:`independent`), or nothing has a bias (:func:`free`).
        coupled: whether a base with couplings is allowed.
        generator: source of the random numbers, from which ``near`` takes one.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> base_machine(rbm, [[0.0, 1.0, 1.0]]).visible.bias.sign().tolist()
    [-1.0, 1.0, 1.0]
    """
    if isinstance(base, BoltzmannMachine):
        if not coupled and has_couplings(base):
            raise InvalidOption("base: expected data or a machine without couplings, whose states can be drawn exactly")
        return base
    if base is None:
        return fitted(machine, generator) if near else free(machine)
    return matched(machine, base, generator) if near else independent(machine, base)


def has_couplings(machine: BoltzmannMachine) -> bool:
    """Whether any weight is not zero."""
    return any(bool(coupling.weight.any()) for coupling in machine.couplings)


def base_log_partition(base: BoltzmannMachine) -> float:
    """ln Z of a base: a sum over the units of an uncoupled one, by enumeration for a coupled one."""
    return base.log_partition() if has_couplings(base) else uncoupled_log_partition(base)


def base_states(base: BoltzmannMachine, n: int, generator: Generator | None = None) -> list[Tensor]:
    """States of every layer, (n, *shape) each, from which annealing begins.

    They are exact draws of a base without couplings, and of one that has at most 2²⁰ states on its smaller side. Those
    of a larger coupled base are the ends of 1000 Gibbs sweeps from uncoupled units: not exact, so that what follows
    from them is unbiased only if these sweeps suffice.
    """
    if not has_couplings(base):
        return draws(base, n, generator)
    try:
        _, states = enumeration.cheaper_parity(base)
    except NotEnumerable:
        states = _EXACT_STATES + 1
    if states <= _EXACT_STATES:
        return enumeration.draws(base, n, generator)
    state = draws(base, n, generator)
    for _ in range(_SWEEPS):
        state = base.sweep(state, generator)
    return state
