"""Sequences from a conditional machine: the next frame, and free-running continuations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import noise
from ..arrays import as_tensor
from ..checks import whole
from ..errors import InvalidData, InvalidOption
from ..machines import ConditionalRBM
from ..noise import Seed


@torch.no_grad()
def next_frame(
    machine: ConditionalRBM,
    context: Any,
    *,
    sweeps: int = 100,
    warm_up: int = 20,
    seed: Seed = None,
) -> Tensor:
    """Estimate the mean of the visible units given contexts: (n, *context) -> (n, *visible).

    Each row has one chain. The mean ⟨v | h⟩ is averaged over its hidden states h, which has less noise than an average
    of v. The chain starts with the visible units that have no hidden units.

    Args:
        machine: a conditional machine.
        context: contexts (n, *context), such as windows of the past.
        sweeps: number of Gibbs sweeps that are averaged.
        warm_up: number of sweeps before these, which are discarded.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> next_frame(hm.ConditionalRBM(3, 2, 4), torch.zeros(5, 4), sweeps=10, seed=0)[0]
    tensor([0.5000, 0.5000, 0.5000])
    """
    rows = _rows(machine, context)
    if whole("sweeps", sweeps) < 1 or whole("warm_up", warm_up) < 0:
        raise InvalidOption(f"sweeps, warm_up: expected sweeps ≥ 1 and warm_up ≥ 0, found {sweeps} and {warm_up}")
    generator = noise.generator(seed, machine.device)
    given = machine.given(rows)
    v = given.independent(len(rows), generator)
    total = torch.zeros_like(v)
    for sweep in range(warm_up + sweeps):
        h = given.sample_hidden(v, seed=generator)
        if sweep >= warm_up:
            total += given.visible_mean(h)
        v = given.sample_visible(h, seed=generator)
    return total / sweeps


@torch.no_grad()
def forecast(
    machine: ConditionalRBM,
    start: Any,
    frames: int,
    *,
    n: int = 1,
    sweeps: int = 30,
    means: bool = False,
    seed: Seed = None,
) -> Tensor:
    """Continue sequences: generate frame after frame, each given a window of the frames before it.

    The machine is one trained on :class:`~harmonium.Windows`. For each frame, a chain starts at the last frame and
    makes ``sweeps`` Gibbs sweeps given the window (Taylor et al. 2006).

    Args:
        machine: a conditional machine whose context (order, *visible) is a window of frames.
        start: the first window (order, *visible), or several windows (m, order, *visible).
        frames: number of frames to generate.
        n: number of continuations of each window.
        sweeps: number of Gibbs sweeps for each frame.
        means: whether a frame is the mean ⟨v | h⟩ given the last hidden state, instead of a draw. The motion is then
            smoother, and the noise of the visible units is not part of the next window.
        seed: seed of the random generator.

    Returns:
        The continuations (n, frames, *visible), or (m, n, frames, *visible) for several windows.

    >>> import harmonium as hm
    >>> machine = hm.ConditionalRBM(hm.units.Gaussian(2), 3, (4, 2))
    >>> forecast(machine, torch.zeros(4, 2), 10, n=5, seed=0).shape
    torch.Size([5, 10, 2])
    """
    if not isinstance(machine, ConditionalRBM) or machine.context[1:] != machine.visible.shape:
        raise InvalidOption(
            "machine: expected a ConditionalRBM with a context of frames, "
            f"(order, {', '.join(map(str, machine.visible.shape))}), found {type(machine).__name__} with "
            f"{'none' if machine.context is None else tuple(machine.context)}"
        )
    if min(whole("frames", frames), whole("n", n), whole("sweeps", sweeps)) < 1:
        raise InvalidOption(
            f"frames, n, sweeps: expected at least 1 of each, found frames={frames}, n={n}, sweeps={sweeps}"
        )
    generator = noise.generator(seed, machine.device)
    first = as_tensor(start, "start")
    single = first.shape == machine.context
    windows = _rows(machine, first[None] if single else first)
    machine.visible.check(windows.flatten(0, 1), "start")
    window = windows.repeat_interleave(n, 0)
    made = []
    for _ in range(frames):
        given = machine.given(window)
        v = window[:, -1]
        for _ in range(sweeps):
            h = given.sample_hidden(v, seed=generator)
            v = given.sample_visible(h, seed=generator)
        made.append(given.visible_mean(h) if means else v)
        window = torch.cat([window[:, 1:], made[-1].unsqueeze(1)], 1)
    found = torch.stack(made, 1)
    return found if single else found.unflatten(0, (len(windows), n))


def _rows(machine: ConditionalRBM, context: Any) -> Tensor:
    if not isinstance(machine, ConditionalRBM):
        raise InvalidOption(f"machine: expected a ConditionalRBM, found {type(machine).__name__}")
    rows = machine.as_context(context)
    if len(rows) == 0:
        raise InvalidData("context: expected at least one row, found none")
    return rows
