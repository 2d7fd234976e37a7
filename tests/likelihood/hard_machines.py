"""Machines that can be enumerated but are hard to sample: strong couplings, many modes, modes of unequal mass.

``KINDS`` maps a name to a constructor of a random machine. :func:`exact_draws` and :func:`one_mode` give data: draws of
the model, and states of a single mode, with which a likelihood estimate that starts at the data misses the other modes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

import harmonium as hm
from harmonium.machines import enumeration

ROWS = 200
_SWEEPS = 5  # sweeps that spread one state over its mode

Draw = Callable[..., Tensor]
Parts = tuple[hm.units.Unit, hm.units.Unit, Tensor, Tensor, Tensor]

U = hm.units


def _spread(R: Draw, visible: int, hidden: int, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Gaussian weights that are symmetric in 0 and 1, and biases of order one."""
    W = R(visible, hidden) * scale
    return W, R(visible) - W.sum(1) / 2, R(hidden) - W.sum(0) / 2


def binary(R: Draw, g: Generator) -> Parts:
    W, b, c = _spread(R, 20, 12, 2 + R(1).abs().item())
    return U.Bernoulli(20), U.Bernoulli(12), W, b + R(20), c


def wide(R: Draw, g: Generator) -> Parts:
    return U.Bernoulli(40), U.Bernoulli(12), *_spread(R, 40, 12, 1.5)


def spin_glass(R: Draw, g: Generator) -> Parts:
    return U.Spin(30), U.Spin(10), R(30, 10) * 0.8, R(30) * 0.2, R(10) * 0.2


def ferromagnet(R: Draw, g: Generator) -> Parts:
    field = 0.02 * R(1).item()
    return U.Spin(40), U.Spin(4), 0.25 + 0.02 * R(40, 4), torch.full((40,), field), R(4) * 0.1


def planted(R: Draw, g: Generator) -> Parts:
    pattern = (torch.rand(50, 8, generator=g) > 0.5).double() * 2 - 1
    W = pattern * (0.6 + 0.3 * torch.rand(1, 8, generator=g).double())
    return U.Bernoulli(50), U.Bernoulli(8), W, -W.sum(1) / 2, -W.sum(0) / 2 - R(8).abs() * 3


def potts(R: Draw, g: Generator) -> Parts:
    W = R(60, 10) * 2
    return U.Potts((12, 5)), U.Bernoulli(10), W, R(60), R(10) - W.sum(0) / 5


def binomial(R: Draw, g: Generator) -> Parts:
    W = R(12, 10) * 0.8
    return U.Binomial(12, trials=4), U.Spin(10), W, R(12), -2 * W.sum(0)


def relu(R: Draw, g: Generator) -> Parts:
    return U.Spin(12), U.ReLU(4), R(12, 4) * 0.8, R(12) * 0.3, -1 - R(4).abs()


def hopfield(R: Draw, g: Generator) -> Parts:
    return U.Spin(14), U.Gaussian(4), R(14, 4) * 0.6, R(14) * 0.1, torch.zeros(4)


def gaussian(R: Draw, g: Generator) -> Parts:
    W, b = R(20, 10) * 1.2, R(20)
    return U.Gaussian(20), U.Bernoulli(10), W, b, -W.square().sum(0) / 2 + R(10) * 3 - (W * b[:, None]).sum(0)


def two_wells(R: Draw, g: Generator) -> Parts:
    """All units off or all on, with a barrier between and a random ratio of the masses."""
    n, m, w = 24, 6, 1.2
    b, c = torch.full((n,), -w * m / 2), torch.full((m,), -w * n / 2)
    return U.Bernoulli(n), U.Bernoulli(m), torch.full((n, m), w), b + R(1) * 0.06 + 0.02 * R(n), c


def blocks(R: Draw, g: Generator) -> Parts:
    """Six magnets of five visible units each: 64 modes."""
    W = torch.kron(torch.eye(6, dtype=torch.float64), torch.full((5, 1), 1.3, dtype=torch.float64)) + 0.05 * R(30, 6)
    return U.Spin(30), U.Spin(6), W, 0.1 * R(30), torch.zeros(6)


def biased(R: Draw, g: Generator) -> Parts:
    """Biases much larger than the couplings, as for images with black borders."""
    W, b, c = _spread(R, 60, 10, 1.0)
    return U.Bernoulli(60), U.Bernoulli(10), W, b + 4 * R(60), c


