"""The machine of a configuration: its kind and its layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..errors import InvalidOption
from ..machines import RBM, ConditionalRBM, DeepBeliefNetwork, DeepBoltzmannMachine, Machine, layout
from ..machines.layout import UnitSpec
from ..units import Unit
from .config import MachineOptions, read

Layer = list[UnitSpec]


def parse(chosen: MachineOptions) -> tuple[MachineOptions, list[Layer]]:
    """Parse the hidden layers, from the visible layer up, and fill in the kind of the machine.

    >>> chosen, hidden = parse(MachineOptions(hidden=["20", "spin:10"]))
    >>> chosen.machine, chosen.hidden
    ('dbm', ['bernoulli:20', 'spin:10'])
    """
    given = chosen.hidden if isinstance(chosen.hidden, list) else [chosen.hidden]
    hidden = [layout.parse_hidden(str(text)) for text in given]
    kind = chosen.machine or ("rbm" if len(hidden) == 1 else "dbm")
    if kind == "rbm" and len(hidden) > 1:
        raise InvalidOption(f"machine: rbm expects one hidden layer, found {len(hidden)}; use --machine dbm or dbn")
    if kind != "rbm" and len(hidden) == 1:
        raise InvalidOption(f"machine: {kind} expects two or more hidden layers, found 1; repeat --hidden for each")
    if chosen.inputs is not None and kind != "dbn":
        raise InvalidOption(f"inputs: expected --machine dbn, found {kind}")
    written: list[str | int] = ["+".join(map(str, layer)) for layer in hidden]
    inputs = chosen.inputs or ("samples" if kind == "dbn" else None)
    return replace(chosen, machine=kind, inputs=inputs, hidden=written), hidden


def build(
    chosen: MachineOptions, visible: Unit, hidden: list[Layer], context: tuple[int, ...] | None = None
) -> Machine:
    """Build the machine from its visible layer, the result of :func:`parse`, and the shape of the context of a row.

    >>> from harmonium.units import Bernoulli
    >>> chosen, hidden = parse(MachineOptions(hidden=["4", "2"]))
    >>> type(build(chosen, Bernoulli(6), hidden)).__name__
    'DeepBoltzmannMachine'
    """
    if context is not None:
        if chosen.machine != "rbm":
            raise InvalidOption(f"machine: expected rbm for frames with a window, found {chosen.machine}")
        upper, coupling = layout.stage(hidden[0], visible, 1)
        return ConditionalRBM(visible, upper, context, coupling)
    stack: list[RBM] = []
    lower = visible
    for number, parts in enumerate(hidden, 1):
        stack.append(RBM(lower, *layout.stage(parts, lower, number)))
        above = stack[-1].hidden
        lower = above.pooled_layer() if chosen.machine == "dbn" else above
    if chosen.machine == "dbn":
        return DeepBeliefNetwork(stack, inputs=str(chosen.inputs))
    if chosen.machine == "rbm":
        return stack[0]
    return DeepBoltzmannMachine([visible, *(rbm.hidden for rbm in stack)], [rbm.coupling for rbm in stack])


def machine_of(configuration: str | Path, shape: tuple[int, ...]) -> Machine:
    """Build the machine of a configuration for rows of a shape, without training it.

    Args:
        configuration: a file with a table ``[machine]``, or the name of a configuration such as "multinary-faces".
        shape: the shape of a row, such as (channels, height, width).

    >>> [tuple(layer.shape) for layer in machine_of("multinary-mnist", (1, 28, 28)).layers]
    [(1, 28, 28), (64, 14, 14), (128, 7, 7), (512, 3, 3)]
    """
    settings = read(configuration).machine
    if settings.visible is None:
        raise InvalidOption(f"configuration: expected one with visible units, found '{configuration}'")
    chosen, hidden = parse(settings)
    visible = [replace(spec, shape=tuple(shape)) for spec in layout.parse_layer(settings.visible)]
    return build(chosen, layout.layer(visible), hidden)
