"""Belief propagation from initial magnetizations, and its free energy."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from ...errors import InvalidOption, unknown
from ...machines import BoltzmannMachine
from ..iteration import Map, Options, Update, iterate, split
from ..solutions import Solutions
from ..starts import Start, prepare
from .exact import CHUNK_ELEMENTS, Exact
from .graphs import Graph, Scheme
from .relaxed import Relaxed

_KINDS = ("relaxed", "exact")


@torch.no_grad()
def bp(
    machine: BoltzmannMachine,
    start: Start = None,
    *,
    messages: str = "relaxed",
    **options: Unpack[Options],
) -> Solutions:
    """Solve belief propagation and compute its Bethe free energy (Yedidia et al. 2005).

    ``messages="relaxed"`` uses the mean and variance of each message, Tramel et al. (2018), eqs. (B4)-(B8) and (B13),
    for scalar units. ``"exact"`` uses tables over the values of the units, eqs. (A3)-(A5), for units with finitely many
    values. The other arguments are those of :func:`tap`. Each start needs memory for two messages per pair of coupled
    units.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Spin(1), hm.units.Spin(1), hm.couplings.Dense(1, 1, torch.ones(1, 1)))
    >>> found = bp(rbm, messages="exact")
    >>> bool(torch.isclose(-found.free_energy[0], torch.tensor(rbm.log_partition())))  # a tree
    True
    """
    if messages not in _KINDS:
        raise unknown("type of messages", messages, _KINDS)
    rule, random = split(options)
    relaxed = messages == "relaxed"
    bound, layers, (a, c) = prepare(machine, start, quadratic=relaxed, **random)
    if relaxed and not all(layer.diagonal for layer in layers):
        raise InvalidOption("relaxed BP expects scalar units, found softmax units: use tap, or messages='exact'")
    graph: Graph = Relaxed(bound) if relaxed else Exact(bound)
    rows = max(1, CHUNK_ELEMENTS // max(graph.width, 1))
    given = start.messages if isinstance(start, Solutions) and start.method == graph.method else None
    parts = []
    for first in range(0, len(a[0]), rows):
        here = slice(first, first + rows)
        begin = graph.begin([x[here] for x in a], [x[here] for x in c]) if given is None else [x[here] for x in given]
        scheme = Scheme(graph, [x.clone() for x in begin], rule.damping)
        outcome = iterate(scheme, rule)
        kept = _without(outcome.state, outcome.failed)
        a_, c_, B, A = graph.beliefs(kept)
        for mean in a_:  # a belief may be undefined even if the messages are defined
            outcome.failed |= torch.isnan(mean).flatten(1).any(1)
        outcome.converged &= ~outcome.failed
        value = torch.where(outcome.failed, torch.nan, graph.free_energy(kept))
        wanted = torch.isfinite(value) if rule.iterations is not None else outcome.converged
        found = Solutions(
            graph.method,
            outcome.blank(a_),
            outcome.blank(c_),
            B,
            A,
            torch.where(wanted, value, torch.nan),
            outcome.iterations,
            outcome.converged,
            messages=kept,
            damping=rule.damping,
        )
        parts.append(found)
    return Solutions.join(parts)


def free_energy(machine: BoltzmannMachine, solutions: Solutions) -> Tensor:
    """Return the estimate of -ln Z at given messages: (rows,), differentiable in the parameters."""
    graph: Graph = Relaxed(machine) if solutions.method == Relaxed.method else Exact(machine)
    lost = torch.isnan(solutions.magnetizations[0]).flatten(1).any(1)
    return torch.where(lost, torch.nan, graph.free_energy(solutions.messages))


def as_map(machine: BoltzmannMachine, solutions: Solutions) -> Map:
    """Return the iteration at solutions as a differentiable map of all messages."""
    graph: Graph = Relaxed(machine) if solutions.method == Relaxed.method else Exact(machine)

    def update(parity: int) -> Update:
        def new(x: list[Tensor]) -> dict[int, Tensor]:
            found: dict[int, Tensor] = {}
            for layer in range(parity, graph.depth, 2):
                found |= graph.renewed(layer, x)
            return found

        return new

    return Map(solutions.messages, [update(0), update(1)])


def _without(state: list[Tensor], lost: Tensor) -> list[Tensor]:
    """Return the messages with zeros in the lost rows, whose values are not used."""
    if not bool(lost.any()):
        return state
    return [torch.where(lost.view(-1, *(1 for _ in x.shape[1:])), 0.0, x) for x in state]
