"""Belief propagation with relaxed messages, Tramel et al. (2018), Appendix B, or exact messages, Appendix A.

Link k of the chain has a matrix W of shape (lower units, upper units); every pair of units has one message in each
direction. Relaxed BP describes a message by two moments and works for all scalar units. Exact messages are tables over
the values of a unit and need finitely many values; the result is then exact on trees.
"""

from __future__ import annotations

from typing import Protocol, Unpack

import torch
from torch import Tensor

from ..errors import InvalidOption, NotEnumerable, unknown
from ..machines import BoltzmannMachine
from ..units import Unit
from ..units.base import per_row
from .chain import respond_, undefined_rows
from .iteration import Map, Options, Update, iterate, split
from .solutions import Solutions
from .starts import Start, prepare

_CHUNK_ELEMENTS = 2**23
_KINDS = ("relaxed", "exact")
_ADJOINT_STEPS, _ADJOINT_TOLERANCE = 100, 1e-10


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
    graph: _Graph = _Relaxed(bound) if relaxed else _Exact(bound)
    rows = max(1, _CHUNK_ELEMENTS // max(graph.width, 1))
    given = start.messages if isinstance(start, Solutions) and start.method == graph.method else None
    parts = []
    for first in range(0, len(a[0]), rows):
        here = slice(first, first + rows)
        begin = graph.begin([x[here] for x in a], [x[here] for x in c]) if given is None else [x[here] for x in given]
        scheme = _Scheme(graph, [x.clone() for x in begin], rule.damping)
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
    graph: _Graph = _Relaxed(machine) if solutions.method == _Relaxed.method else _Exact(machine)
    lost = torch.isnan(solutions.magnetizations[0]).flatten(1).any(1)
    return torch.where(lost, torch.nan, graph.free_energy(solutions.messages))


def as_map(machine: BoltzmannMachine, solutions: Solutions) -> Map:
    """Return the iteration at solutions as a differentiable map of all messages."""
    graph: _Graph = _Relaxed(machine) if solutions.method == _Relaxed.method else _Exact(machine)

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


class _Graph(Protocol):
    """A representation of messages: tensors with one row per start."""

    method: str
    width: int  # number of entries of all messages of one start

    def begin(self, a: list[Tensor], c: list[Tensor]) -> list[Tensor]: ...

    def outgoing(self, layer: int, messages: list[Tensor]) -> tuple[dict[int, Tensor], Tensor]:
        """Return the new messages of a layer to its neighbors, by index, and a mask of undefined rows."""
        ...

    def beliefs(self, messages: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
        """Return the means and variances of all layers, and B and A (empty for exact messages)."""
        ...

    def renewed(self, layer: int, messages: list[Tensor]) -> dict[int, Tensor]:
        """Return the messages of :meth:`outgoing` as differentiable functions, without a check for undefined rows."""
        ...

    def residual(self, number: int, new: Tensor, old: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the differences of the means and of the standard deviations; None where a tensor has none."""
        ...

    def free_energy(self, messages: list[Tensor]) -> Tensor: ...

    @property
    def depth(self) -> int: ...


class _Scheme:
    """One iteration: update the messages of the even layers, then those of the odd layers."""

    def __init__(self, graph: _Graph, messages: list[Tensor], damping: float) -> None:
        self.graph, self.messages, self.damping = graph, messages, damping
        self.lost = torch.zeros(len(messages[0]), dtype=torch.bool, device=messages[0].device)
        self._spread = torch.zeros(len(messages[0]), dtype=messages[0].dtype, device=messages[0].device)

    def state(self) -> list[Tensor]:
        return self.messages

    def keep(self, rows: Tensor) -> None:
        self.messages = [x[rows] for x in self.messages]
        self.lost = self.lost[rows]

    def step(self, measure: bool = True) -> Tensor | None:
        """Do one sweep; return the mean squared residual of the means of all messages (cavity magnetizations)."""
        totals = torch.zeros(2, len(self.lost), dtype=self.messages[0].dtype, device=self.lost.device)
        counts = [0, 0]
        for parity in (0, 1):
            for layer in range(parity, self.graph.depth, 2):
                outgoing, lost = self.graph.outgoing(layer, self.messages)
                self.lost |= lost
                for k, value in outgoing.items():
                    if measure:
                        for kind, difference in enumerate(self.graph.residual(k, value, self.messages[k])):
                            if difference is not None:
                                totals[kind] += per_row(difference.square())
                                counts[kind] += difference[0].numel()
                    self.messages[k].lerp_(value, 1 - self.damping)
        if not measure:
            return None
        residual, self._spread = (total / count for total, count in zip(totals, counts, strict=True))
        return residual.masked_fill_(self.lost, torch.nan)

    def spread(self) -> Tensor:
        """Return the mean squared residual of the standard deviations of all messages: (rows,)."""
        return self._spread


class _Relaxed:
    """Messages as means and variances.

    For link k, messages 4k and 4k + 1 are a and c in the upward direction, (rows, upper, *lower), and 4k + 2 and 4k + 3
    are a and c in the downward direction, (rows, lower, *upper).
    """

    method = "bp"

    def __init__(self, machine: BoltzmannMachine) -> None:
        self.units = machine.layers
        self.weights = [coupling.matrix() for coupling in machine.couplings]
        self.depth = len(self.units)
        self.width = 4 * sum(weight.numel() for weight in self.weights)

    def begin(self, a: list[Tensor], c: list[Tensor]) -> list[Tensor]:
        found = []
        for k in range(self.depth - 1):
            for source, target in ((k, k + 1), (k + 1, k)):
                size = self.units[target].size
                found += [x[source].unsqueeze(1).repeat_interleave(size, 1) for x in (a, c)]
        return found

    def _incoming(self, layer: int, messages: list[Tensor]) -> list[tuple[int, Tensor, Tensor]]:
        """Return for each neighbor layer the index of the messages to it, and W a and -W² c of the messages from it.

        Both have shape (rows, units of the neighbor, *shape of the layer).
        """
        found = []
        shape = self.units[layer].shape
        if layer > 0:
            k, weight = layer - 1, self.weights[layer - 1]
            a, c = (x.flatten(2) for x in messages[4 * k : 4 * k + 2])  # (rows, this layer, lower)
            found.append((4 * k + 2, (a * weight.T).transpose(1, 2), -(c * weight.T.square()).transpose(1, 2)))
        if layer < self.depth - 1:
            k, weight = layer, self.weights[layer]
            a, c = (x.flatten(2) for x in messages[4 * k + 2 : 4 * k + 4])  # (rows, this layer, upper)
            found.append((4 * k, (a * weight).transpose(1, 2), -(c * weight.square()).transpose(1, 2)))
        return [(number, b.unflatten(2, shape), q.unflatten(2, shape)) for number, b, q in found]

    def _fields(self, layer: int, messages: list[Tensor]) -> tuple[Tensor, Tensor, list[tuple[int, Tensor, Tensor]]]:
        incoming = self._incoming(layer, messages)
        B = torch.stack([b.sum(1) for _, b, _ in incoming]).sum(0)
        A = torch.stack([q.sum(1) for _, _, q in incoming]).sum(0)
        cavities = [(number, B.unsqueeze(1) - b, A.unsqueeze(1) - q) for number, b, q in incoming]
        return B, A, cavities

    def outgoing(self, layer: int, messages: list[Tensor]) -> tuple[dict[int, Tensor], Tensor]:
        unit = self.units[layer]
        _, _, cavities = self._fields(layer, messages)
        lost = torch.zeros(len(messages[0]), dtype=torch.bool, device=messages[0].device)
        found: dict[int, Tensor] = {}
        for number, B, A in cavities:
            mean, variance = torch.empty_like(B), torch.empty_like(B)
            undefined = respond_(unit, B, A, mean, variance)
            if undefined is not None:
                lost |= undefined
            found |= {number: mean, number + 1: variance}
        return found, lost

    def renewed(self, layer: int, messages: list[Tensor]) -> dict[int, Tensor]:
        unit, found = self.units[layer], dict[int, Tensor]()
        for number, B, A in self._fields(layer, messages)[2]:
            found |= {number: unit.mean(B, A), number + 1: unit.variance(B, A)}
        return found

    def residual(self, number: int, new: Tensor, old: Tensor) -> tuple[Tensor | None, Tensor | None]:
        if number % 2 == 0:
            return new - old, None
        return None, new.clamp_min(0.0).sqrt() - old.clamp_min(0.0).sqrt()

    def beliefs(self, messages: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
        fields = [self._fields(layer, messages)[:2] for layer in range(self.depth)]
        means = [_or_nan(unit, B, A) for unit, (B, A) in zip(self.units, fields, strict=True)]
        variances = []
        for unit, mean, (B, A) in zip(self.units, means, fields, strict=True):
            good = ~torch.isnan(mean)
            variances.append(torch.where(good, unit.variance(B, torch.where(good, A, 0.0)), torch.nan))
        return means, variances, [B for B, _ in fields], [A for _, A in fields]

    def free_energy(self, messages: list[Tensor]) -> Tensor:
        """Return eq. (B13), with the sign of -ln Z.

        It is not stationary in the messages m. To get the total derivative, λ·(f(m) - m) is added. This is zero at a
        fixed point m = f(m), and λ is chosen so that its derivative is the contribution of the messages.
        """
        value = self._bethe(messages)
        if not value.requires_grad:
            return -value
        for pull, new, old in zip(self._adjoint(messages), self._renewed(messages), messages, strict=True):
            value = value + per_row(pull * (new - old))
        return -value

    def _bethe(self, messages: list[Tensor]) -> Tensor:
        value = torch.zeros(len(messages[0]), dtype=messages[0].dtype, device=messages[0].device)
        for layer, unit in enumerate(self.units):
            B, A, cavities = self._fields(layer, messages)
            bad = torch.isnan(_or_nan(unit, B, A).detach().flatten(1)).any(1)
            B, A = (torch.where(bad.view(-1, *(1 for _ in unit.shape)), 0.0, x) for x in (B, A))
            whole = unit.log_partition(B, A)
            value = torch.where(bad, torch.nan, value + per_row(whole))
            for _, b, q in cavities:
                value = value - per_row(whole.unsqueeze(1) - unit.log_partition(b, q)) / 2
        return value

    def _renewed(self, messages: list[Tensor]) -> list[Tensor]:
        """Return f(m): the parallel update of all messages, differentiable."""
        found: dict[int, Tensor] = {}
        for layer in range(self.depth):
            found |= self.renewed(layer, messages)
        return [found[number] for number in range(len(messages))]

    def _adjoint(self, messages: list[Tensor]) -> list[Tensor]:
        """Solve λ = ∂G/∂m + (∂f/∂m)ᵀ λ by damped iteration."""
        leaves = [x.detach().requires_grad_() for x in messages]
        with torch.enable_grad():
            slope = torch.autograd.grad(self._bethe(leaves).sum(), leaves, materialize_grads=True)
            renewed = self._renewed(leaves)
        pull = [x.clone() for x in slope]
        for _ in range(_ADJOINT_STEPS):
            along = torch.autograd.grad(renewed, leaves, pull, retain_graph=True, materialize_grads=True)
            largest = 0.0
            for x, y, z in zip(pull, slope, along, strict=True):
                residual = y + z - x
                x += residual / 2
                largest = max(largest, residual.abs().nan_to_num_().max().item())
            if largest < _ADJOINT_TOLERANCE:
                break
        return pull


def _or_nan(unit: Unit, B: Tensor, A: Tensor) -> Tensor:
    """Return the mean, with NaN in the rows where it does not exist."""
    lost = undefined_rows(unit, A)
    if lost is None:
        return unit.mean(B, A)
    lost = lost.view(-1, *(1 for _ in unit.shape))
    return torch.where(lost, torch.nan, unit.mean(torch.where(lost, 0.0, B), torch.where(lost, 0.0, A)))


class _Exact:
    """Messages as log-probabilities.

    For link k, message 2k goes upward, (rows, lower units, upper units, values of the lower unit), and message 2k + 1
    goes downward, (rows, lower units, upper units, values of the upper unit).
    """

    method = "bp-exact"

    def __init__(self, machine: BoltzmannMachine) -> None:
        self._machine, self.units = machine, machine.layers
        self.depth = len(self.units)
        self.values = [_values(unit) for unit in self.units]
        self.own = [_log_weights(unit, values) for unit, values in zip(self.units, self.values, strict=True)]
        self.bonds = []
        for k, coupling in enumerate(machine.couplings):
            lower, upper = self.units[k : k + 2]
            x, y = (values.reshape(len(values), -1) for values in self.values[k : k + 2])
            weight = coupling.matrix().reshape(lower.sites, x.shape[1], upper.sites, y.shape[1])
            self.bonds.append(torch.einsum("xe,iejf,yf->ijxy", x, weight, y))  # x·W·y of every pair of values
        self.width = sum(bond.shape[0] * bond.shape[1] * (bond.shape[2] + bond.shape[3]) for bond in self.bonds)

    def begin(self, a: list[Tensor], c: list[Tensor]) -> list[Tensor]:
        """Return the log-probabilities of every unit in the mean field of its neighbors."""
        found = []
        for k, bond in enumerate(self.bonds):
            for layer, along in ((k, 2), (k + 1, 1)):
                values = self.values[layer].flatten(1) if self.values[layer].ndim > 1 else self.values[layer][:, None]
                field = self._machine.field(layer, a).reshape(len(a[0]), self.units[layer].sites, -1)
                log_p = torch.log_softmax(self.own[layer] + field @ values.T, -1)
                found.append(log_p.unsqueeze(along).repeat_interleave(bond.shape[along - 1], along))
        return found

    def _incoming(self, layer: int, messages: list[Tensor]) -> list[tuple[int, int, Tensor]]:
        """Return for each neighbor layer the index of the message to it, its dimension, and the log-factors.

        The log-factors of its messages for the values of this layer have shape (rows, lower, upper, values).
        """
        found = []
        if layer > 0:
            k = layer - 1
            heard = torch.logsumexp(self.bonds[k] + messages[2 * k].unsqueeze(-1), -2)
            found.append((2 * k + 1, 1, heard))
        if layer < self.depth - 1:
            k = layer
            heard = torch.logsumexp(self.bonds[k] + messages[2 * k + 1].unsqueeze(-2), -1)
            found.append((2 * k, 2, heard))
        return found

    def _totals(self, layer: int, messages: list[Tensor]) -> tuple[Tensor, list[tuple[int, int, Tensor]]]:
        """Return the unnormalized log-belief of every value, (rows, units, values), and the incoming messages."""
        incoming = self._incoming(layer, messages)
        return self.own[layer] + sum(heard.sum(along) for _, along, heard in incoming), incoming

    def outgoing(self, layer: int, messages: list[Tensor]) -> tuple[dict[int, Tensor], Tensor]:
        total, incoming = self._totals(layer, messages)
        found = {number: torch.log_softmax(total.unsqueeze(along) - heard, -1) for number, along, heard in incoming}
        return found, torch.zeros(len(total), dtype=torch.bool, device=total.device)

    def renewed(self, layer: int, messages: list[Tensor]) -> dict[int, Tensor]:
        return self.outgoing(layer, messages)[0]

    def residual(self, number: int, new: Tensor, old: Tensor) -> tuple[Tensor | None, Tensor | None]:
        values = self.values[number // 2 + number % 2]
        x = values.reshape(len(values), -1)
        (mean, deviation), (other, other_deviation) = (_mean_and_deviation(p.exp(), x) for p in (new, old))
        return mean - other, deviation - other_deviation

    def beliefs(self, messages: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
        means, variances = self._moments(messages)
        return means, variances, [], []

    def _moments(self, messages: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        means, variances = [], []
        for layer, unit in enumerate(self.units):
            p = torch.softmax(self._totals(layer, messages)[0], -1)
            x = self.values[layer].reshape(len(self.values[layer]), -1)
            mean, deviation = _mean_and_deviation(p, x)
            means.append(mean.reshape(-1, *unit.shape))
            variances.append(deviation.square().reshape(-1, *unit.shape))
        return means, variances

    def free_energy(self, messages: list[Tensor]) -> Tensor:
        """Return eq. (A5), with the sign of -ln Z."""
        value = torch.zeros(len(messages[0]), dtype=messages[0].dtype, device=messages[0].device)
        for layer in range(self.depth):
            total, incoming = self._totals(layer, messages)
            value = value + per_row(torch.logsumexp(total, -1))
            for number, along, heard in incoming:
                if along == 2:  # count each pair once, at its lower unit
                    value = value - per_row(torch.logsumexp(heard + messages[number], -1))
        return -value


def _mean_and_deviation(p: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and standard deviation, (..., size), of values x (values, size) with p (..., values)."""
    mean = p @ x
    return mean, (p.unsqueeze(-1) * (x - mean.unsqueeze(-2)).square()).sum(-2).sqrt()


def _values(unit: Unit) -> Tensor:
    """Return the values of one unit: (values,) or (values, size)."""
    values = unit.support.states()
    if values is None or unit.cardinality is None:
        raise NotEnumerable(
            f"exact messages expect layers of a single unit type with finitely many values, found {unit.name()} "
            f"({unit.support.description})"
        )
    return values.to(unit.bias)


def _log_weights(unit: Unit, values: Tensor) -> Tensor:
    """Return the logarithm of the base weight of every value of every unit, (units, values), differentiable."""
    return torch.stack([unit.log_weight(value.expand(unit.shape)).reshape(-1) for value in values], -1)