def mixture(R: Draw, g: Generator) -> Parts:
    """One hidden unit of twelve states: a mixture of product distributions that hardly overlap."""
    W = 3 * ((torch.rand(40, 12, generator=g) > 0.5).double() - 0.5)
    return U.Bernoulli(40), U.Potts((1, 12)), W, -W.mean(1), -torch.nn.functional.softplus(W).sum(0) + R(12) * 1.5


def correlated(R: Draw, g: Generator) -> Parts:
    """Hidden units that share one direction, so they change together."""
    shared = R(24, 1) * 0.5
    return U.Spin(24), U.Spin(10), shared + 0.15 * R(24, 10), R(24) * 0.1, R(10) * 0.1


def poisson(R: Draw, g: Generator) -> Parts:
    return U.Spin(12), U.Poisson(6), R(12, 6) * 0.4, R(12) * 0.3, -1 - R(6).abs()


KINDS: dict[str, Callable[[Draw, Generator], Parts]] = {
    kind.__name__: kind
    for kind in (
        binary,
        wide,
        spin_glass,
        ferromagnet,
        planted,
        potts,
        binomial,
        relu,
        hopfield,
        gaussian,
        two_wells,
        blocks,
        biased,
        mixture,
        correlated,
        poisson,
    )
}


def make(kind: str, seed: int) -> hm.RBM:
    """A machine of one of ``KINDS`` in double precision."""
    g = Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    visible, hidden, W, b, c = KINDS[kind](normal, g)
    machine = hm.RBM(visible, hidden).double()
    with torch.no_grad():
        machine.coupling.weight.copy_(W.reshape(machine.coupling.weight.shape))
        for unit, bias in ((machine.visible, b), (machine.hidden, c)):
            unit.shift_bias(bias.double().reshape(unit.shape) - unit.bias)
    return machine


@torch.no_grad()
def exact_draws(machine: hm.RBM, n: int, generator: Generator) -> Tensor:
    """Independent draws (n, *visible) of the model, by enumeration."""
    side, states, p = _states(machine)
    chosen = states[torch.multinomial(p, n, replacement=True, generator=generator)]
    return chosen if side == 0 else machine.sample_visible(chosen, seed=generator)


@torch.no_grad()
def one_mode(machine: hm.RBM, n: int, generator: Generator) -> Tensor:
    """States (n, *visible) a few sweeps away from one exact sample of the model."""
    side, states, p = _states(machine)
    state = states[torch.multinomial(p, 1, generator=generator)]
    state = state.expand(n, *state.shape[1:])
    for _ in range(_SWEEPS):
        hidden = machine.sample_hidden(state, seed=generator) if side == 0 else state
        visible = machine.sample_visible(hidden, seed=generator)
        state = visible if side == 0 else machine.sample_hidden(visible, seed=generator)
    return visible


def _states(machine: hm.RBM) -> tuple[int, Tensor, Tensor]:
    """Which side is enumerated, its states and their probabilities."""
    side, _ = enumeration.cheaper_parity(machine)
    parts = list(enumeration.chunks(machine, side))
    states = torch.cat([state[side] for state, _ in parts if state[side] is not None])
    log_p = torch.cat([log_p for _, log_p in parts])
    return side, states, torch.softmax(log_p, 0)


def one_mode_of_38_percent() -> tuple[hm.RBM, Tensor]:
    """A Gaussian machine of 20 x 10 units, and data from one of its modes, which has 38 % of the mass."""
    g = Generator().manual_seed(10)
    W, b = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((20, 10), (20,)))
    W *= 1.2
    c = torch.randn(10, generator=g, dtype=torch.float64) * 3 - W.square().sum(0) / 2 - (W * b[:, None]).sum(0)
    machine = hm.RBM(U.Gaussian(20), U.Bernoulli(10)).double()
    with torch.no_grad():
        machine.coupling.weight.copy_(W)
        machine.visible.bias.copy_(b)
        machine.hidden.bias.copy_(c)
    hidden = torch.tensor([[0, 0, 1, 0, 0, 0, 1, 1, 0, 1]], dtype=torch.float64)
    return machine, machine.sample_visible(hidden.expand(ROWS, -1), seed=g)
