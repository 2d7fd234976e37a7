"""Machines as feedforward networks of ordinary torch modules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.nn.utils import skip_init

from ..checks import whole
from ..errors import InvalidOption
from ..machines import RBM, DeepBeliefNetwork
from ..units.modules import Pool


def to_sequential(
    machine: RBM | DeepBeliefNetwork, outputs: int | None = None, *, dropout: float | Sequence[float] = 0.0
) -> nn.Sequential:
    """Convert a machine to a feedforward network that computes the means of its highest layer.

    The modules are those of torch where they exist: ``Linear``, ``Conv2d``, ``Sigmoid``, ``Tanh``; other units and
    couplings have a module that calls their methods. Parameters are copied, so training the network does not change the
    machine. Without ``outputs`` the result, (n, *visible) -> (n, *top), equals ``hidden_mean`` of an RBM and
    ``features`` of a deep belief network.

    Args:
        machine: RBM or deep belief network.
        outputs: number of outputs of a linear layer on top, such as the number of classes; its weights are zero. By
            default there is none.
        dropout: probability with which the values of hidden layers are dropped in training (Srivastava et al. 2014), or
            one probability for every layer, from the visible layer up.

    >>> import harmonium as hm
    >>> to_sequential(hm.DeepBeliefNetwork.of([784, 500, 200]), outputs=10)
    Sequential(
      (0): Linear(in_features=784, out_features=500, bias=True)
      (1): Sigmoid()
      (2): Linear(in_features=500, out_features=200, bias=True)
      (3): Sigmoid()
      (4): Linear(in_features=200, out_features=10, bias=True)
    )
    """
    machines: Sequence[Any] = machine.machines
    if not all(isinstance(part, RBM) and part.context is None for part in machines):
        raise InvalidOption(f"machine: expected an RBM or a deep belief network, found {type(machine).__name__}")
    drops = _dropped(dropout, len(machines) + 1)
    modules: list[nn.Module] = [*drops[0]]
    shape = tuple(machine.visible.shape)
    for part, dropped in zip(machines, drops[1:], strict=True):
        modules += _reshaped(shape, tuple(part.visible.shape))
        modules += part.coupling.to_modules(part.hidden.bias.detach().expand(part.hidden.shape))
        modules += [part.hidden.to_module()]
        shape = tuple(part.hidden.pooled_shape)
        modules += [Pool(part.hidden)] if shape != tuple(part.hidden.shape) else []
        modules += dropped
    if outputs is not None:
        if whole("outputs", outputs) < 1:
            raise InvalidOption(f"outputs: expected at least 1, found {outputs}")
        size = math.prod(shape)
        head = skip_init(nn.Linear, size, outputs, dtype=machine.dtype, device=machine.device)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        modules += [*_reshaped(shape, (size,)), head]
    return nn.Sequential(*modules)


def _reshaped(shape: tuple[int, ...], wanted: tuple[int, ...]) -> list[nn.Module]:
    if shape == wanted:
        return []
    flat: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
    return flat if len(wanted) == 1 else [*flat, nn.Unflatten(1, wanted)]


def _dropped(dropout: float | Sequence[float], layers: int) -> list[list[nn.Module]]:
    """Return the dropout modules after each layer; layers with probability 0 have none."""
    rates = list(dropout) if isinstance(dropout, Sequence) else [0.0, *[float(dropout)] * (layers - 1)]
    if len(rates) != layers or not all(0 <= rate < 1 for rate in rates):
        raise InvalidOption(
            f"dropout: expected a probability in [0, 1), or one for each of {layers} layers, found {dropout}"
        )
    return [[nn.Dropout(rate)] if rate else [] for rate in rates]
