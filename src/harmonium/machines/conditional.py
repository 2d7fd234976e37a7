"""Machines given a context: the past of a sequence, a label, covariates, or which items were rated.

A context adds a field to the bias of every unit, which differs from row to row. Everything else is that of an RBM.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..checks import as_shape
from ..couplings import Coupling, Dense
from ..errors import InvalidData, InvalidOption
from ..units import Unit
from . import enumeration
from .chain import ArrayLike, BoltzmannMachine
from .kernel import log_weight
from .rbm import RBM


class GivenRBM(RBM):
    """An RBM with a field on each layer for each row: p_n(v, h) ∝ p(v, h) · e^{f_n·v + g_n·h}.

    It has all methods of an RBM. States need as many rows as the fields, or one row for all of them; with a single row
    of fields, any number. The fields are part of the autograd graph, so that the free energy is differentiable in the
    parameters of a context. ``log_partition`` and ``distribution`` return a value for each row.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(3, 2)
    >>> given = GivenRBM(rbm, {0: torch.tensor([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]])})
    >>> given.visible_mean(torch.zeros(2, 2)).detach().round()
    tensor([[0., 0., 0.],
            [1., 1., 1.]])
    """

    def __init__(self, machine: RBM, fields: Mapping[int, Tensor]) -> None:
        units = list(machine.layers)
        for k, field in fields.items():
            if field.shape[1:] != units[k].shape:
                raise InvalidData(
                    f"field on layer {k}: expected shape (n, {', '.join(map(str, units[k].shape))}), "
                    f"found {tuple(field.shape)}"
                )
            units[k] = units[k].in_field(field)
        lengths = {len(field) for field in fields.values()} or {1}
        if len(lengths) > 1 or 0 in lengths:
            raise InvalidData(f"fields: expected the same number of rows for each layer, found {sorted(lengths)}")
        super().__init__(units[0], units[1], machine.coupling)
        (self.rows,) = lengths
        self.distinct = self.rows
        # not submodules: these are the parts of another machine
        self.__dict__["_alone"], self.__dict__["_fields"] = machine, dict(fields)

    def matched(self, x: Tensor) -> Tensor:
        """Check that there is a row of ``x`` for each row of the fields; a single row is repeated."""
        if len(x) == 1 and self.rows > 1:
            return x.expand(self.rows, *x.shape[1:])
        if self.rows not in (1, len(x)):
            raise InvalidData(f"states: expected {self.rows} rows, one for each row of the context, found {len(x)}")
        return x

    def repeated(self, n: int) -> GivenRBM:
        if self.rows in (1, n):
            return self
        other = self.at(torch.arange(n, device=self.device) % self.rows)
        other.distinct = min(n, self.distinct)
        return other

    def at(self, index: Tensor) -> GivenRBM:
        if self.rows == 1:
            return self
        return GivenRBM(self._alone, {k: field[index] for k, field in self._fields.items()})

    def conserving(self, x: Tensor) -> GivenRBM:
        alone = self._alone.conserving(x)
        if alone is self._alone:
            return self
        other = GivenRBM(alone, self._fields)
        other.distinct = self.distinct
        return other

    def row(self, index: int) -> RBM:
        """An ordinary RBM for one row: a copy, with the fields added to its biases."""
        if not -self.rows <= index < self.rows:
            raise InvalidOption(f"index: expected a row from 0 to {self.rows - 1}, found {index}")
        if any(part.shared for unit in self.layers for part in unit.parts):
            raise InvalidOption("row: expected a bias for each unit, found shared biases, which cannot hold the fields")
        alone = copy.deepcopy(self._alone)
        for k, field in self._fields.items():
            alone.layers[k].shift_bias(field[index].detach())
        return alone

    def check_normalizable(self) -> None:
        raise InvalidOption(
            f"machine: expected a machine with one distribution, found one for each of {self.rows} rows; "
            "use machine.given(context).row(0) for that of one row"
        )

    # -- exact, for small machines ----------------------------------------------------------------------------

    def log_partitions(self) -> Tensor:
        """ln Z of each row by enumeration, differentiable: (rows,) in float64."""
        parts = [torch.logsumexp(log_p, 1) for _, log_p in self._chunks()]
        return torch.logsumexp(torch.stack(parts), 0)

    @torch.no_grad()
    def log_partition(self) -> Tensor:  # type: ignore[override]
        """ln Z of each row by enumeration, in float64: (rows,)."""
        self.check_weights()
        return self._double().log_partitions()

    def log_probability(
        self, v: ArrayLike, log_partition: float | Tensor | None = None, *, check: bool = True
    ) -> Tensor:
        """ln p(v) of each row, with ln Z by enumeration unless given: (rows,)."""
        v = self.as_states(v)
        if log_partition is None:
            conserved = self.visible.conserving(v) is not self.visible  # then each row has a ln Z of its own
            log_partition = self._row_by_row(v) if conserved else self.log_partition()
        return -self.free_energy(v, check=check) - log_partition

    def _row_by_row(self, v: Tensor) -> Tensor:
        """ln Z of each row, with the conserved quantities of its state ``v``."""
        found = []
        for k, state in enumerate(v.split(1)):
            at = slice(0, 1) if self.rows == 1 else slice(k, k + 1)
            fields = {layer: field[at] for layer, field in self._fields.items()}
            found.append(GivenRBM(self._alone.conserving(state), fields).log_partition())
        return torch.cat(found)

    @torch.no_grad()
    def distribution(self) -> tuple[Tensor, Tensor]:
        """Every visible state (states, *visible) and its exact log-probability in each row, (rows, states)."""
        self.check_weights()
        parts = list(self._double()._chunks(0))
        states = torch.cat([state for state, _ in parts])
        log_p = torch.cat([log_p for _, log_p in parts], 1)
        return states.to(self.dtype), log_p - torch.logsumexp(log_p, 1, keepdim=True)

    def _double(self) -> GivenRBM:
        """The machine in float64, detached from the graph."""
        fields = {k: field.detach().double() for k, field in self._fields.items()}
        return GivenRBM(copy.deepcopy(self._alone).double(), fields)

    def _chunks(self, parity: int | None = None) -> Any:
        """Every state (n, *shape) of one layer, a chunk at a time, with the log-weight in each row, (rows, n)."""
        every = _EveryRow(self._alone, self._fields, self.rows)
        for state, parity in enumeration.states(self._alone, parity, copies=self.rows):  # noqa: B020
            rows = [None if x is None else x.expand(self.rows, *x.shape) for x in state]
            yield state[parity], log_weight(every, rows, summed=1 - parity, dtype=torch.float64)


class _EveryRow:
    """All rows as one chain of layers, for states (rows, n, *shape) that are the same in all rows."""

    depth = 2

    def __init__(self, machine: RBM, fields: Mapping[int, Tensor], rows: int) -> None:
        units = list(machine.layers)
        for k, field in fields.items():
            units[k] = units[k].in_field(field.unsqueeze(1))
        self._machine, self._units, self._rows = machine, units, rows

    def layer(self, layer: int) -> Unit:
        return self._units[layer]

    def field(self, layer: int, state: Sequence[Tensor | None]) -> Tensor:
        field = self._machine.field(layer, [None if x is None else x[0] for x in state])
        return field.expand(self._rows, *field.shape)


class ConditionalRBM(RBM):
    """RBM given a context u: p(v, h | u) ∝ e^{-U(v) - U(h) + v·W·h + u·A·v + u·B·h} (Taylor et al. 2006).

    The context is not modeled: it only changes the biases of the visible units (by u·A) and of the hidden units (by
    u·B). :meth:`given` returns the machine for given rows of it, and ``fit`` learns from ``Conditional(rows, context)``
    or ``Windows(sequences, order)``.

    Args:
        visible: the visible layer, or a number or shape of Bernoulli units.
        hidden: the hidden layer, or a number or shape of Bernoulli units.
        context: the shape of a row of the context, such as 10 for a label or (order, channels) for the past.
        coupling: the coupling W of the two layers; by default dense.
        to_visible: the coupling A of the context to the visible layer; True for a dense one, False for none.
        to_hidden: the coupling B of the context to the hidden layer; True for a dense one, False for none.

    >>> machine = ConditionalRBM(4, 3, 2)
    >>> given = machine.given(torch.eye(2))
    >>> given.free_energy(torch.zeros(2, 4)).shape, given.sample(sweeps=5, seed=0, check_mixing=False).shape
    (torch.Size([2]), torch.Size([2, 4]))
    >>> machine.free_energy(torch.zeros(2, 4))
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: ConditionalRBM: expected a context of shape (n, 2), found none; use
    machine.given(context)
    """

    context: torch.Size

    def __init__(
        self,
        visible: Unit | int | tuple[int, ...],
        hidden: Unit | int | tuple[int, ...],
        context: int | tuple[int, ...],
        coupling: Coupling | None = None,
        *,
        to_visible: Coupling | bool = True,
        to_hidden: Coupling | bool = True,
    ) -> None:
        super().__init__(visible, hidden, coupling)
        self.context = torch.Size(as_shape(context, "context"))
        chosen = {"to_visible": (to_visible, self.visible), "to_hidden": (to_hidden, self.hidden)}
        if not any(made for made, _ in chosen.values()):
            raise InvalidOption("to_visible, to_hidden: expected at least one coupling of the context, found none")
        for name, (choice, unit) in chosen.items():
            made = Dense(tuple(self.context), tuple(unit.shape)).to(self.dtype) if choice is True else choice or None
            if made is not None and (made.lower, made.upper) != (self.context, unit.shape):
                raise InvalidOption(
                    f"{name}: expected a coupling of the shapes {(tuple(self.context), tuple(unit.shape))}, "
                    f"found {(tuple(made.lower), tuple(made.upper))}"
                )
            setattr(self, name, made)
        if len({parameter.dtype for parameter in self.parameters()}) > 1:
            self.to(dtype=torch.float64)

    #: the couplings A and B of the context; ``None`` for none
    to_visible: Coupling | None
    to_hidden: Coupling | None

    @property
    def context_couplings(self) -> dict[int, Coupling]:
        """The couplings of the context, by the layer that they act on: 0 for the visible and 1 for the hidden layer."""
        return {k: made for k, made in enumerate((self.to_visible, self.to_hidden)) if made is not None}

    def as_context(self, context: ArrayLike, n: int | None = None) -> Tensor:
        """Convert contexts (n, *context) to the machine's dtype and device; raise unless they are finite numbers."""
        rows = as_tensor(context, "context")
        if rows.shape[1:] != self.context or (n is not None and len(rows) != n):
            expected = ", ".join(map(str, ("n" if n is None else n, *self.context)))
            raise InvalidData(f"context: expected shape ({expected}), found {tuple(rows.shape)}")
        rows = rows.to(device=self.device, dtype=self.dtype)
        if not bool(torch.isfinite(rows).all()):
            raise InvalidData("context: expected finite numbers, found NaN or infinity")
        return rows

    def given(self, context: ArrayLike) -> GivenRBM:
        """The machine given contexts (n, *context): an RBM with fields u·A and u·B on the two layers of each row."""
        rows = self.as_context(context)
        fields = {k: coupling.up(rows) for k, coupling in self.context_couplings.items()}
        return GivenRBM(RBM(self.visible, self.hidden, self.coupling), fields)

    def for_rows(self, rows: Any) -> tuple[BoltzmannMachine, Tensor]:
        v, context = rows
        return self.given(context), v

    def layer(self, layer: int) -> Unit:
        """Not defined without a context; ``layers`` has the units with their biases."""
        raise self._missing()

    def conserving(self, x: Tensor) -> BoltzmannMachine:
        raise self._missing()

    def check_normalizable(self) -> None:
        raise self._missing()

    def _missing(self) -> InvalidOption:
        return InvalidOption(
            f"{type(self).__name__}: expected a context of shape (n, {', '.join(map(str, self.context))}), found none; "
            "use machine.given(context)"
        )

    def config(self) -> dict[str, Any]:
        ends = {"to_visible": self.to_visible, "to_hidden": self.to_hidden}
        return {
            **super().config(),
            "context": list(self.context),
            **{name: coupling.config() for name, coupling in ends.items() if coupling is not None},
        }

    @torch.no_grad()
    def _match(self, data: Any, pseudocount: float | None) -> None:
        v, context = data
        v, context = self.as_states(v), self.as_context(context, len(v))
        if self.to_visible is None or not self.to_visible.outer_product:
            self.visible.initialize_from(v, pseudocount)
        else:  # A starts at the regression of the data on the context, if the units have one in closed form
            weight = self.visible.initialize_given(v, context.flatten(1), pseudocount)
            self.to_visible.weight.copy_(weight.reshape(self.to_visible.weight.shape))
            self.to_visible.project()
            if self.to_hidden is not None and self.to_hidden.outer_product:  # the effect of the context on v cancels
                effect = weight.flatten(1) * self.visible.free_variance().flatten()
                self.to_hidden.weight.sub_(effect @ self.coupling.matrix())
                self.to_hidden.project()
        field = self.coupling.up(v.mean(0, keepdim=True))
        if self.to_hidden is not None:
            field = field + self.to_hidden.up(context.mean(0, keepdim=True))
        self._center_hidden(field)
