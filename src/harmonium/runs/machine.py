"""The machine of a configuration: its kind and its layers."""

from __future__ import annotations

from dataclasses import replace

from ..errors import InvalidOption
from ..machines import RBM, BoltzmannMachine, DeepBoltzmannMachine
from ..options import MachineOptions
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
        raise InvalidOption(f"machine: rbm expects one hidden layer, found {len(hidden)}; use --machine dbm")
    if kind == "dbm" and len(hidden) == 1:
        raise InvalidOption("machine: dbm expects two or more hidden layers, found 1; repeat --hidden for each layer")
    written: list[str | int] = ["+".join(map(str, layer)) for layer in hidden]
    return replace(chosen, machine=kind, hidden=written if len(written) > 1 else written[0]), hidden


def build(kind: str, visible: Unit, hidden: list[Layer]) -> BoltzmannMachine:
    """Build a machine of a kind from its visible layer and the hidden layers.

    >>> from harmonium.units import Bernoulli
    >>> build("dbm", Bernoulli(6), [specs.parse_hidden("4"), specs.parse_hidden("2")]).layers[2]
    Bernoulli((2,))
    """
    layers = [specs.layer(layer) for layer in hidden]
    return RBM(visible, layers[0]) if kind == "rbm" else DeepBoltzmannMachine([visible, *layers])
