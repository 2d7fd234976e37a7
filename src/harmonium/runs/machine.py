"""The machine of a configuration: its kind and its layers."""

from __future__ import annotations

from dataclasses import replace

from ..errors import InvalidOption
from ..machines import RBM, ConditionalRBM, DeepBeliefNetwork, DeepBoltzmannMachine, Machine
from ..options import PRESETS, MachineOptions, find_preset
from ..units import Unit
from . import specs
from .specs import UnitSpec

Layer = list[UnitSpec]


def parse(chosen: MachineOptions) -> tuple[MachineOptions, list[Layer]]:
    """Parse the hidden layers, from the visible layer up, and fill in the kind of the machine.

    >>> chosen, hidden = parse(MachineOptions(hidden=["20", "spin:10"]))
    >>> chosen.machine, chosen.hidden
    ('dbm', ['bernoulli:20', 'spin:10'])
    """
    given = chosen.hidden if isinstance(chosen.hidden, list) else [chosen.hidden]
    hidden = [specs.parse_hidden(str(text)) for text in given]
    kind = chosen.machine or ("rbm" if len(hidden) == 1 else "dbm")
    if kind == "rbm" and len(hidden) > 1:
        raise InvalidOption(f"machine: rbm expects one hidden layer, found {len(hidden)}; use --machine dbm or dbn")
    if kind != "rbm" and len(hidden) == 1:
        raise InvalidOption(f"machine: {kind} expects two or more hidden layers, found 1; repeat --hidden for each")
    if chosen.inputs is not None and kind != "dbn":
        raise InvalidOption(f"inputs: expected --machine dbn, found {kind}")
    written: list[str | int] = ["+".join(map(str, layer)) for layer in hidden]
    inputs = chosen.inputs or ("samples" if kind == "dbn" else None)
    return replace(chosen, machine=kind, inputs=inputs, hidden=written if len(written) > 1 else written[0]), hidden


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
        upper, coupling = specs.stage(hidden[0], visible, 1)
        return ConditionalRBM(visible, upper, context, coupling)
    stack: list[RBM] = []
    lower = visible
    for number, parts in enumerate(hidden, 1):
        stack.append(RBM(lower, *specs.stage(parts, lower, number)))
        above = stack[-1].hidden
        lower = above.pooled_layer() if chosen.machine == "dbn" else above
    if chosen.machine == "dbn":
        return DeepBeliefNetwork(stack, inputs=str(chosen.inputs))
    if chosen.machine == "rbm":
        return stack[0]
    return DeepBoltzmannMachine([visible, *(rbm.hidden for rbm in stack)], [rbm.coupling for rbm in stack])


def from_preset(name: str, shape: tuple[int, ...]) -> Machine:
    """Build the machine of a preset for rows of a shape, without training it: ``harmonium train --preset`` in Python.

    Args:
        name: a preset that describes a machine, such as "multinary-faces".
        shape: the shape of a row, such as (channels, height, width).

    >>> [tuple(layer.shape) for layer in from_preset("multinary-mnist", (1, 28, 28)).layers]
    [(1, 28, 28), (64, 14, 14), (128, 7, 7), (512, 3, 3)]
    """
    settings = find_preset(name).machine
    if "hidden" not in settings:
        known = ", ".join(preset.name for preset in PRESETS.values() if "hidden" in preset.machine)
        raise InvalidOption(f"name: expected a preset with a machine ({known}), found '{name}'")
    chosen, hidden = parse(MachineOptions(**settings))
    visible = [replace(spec, shape=tuple(shape)) for spec in specs.parse_layer(str(chosen.visible))]
    return build(chosen, specs.layer(visible), hidden)
