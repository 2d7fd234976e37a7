"""The base machine of a path: its construction, ln Z and initial states."""

from __future__ import annotations

from torch import Generator, Tensor

from ..errors import InvalidOption
from ..machines import BoltzmannMachine, enumeration
from ..machines.chain import ArrayLike
from .path import draws, fitted, free, independent, matched, uncoupled_log_partition

_SWEEPS = 1000


def base_machine(
    machine: BoltzmannMachine,
    base: BoltzmannMachine | ArrayLike | None = None,
    *,
    near: bool = False,
    coupled: bool = True,
    generator: Generator | None = None,
) -> BoltzmannMachine:
    """The base of a path to ``machine``, constructed from data or given as a machine.

    Args:
        machine: the target of the path.
        base: data (n, *visible), whose single-site statistics the base matches; a machine, which is returned; or
            ``None``.
        near: whether the base matches single-site statistics of *all* layers: those of the data and of hidden states
            given the data (:func:`matched`) or, without data, those of short chains (:func:`fitted`). Otherwise only
            the visible units match the data (:func:`independent`) or, without data, all biases are zero (:func:`free`).
        coupled: whether a base with couplings is allowed.
        generator: random generator; ``near`` draws one number from it.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> base_machine(rbm, [[0.0, 1.0, 1.0]]).visible.bias.sign().tolist()
    [-1.0, 1.0, 1.0]
    """
    if isinstance(base, BoltzmannMachine):
        if not coupled and has_couplings(base):
            raise InvalidOption("base: expected data or a machine without couplings, found one with couplings")
        return base
    if base is None:
        return fitted(machine, generator) if near else free(machine)
    return matched(machine, base, generator) if near else independent(machine, base)


def has_couplings(machine: BoltzmannMachine) -> bool:
    """Whether any weight is nonzero."""
    return any(bool(coupling.weight.any()) for coupling in machine.couplings)


def base_log_partition(base: BoltzmannMachine) -> float:
    """ln Z of a base: a sum over units if it is uncoupled, otherwise by enumeration."""
    return base.log_partition() if has_couplings(base) else uncoupled_log_partition(base)


def base_states(base: BoltzmannMachine, n: int, generator: Generator | None = None) -> list[Tensor]:
    """Initial states for annealing, (n, *shape) for every layer.

    The draws are exact if the base has no couplings, or at most 2²⁰ joint states of its even or of its odd layers. For
    a larger coupled base they are the result of 1000 Gibbs sweeps from uncoupled units. Estimates from such states are
    unbiased only if these sweeps reach equilibrium.
    """
    if not has_couplings(base):
        return draws(base, n, generator)
    if enumeration.enumerable(base):
        return enumeration.draws(base, n, generator)
    state = draws(base, n, generator)
    for _ in range(_SWEEPS):
        state = base.sweep(state, generator)
    return state
