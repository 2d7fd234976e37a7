"""The networks of the paper: strided convolutions of 4 × 4 pixels, then dense layers for the generation of faces.

A layer has N levels: Bernoulli units for N = 1, multinary units with mean f(x) = N σ(kx), k = 1, for N = 255. With
means instead of draws, the two are one model in other units. With v = N u and h = N g, the means are
g = σ(b + N u·W) and u = σ(a + N W·g): those of N = 1 with weights N W. The loss of eq. (6) is N times that of N = 1
with these weights. N therefore changes the learning rate and the size of the initial weights, measured by the inputs of
the units, and the noise of the draws, which is smaller by √N relative to the states.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from harmonium import noise
from harmonium.couplings import Conv2d, Dense
from harmonium.machines import RBM, DeepBeliefNetwork
from harmonium.training import Penalty
from harmonium.units import Bernoulli, Multinary, Unit


class Window(NamedTuple):
    """A convolution: the width of its square kernels, stride and padding. By default that of the paper."""

    kernel: int = 4
    stride: int = 2
    padding: int = 1


@dataclass(frozen=True)
class Architecture:
    """Channels of the convolutional layers above the image, and sizes of the dense layers above them.

    ``windows`` are the convolutions of the first layers, if they are not those of the paper.
    """

    channels: tuple[int, ...]
    dense: tuple[int, ...] = ()
    windows: tuple[Window, ...] = ()

    def convolutions(self) -> list[tuple[int, Window]]:
        """The channels and the convolution of each convolutional layer."""
        missing = len(self.channels) - len(self.windows)
        return list(zip(self.channels, (*self.windows, *[Window()] * missing), strict=True))


#: section 4: "five convolutional RBMs (channel sizes: 3–64–128–256–256)", 4096–1000–500–200–100 for images of 64 × 64
PUBLISHED = Architecture((64, 128, 256, 256), (1000, 500, 200, 100))


def layer(shape: tuple[int, ...] | int, levels: int, shared: tuple[int, ...] = ()) -> Unit:
    """Units with the values 0 … ``levels``.

    >>> layer(3, 1).name(), layer(3, 255).mean(torch.zeros(1, 3)).tolist()
    ('bernoulli', [[127.5, 127.5, 127.5]])
    """
    if levels == 1:
        return Bernoulli(shape, shared=shared)
    return Multinary(shape, levels=levels, form="integral", shared=shared)


def build(
    image: tuple[int, int, int], architecture: Architecture, levels: int, *, aligned: bool = False
) -> DeepBeliefNetwork:
    """A network without parameters, whose machines pass means up.

    Args:
        image: channels, height and width.
        architecture: the layers above.
        levels: N, of all layers.
        aligned: give every pixel its own bias, not every color; for images in which each pixel has its place.

    >>> network = build((3, 64, 64), PUBLISHED, 255)
    >>> [tuple(machine.hidden.shape) for machine in network.machines]
    [(64, 32, 32), (128, 16, 16), (256, 8, 8), (256, 4, 4), (1000,), (500,), (200,), (100,)]
    """
    maps, machines = (1, 2), []
    shape: tuple[int, ...] = image
    for k, (channels, window) in enumerate(architecture.convolutions()):
        above = Conv2d.output_shape(shape, channels, *window, skip_pixels=True)
        coupling = Conv2d(shape, above, **window._asdict(), skip_pixels=True)
        visible = layer(shape, levels, () if aligned and k == 0 else maps)
        machines.append(RBM(visible, layer(above, levels, maps), coupling))
        shape = above
    sizes = [torch.Size(shape).numel(), *architecture.dense]
    for lower, upper in pairwise(sizes):
        machines.append(RBM(layer(lower, levels), layer(upper, levels), Dense((lower,), (upper,))))
    return DeepBeliefNetwork(machines, inputs="means")


def levels_of(network: DeepBeliefNetwork) -> int:
    """N, the largest value of a visible unit."""
    return int(network.visible.options.get("levels", 1))


@torch.no_grad()
def initialize(
    network: DeepBeliefNetwork,
    data: Tensor,
    gain: float,
    *,
    activity: float = 0.5,
    generator: Generator | None = None,
    seed: int = 0,
) -> None:
    """Random weights of a size that does not depend on N or on the layer, and biases from ``data``.

    The weights are N(0, s²) with s = gain / (N √fan-in). A hidden unit at the mean input has the mean N · activity.
    """
    generator = noise.generator(seed) if generator is None else generator
    levels = levels_of(network)
    start = torch.logit(torch.tensor(activity, dtype=torch.float64)).item()
    for machine, rows in network.stacked(network.as_states(data), generator=generator):
        fan_in = float(machine.coupling.fan_in)
        machine.initialize(rows, scale=gain / (levels * fan_in**0.5), seed=generator)
        machine.hidden.bias.add_(start)


@torch.no_grad()
def rewindowed(network: DeepBeliefNetwork, window: Window) -> DeepBeliefNetwork:
    """A network of one convolution with the same kernels and biases, and another stride and padding.

    >>> made = rewindowed(build((1, 8, 8), Architecture((2,)), 255), Window(4, 1, 1))
    >>> tuple(made.top.hidden.shape)
    (2, 7, 7)
    """
    (machine,) = network.machines
    image: Any = tuple(machine.visible.shape)
    architecture = Architecture((len(machine.coupling.weight),), windows=(window,))
    made = build(image, architecture, levels_of(network))
    made.top.coupling.weight.copy_(machine.coupling.weight)
    made.top.hidden.bias.copy_(machine.hidden.bias)
    made.top.visible.bias.copy_(machine.visible.bias)
    return made


@torch.no_grad()
def equalized(network: DeepBeliefNetwork, data: Tensor, deviation: float, activity: float) -> DeepBeliefNetwork:
    """A copy of a convolutional network in which all hidden units have inputs of the same mean and deviation.

    The weights of each map are multiplied by a number, and its bias is moved, so that over ``data`` and all positions
    its inputs have the standard deviation ``deviation``, and a unit at the mean input has the mean N · activity. Only
    the directions of the kernels remain of the network. Networks can then be compared at the same size of the inputs,
    which matters more to a classifier than the training (docs/differentiable.md).
    """
    made = copy.deepcopy(network)
    start = torch.logit(torch.tensor(activity, dtype=torch.float64)).item()
    for machine, rows in made.stacked(made.as_states(data)):
        inputs = machine.coupling.up(rows).transpose(0, 1).flatten(1)
        mean, scale = inputs.mean(1), deviation / inputs.std(1).clamp(min=1e-12)
        machine.coupling.weight.mul_(scale[:, None, None, None])
        machine.hidden.bias.copy_((start - scale * mean)[:, None, None].expand_as(machine.hidden.bias))
    return made


def groups(network: DeepBeliefNetwork, rate: float) -> list[dict[str, Any]]:
    """Parameter groups for Adam, with the learning rate ``rate`` of the inputs in units of 1/k: W has rate / N."""
    weights = [coupling.weight for coupling in network.couplings]
    known = {id(weight) for weight in weights}
    biases = [p for p in network.parameters() if id(p) not in known and p.requires_grad]
    return [{"params": weights, "lr": rate / levels_of(network)}, {"params": biases, "lr": rate}]


@dataclass(frozen=True)
class Sparse(Penalty):
    """Move hidden biases so that the mean hidden state, as a share of N, is near ``target`` (Lee et al. 2008).

    Adds strength · (mean - target) for each unit to the gradient of its bias.
    """

    strength: float = 1.0
    target: float = 0.1

    def add(self, machine: Any, gradient: Any, *_: Any) -> None:
        """Add to the gradient of the hidden biases."""
        hidden = machine.hidden
        levels = float(hidden.options.get("levels", 1))
        excess = hidden.shared_sum(gradient.hidden[0] - self.target * levels)
        gradient.units[hidden.bias].add_(excess.reshape(gradient.units[hidden.bias].shape), alpha=self.strength)
