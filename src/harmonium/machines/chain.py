"""A Boltzmann machine as a chain of layers, each coupled to the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, TypedDict

import torch
from torch import Generator, Tensor, nn

from .. import noise
from ..allocation import check_memory
from ..arrays import as_tensor, check_finite
from ..checks import count
from ..couplings import Coupling, Dense
from ..couplings.base import check_scale
from ..errors import InvalidData, InvalidOption, NotMixed, unknown, warn
from ..noise import Seed
from ..shown import Shown
from ..units import Bernoulli, Unit
from ..units.base import per_row
from . import enumeration, kernel, mixing, normalizable, phase_masses
from .given import Given
from .hints import CALLS
from .kernel import Held, State
from .modes import SCALE, weights_along
from .scaling import Scaling

ArrayLike = Any
_CHECK = 2**17  # sweeps of one chain that the search for missed phases costs, about
_FREE = 2**36  # size of the machine times these sweeps up to which the search takes a second or two
_WEIGHTS = ("normal", "sign", "modes")  # kinds of initial weights


def as_layer(layer: Unit | int | tuple[int, ...]) -> Unit:
    """The layer itself, or a layer of Bernoulli units if ``layer`` is a number or a shape.

    >>> as_layer(784)
    Bernoulli((784,))
    """
    if isinstance(layer, Unit):
        return layer
    sizes = layer if isinstance(layer, tuple) else (layer,)
    if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise InvalidOption(
            f"layer: expected units such as harmonium.units.Bernoulli(784), or their number, found {layer!r}"
        )
    return Bernoulli(sizes)


def check_coupling(layer: int, coupling: Coupling, lower: Unit, upper: Unit) -> None:
    """Raise unless ``coupling`` has the shapes of both layers; ``layer`` is the number of the upper one."""
    found, expected = (coupling.lower, coupling.upper), (lower.shape, upper.shape)
    if found != expected:
        raise InvalidOption(
            f"layer {layer}: expected a coupling of the shapes {tuple(map(tuple, expected))}, "
            f"found {tuple(map(tuple, found))}"
        )


def check_undirected(machine: Any, what: str) -> None:
    """Raise :class:`InvalidOption` for a machine that is not a Boltzmann machine, such as a deep belief network."""
    if not isinstance(machine, BoltzmannMachine):
        raise InvalidOption(f"{what}: expected a Boltzmann machine, found {type(machine).__name__}")


def described(machine: Any) -> dict[str, Any]:
    """The layers, the couplings other than dense ones, and the number of parameters of a machine, in words."""
    other = [coupling for coupling in machine.couplings if type(coupling) is not Dense]
    facts: dict[str, Any] = {"layers": " – ".join(map(repr, machine.layers))}
    if other:
        facts["couplings"] = ", ".join(map(repr, other))
    number = sum(parameter.numel() for parameter in machine.parameters())
    kind = f"{str(machine.dtype).removeprefix('torch.')}, {machine.device}"
    return {**facts, "parameters": f"{number:,} ({kind})"}


class Initialization(TypedDict, total=False):
    """Keyword arguments of :meth:`BoltzmannMachine.initialize`, except for randomness."""

    weights: str
    scale: float | None
    pseudocount: float | None


class BoltzmannMachine(Shown, nn.Module):
    """p(x_0, …, x_L) ∝ Π_l e^{-U_l(x_l)} · Π_l e^{x_l·W_l·x_{l+1}}; layer 0 is the visible one.

    A *state* is a list with one batch for each layer. Layers of the same parity are conditionally independent given the
    others, so sampling alternates between even and odd layers. A machine implements
    :class:`harmonium.machines.kernel.Layers`.

    >>> from harmonium.units import Bernoulli, Spin
    >>> machine = BoltzmannMachine([Bernoulli(4), Spin(3), Bernoulli(2)])
    >>> round(machine.log_partition(), 4) == round(float(torch.tensor(2.0).log()) * 9, 4)
    True
    """

    #: the layers and the couplings, from the visible layer up
    layers: Sequence[Unit]
    couplings: Sequence[Coupling]
    #: the shape of a row of the context; ``None`` for a machine without one
    context: torch.Size | None = None
    #: the number of rows for which the machine has biases of its own (:class:`GivenRBM`), and how many of them differ
    rows: int = 1
    distinct: int = 1

    def __init__(
        self, layers: Sequence[Unit | int | tuple[int, ...]], couplings: Sequence[Coupling] | None = None
    ) -> None:
        super().__init__()
        units = [as_layer(layer) for layer in layers]
        if len(units) < 2:
            raise InvalidOption(f"layers: expected two or more layers, found {len(units)}")
        parts = [*units, *(couplings or ())]
        if len({id(part) for part in parts}) < len(parts):
            raise InvalidOption("layers, couplings: expected distinct objects, found the same one twice")
        if couplings is None:
            couplings = [Dense(tuple(a.shape), tuple(b.shape)) for a, b in pairwise(units)]
        if len(couplings) != len(units) - 1:
            raise InvalidOption(f"couplings: expected {len(units) - 1} for {len(units)} layers, found {len(couplings)}")
        for k, coupling in enumerate(couplings):
            check_coupling(k + 1, coupling, units[k], units[k + 1])
        # with unbounded hidden units, learned variances easily leave the range where the partition function is finite
        if all(part.support.bounded for part in units[1].parts):
            units[0].become_visible()
        self.layers, self.couplings = tuple(units), tuple(couplings)
        self._modules.update(self._named_parts())  # not as attributes, which would hide what has these names
        types = {parameter.dtype for parameter in self.parameters()}
        if len(types) > 1:  # all parts get the widest dtype among them
            self.to(dtype=reduce(torch.promote_types, types))

    def _named_parts(self) -> dict[str, nn.Module]:
        """The layers and the couplings as modules; their names begin those of the parameters in ``state_dict``."""
        return {"layers": nn.ModuleList(self.layers), "couplings": nn.ModuleList(self.couplings)}

    # -- the parts ------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.layers)

    def layer(self, layer: int) -> Unit:
        """The layer with the given index; 0 is the visible layer."""
        return self.layers[layer]

    @property
    def machines(self) -> Sequence[BoltzmannMachine]:
        """The machines that learn from inputs of their own: only this one, unless it is a stack of machines."""
        return (self,)

    @property
    def context_couplings(self) -> Mapping[int, Coupling]:
        """The couplings of the context, by the layer that they act on; empty for a machine without a context."""
        return {}

    def for_rows(self, rows: Any) -> tuple[BoltzmannMachine, Tensor]:
        """The machine that describes some rows of data, and the rows: itself, unless the rows have a context."""
        return self, rows

    def stacked(
        self, v: Tensor, *, generator: Generator | None = None, inputs: str | None = None
    ) -> Iterator[tuple[BoltzmannMachine, Tensor]]:
        """Yield every machine with its input: only this one, with ``v`` (see :meth:`DeepBeliefNetwork.stacked`)."""
        yield self, v

    @property
    def visible(self) -> Unit:
        """The lowest layer, which holds the data."""
        return self.layers[0]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the parameters."""
        return self.couplings[0].weight.dtype

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.couplings[0].weight.device

    def config(self) -> dict[str, Any]:
        """Everything needed to rebuild the machine except its parameters."""
        return {
            "machine": type(self).__name__,
            "layers": [unit.config() for unit in self.layers],
            "couplings": [coupling.config() for coupling in self.couplings],
        }

    def as_states(self, x: ArrayLike, layer: int = 0, *, missing: bool = False) -> Tensor:
        """Convert data of any kind (n, *shape) to finite states of a layer, with the machine's dtype and device.

        With ``missing=True`` values may be NaN.
        """
        return self.matched(self.converted(x, layer, missing=missing))

    def matched(self, x: Tensor) -> Tensor:
        """Check that the machine has a row for each row of ``x``. By default it has one for all."""
        return x

    def converted(self, x: ArrayLike, layer: int = 0, *, missing: bool = False) -> Tensor:
        """The same as :meth:`as_states`, for any number of rows."""
        tensor = as_tensor(x, f"layer {layer}")
        unit = self.layers[layer]
        if tensor.shape[1:] != unit.shape:
            single = ". For a single row, use x[None]" if tensor.shape == unit.shape else ""
            raise InvalidData(
                f"layer {layer}: expected shape (n, {', '.join(map(str, unit.shape))}), "
                f"found {tuple(tensor.shape)}{single}"
            )
        states = tensor.to(device=self.device, dtype=self.dtype)
        if not missing:
            check_finite(states, f"layer {layer}")
        return states

    def checked_states(self, x: ArrayLike, what: str = "data", n: int | None = None) -> Tensor:
        """Convert and validate visible states (m, *shape); if ``n`` is given, repeat or cut them to ``n`` rows."""
        visible = self.converted(x, missing=True)  # the check of the units names the argument
        if len(visible) == 0:
            raise InvalidData(f"{what}: expected at least one row, found none")
        if n is not None and count("n", n) < 1:
            raise InvalidOption(f"n: expected at least 1, found {n}")
        self.visible.check(visible, what)
        self.check_rows(len(visible) if n is None else n)
        return self.matched(visible if n is None else visible[torch.arange(n, device=self.device) % len(visible)])

    def conserving(self, x: Tensor) -> BoltzmannMachine:
        """A copy with conserved quantities of the visible layer fixed to those of ``x`` (:meth:`Unit.conserving`)."""
        visible = self.visible.conserving(x)
        return self if visible is self.visible else type(self)(*self._with_visible(visible))

    def _with_visible(self, visible: Unit) -> tuple[Any, ...]:
        return [visible, *self.layers[1:]], self.couplings

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name in CALLS:
                raise AttributeError(f"{type(self).__name__} has no attribute '{name}'; use {CALLS[name]}") from None
            raise

    # -- energy ---------------------------------------------------------------------------------------------

    def energy(self, *states: ArrayLike) -> Tensor:
        """E(x_0, …, x_L) = Σ U_l(x_l) - Σ x_l·W_l·x_{l+1}: one (batch, *shape) for each layer -> (batch,)."""
        if len(states) != len(self.layers):
            raise InvalidData(
                f"energy: expected a state for each of the {len(self.layers)} layers, found {len(states)}"
            )
        x = [self.as_states(state, k) for k, state in enumerate(states)]
        if len({len(part) for part in x} - {1}) > 1:
            raise InvalidData(f"energy: expected equal numbers of states, found {[len(part) for part in x]}")
        value = -sum(per_row(self.layer(k).log_weight(part)) for k, part in enumerate(x))
        for coupling, lower, upper in zip(self.couplings, x, x[1:], strict=False):
            value = value - per_row(coupling.up(lower) * upper)
        return torch.as_tensor(value)

    def field(self, layer: int, state: Sequence[Tensor | None]) -> Tensor:
        """B on a layer from its neighbors in ``state``: (batch, *shape)."""
        couplings = self.couplings
        below = couplings[layer - 1].up(state[layer - 1]) if layer > 0 else None  # type: ignore[arg-type]
        above = couplings[layer].down(state[layer + 1]) if layer < len(couplings) else None  # type: ignore[arg-type]
        if below is None or above is None:
            return above if below is None else below  # type: ignore[return-value]
        return below + above

    # -- sampling -------------------------------------------------------------------------------------------

    def sweep(self, state: State, generator: Generator | None = None, *, held: Held | None = None) -> State:
        """One Gibbs sweep: every odd layer given the even ones, then every even layer given the odd ones.

        ``held`` gives layers or units that are not updated (see :func:`harmonium.machines.kernel.sweep`).
        """
        return kernel.sweep(self, state, generator, held=held)

    @torch.no_grad()
    def initial_state(self, visible: Tensor, generator: Generator | None = None) -> State:
        """A state with the given visible layer; each hidden layer is drawn given only the layer below."""
        state = [visible]
        for k, coupling in enumerate(self.couplings):
            state.append(self.layer(k + 1).sample(coupling.up(state[-1]), generator=generator))
        return state

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The kind of the machine, its layers, couplings other than dense ones, and the number of parameters."""
        return type(self).__name__, described(self)

    def check_rows(self, n: int) -> None:
        """Raise :class:`OutOfMemory` if ``n`` states of all layers do not fit into memory."""
        entries = sum(math.prod(unit.shape) for unit in self.layers)
        check_memory(f"{n:.3g} states of {entries} units", n * entries * self.dtype.itemsize, "use fewer at a time")

    def independent(self, n: int, generator: Generator | None = None) -> Tensor:
        """Draws of the visible layer without couplings: (n, *shape)."""
        self.check_rows(n)
        zero = torch.zeros(n, *self.visible.shape, dtype=self.dtype, device=self.device)
        return self.layer(0).sample(zero, generator=generator)

    def repeated(self, n: int) -> BoltzmannMachine:
        """The machine for ``n`` chains; a machine with several rows repeats or cuts them to ``n``."""
        return self

    def at(self, index: Tensor) -> BoltzmannMachine:
        """The machine for the rows ``index``; by default it is the same for all rows."""
        return self

    @torch.no_grad()
    def sample(
        self,
        n: int | None = None,
        *,
        sweeps: int = 1000,
        start: ArrayLike | None = None,
        given: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        seed: Seed = None,
        callback: Callable[[int, State], None] | None = None,
        check_mixing: bool = True,
    ) -> Tensor:
        """Draw visible states by ``sweeps`` Gibbs sweeps of independent chains: (n, *shape).

        Warns :class:`NotMixed` if the chains have not mixed, if all of them miss phases of the machine, or if mixing
        cannot be judged: that takes at least 2 chains, 20 sweeps and 800 states (chains times sweeps). With ``given``,
        only the chains of its first row are judged.

        Args:
            n: number of chains; by default the number of rows of ``given`` or ``start``, or 1. A machine given the
                contexts of several rows has one chain for each by default, and repeats or cuts them to ``n``.
            sweeps: number of Gibbs sweeps of each chain.
            start: initial visible states (m, *shape), repeated if there are fewer than ``n``; by default draws of the
                visible layer without couplings.
            given: values (rows, *shape) of observed visible units, repeated if there are fewer than ``n``. The other
                units are sampled conditionally on these. Values of units that are not observed are ignored.
            mask: boolean, ``True`` for observed units, of shape (*shape) or (rows, *shape); by default ``True`` where
                ``given`` is not NaN. For a vector unit, such as a Potts unit, either all components or none.
            seed: seed of the random generator.
            callback: ``callback(step, state)`` is called after every sweep.
            check_mixing: whether to warn.

        >>> from harmonium.units import Bernoulli
        >>> machine = BoltzmannMachine([Bernoulli(4), Bernoulli(2)])
        >>> observed = torch.tensor([True, True, False, False])
        >>> machine.sample(3, given=torch.ones(1, 4), mask=observed, sweeps=20, seed=0, check_mixing=False)[:, :2]
        tensor([[1., 1.],
                [1., 1.],
                [1., 1.]])
        """
        if count("sweeps", sweeps) < 0 or (n is not None and count("n", n) < 1):
            raise InvalidOption(f"expected sweeps ≥ 0 and n ≥ 1, found sweeps={sweeps}, n={n}")
        self.check_weights()
        generator = noise.generator(seed, self.device)
        observed = Given.checked(self, given, mask)
        if n is None and (observed is not None or self.rows > 1):
            n = max(self.rows, 1 if observed is None else len(observed))
        machine = self if n is None else self.repeated(n)
        if start is None:
            visible = machine.independent(1 if n is None else n, generator)
        else:
            visible = machine.checked_states(start, "start", n)
        if observed is not None:
            visible = observed.cycled(len(visible)).fill(visible)
            self.visible.check(visible, "given")
        monitor, state = mixing.watch(machine, visible, sweeps, generator, callback, given=observed)
        if check_mixing:
            problems, unjudged = monitor.problems, monitor.unjudged
            if unjudged is None and not problems and observed is None:
                problems = self._phases_missed(state[0], sweeps)
            if problems:
                warn(f"the chains have not mixed: {'; '.join(problems)}", NotMixed)
            elif unjudged is not None:
                warn(f"mixing could not be judged: {unjudged} (check_mixing=False silences this)", NotMixed)
        return state[0]

    def _phases_missed(self, visible: Tensor, sweeps: int) -> tuple[str, ...]:
        """Return that all chains (n, *shape) miss the same phases; unchecked if it costs much more than the chains."""
        size = self.layers[0].size * self.layers[1].size
        if (
            self.depth > 2
            or self.rows > 1
            or self.visible.conserves
            or size * _CHECK > max(_FREE, size * len(visible) * sweeps)
        ):
            return ()
        nats = phase_masses.unvisited(self, visible)
        if nats <= phase_masses.LARGEST_MISSED:
            return ()
        share = f"{100 * -math.expm1(-nats):.0f} %"
        return (f"all of them miss phases of the machine with at least {share} of its probability",)

    # -- exact, for small machines ----------------------------------------------------------------------------

    def check_normalizable(self) -> None:
        """Raise :class:`NotNormalizable` unless the partition function is finite."""
        self.check_weights()

    def check_weights(self) -> None:
        """The same, also for a machine with a context: the partition function must be finite for every context."""
        normalizable.check([unit.tail() for unit in self.layers], self.couplings)

    def log_partition(self) -> float:
        """ln Z by enumeration, in float64; raises :class:`NotEnumerable` for large or continuous machines."""
        self.check_weights()
        return enumeration.log_partition(self)

    # -- learning -------------------------------------------------------------------------------------------

    def initialize(
        self,
        data: ArrayLike | None = None,
        *,
        weights: str = "normal",
        scale: float | None = None,
        pseudocount: float | None = None,
        seed: Seed = None,
    ) -> None:
        """Set random weights and, with ``data``, visible parameters that match its single-site statistics.

        ``weights="normal"``: N(0, scale²), by default with scale 0.01. ``weights="sign"``: ±scale with a random sign,
        by default with scale √(0.1/N), where N is the number of lower units coupled to an upper unit (Bulso & Roudi
        2021). With data, the hidden biases are -Wᵀ⟨v⟩, so that the input to each hidden unit has mean zero and the
        initial machine does not depend on which of two values is coded as 1. If ``scale`` is not given, the weights of
        Gaussian units are divided by the standard deviations of the units in the data: units of measurement do not
        matter.

        ``weights="modes"``: random combinations of the principal modes of the data, such that the input to a hidden
        unit has the root mean square ``scale``, by default 4. The visible biases cancel the field of the mean hidden
        states. Learning then does not begin with finding the modes. Other couplings of a deep machine are normal.
        """
        if weights not in _WEIGHTS:
            raise unknown("weight initialization", weights, _WEIGHTS)
        generator = noise.generator(seed, self.device)
        if weights == "modes":
            self._along_modes(data, SCALE if scale is None else scale, pseudocount, generator)
            return
        for coupling in (*self.couplings, *self.context_couplings.values()):
            default = 0.01 if weights == "normal" else (0.1 / coupling.fan_in) ** 0.5
            coupling.initialize(default if scale is None else scale, weights, generator)
        if data is not None:
            if scale is None:
                self._rescale(data)
            self._match(data, pseudocount)

    @torch.no_grad()
    def _along_modes(self, data: Any, scale: float, pseudocount: float | None, generator: Generator | None) -> None:
        check_scale(scale)
        first, hidden = self.couplings[0], self.layers[1]
        if data is None or self.context is not None:
            found = "none" if data is None else "a machine with a context"
            raise InvalidOption(f"weights: modes expects data of a machine without a context, found {found}")
        if not first.outer_product or not all(part.support.bounded for part in hidden.parts):
            found = type(first).__name__ if not first.outer_product else f"{hidden.name()} units"
            raise InvalidOption(f"weights: modes expects a dense coupling to bounded hidden units, found {found}")
        for coupling in self.couplings[1:]:
            coupling.initialize(0.01, "normal", generator)
        rows = self.as_states(data)
        scaling = Scaling.of(self.visible, rows)
        flat = (rows if scaling is None else scaling.states(rows)).flatten(1)
        first.weight.copy_(weights_along(flat, hidden.size, scale, generator))
        self._rescale(rows)
        self._match(rows, pseudocount)
        means = hidden.mean(first.up(rows.mean(0, keepdim=True)))
        self.visible.shift_bias(-first.down(means)[0])

    @torch.no_grad()
    def _rescale(self, data: Any) -> None:
        """Divide the weights of Gaussian visible units by their standard deviations in the data."""
        scaling = None if self.context is not None else Scaling.of(self.visible, self.as_states(data))
        if scaling is not None:
            self.couplings[0].weight.div_(self.couplings[0].lower_factors(scaling.scale))

    @torch.no_grad()
    def _match(self, data: Any, pseudocount: float | None) -> None:
        """Match the single-site statistics of the data, and set the mean input of each hidden unit to zero."""
        data = self.as_states(data)
        self.visible.initialize_from(data, pseudocount)
        self._center_hidden(self.couplings[0].up(data.mean(0, keepdim=True)))

    def _center_hidden(self, field: Tensor) -> None:
        """Set the bias of the first hidden layer to cancel the ``field`` (1, *shape)."""
        self.layers[1].shift_bias(-field[0] - self.layers[1].bias)
