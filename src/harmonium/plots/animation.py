"""Animations: a Gibbs chain, the weights and the spectrum during training, or any series of figures."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..errors import InvalidData, InvalidOption
from ..extras import require
from ..files import atomic
from ..machines import BoltzmannMachine, Machine
from ..machines.chain import State
from ..machines.trajectory import Machines, by_epoch
from ..noise import Seed
from ..spectra import spectrum
from . import style
from .machine import Picture, ordered_weights, samples
from .spectrum import spectrum_histogram
from .tiling import diverging, pictures, show

_COLORS = 128  # of the palette of a GIF


@dataclass(frozen=True)
class Animation:
    """A series of images of equal size, RGB bytes (frames, height, width, 3), each shown for ``seconds``.

    A notebook shows it as a GIF, which :meth:`save` writes.
    """

    frames: np.ndarray
    seconds: float = 0.2
    title: str = "animation"

    def __len__(self) -> int:
        return len(self.frames)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the animation as ``.gif``, atomically, and return the path."""
        target = Path(path)
        if target.suffix.lower() != ".gif":
            raise InvalidOption(f"path: expected a suffix .gif, found '{target.name}'")
        with atomic(target) as temporary:
            temporary.write_bytes(self.gif)
        return target

    @cached_property
    def gif(self) -> bytes:
        """The animation as a GIF that repeats forever."""
        Image = require("PIL.Image", "animations need")
        palette = Image.fromarray(self.frames.reshape(-1, *self.frames.shape[2:])).quantize(_COLORS)
        first, *others = [Image.fromarray(frame).quantize(palette=palette, dither=0) for frame in self.frames]
        buffer = io.BytesIO()
        first.save(
            buffer,
            format="gif",
            save_all=True,
            append_images=others,
            duration=max(20, round(1000 * self.seconds)),
            loop=0,
        )
        return buffer.getvalue()

    def __repr__(self) -> str:
        height, width = self.frames.shape[1:3]
        return f"Animation({len(self)} frames of {width} × {height} pixels, {len(self) * self.seconds:.1f} s)"

    def _repr_html_(self) -> str:
        code = base64.b64encode(self.gif).decode()
        return f'<img alt="{html.escape(self.title)}" src="data:image/gif;base64,{code}">'


def animate(figures: Iterable[Figure], *, seconds: float = 0.2, title: str = "animation", dpi: int = 90) -> Animation:
    """Make an animation of a series of figures of equal size, each shown for ``seconds``.

    >>> from harmonium import plots
    >>> animate(plots.tiles(torch.rand(3, 8, 8)) for _ in range(4))
    Animation(4 frames of 567 × 181 pixels, 0.8 s)
    """
    if not seconds > 0:
        raise InvalidOption(f"seconds: expected a positive number, found {seconds}")
    frames = [_pixels(figure, dpi) for figure in figures]
    if not frames:
        raise InvalidData("figures: expected at least one, found none")
    if len({frame.shape for frame in frames}) > 1:
        sizes = ", ".join(sorted({f"{frame.shape[1]} × {frame.shape[0]}" for frame in frames}))
        raise InvalidData(f"figures: expected equal sizes, found {sizes} pixels")
    return Animation(np.stack(frames), seconds, title)


@torch.no_grad()
def animate_chain(
    machine: BoltzmannMachine,
    n: int = 16,
    *,
    frames: int = 50,
    sweeps: int = 1,
    start: Any = None,
    image: Picture = None,
    columns: int | None = None,
    seconds: float = 0.1,
    seed: Seed = None,
) -> Animation:
    """Animate Gibbs chains of a machine: the first frame has the initial states.

    Args:
        machine: the machine to sample.
        n: number of chains.
        frames: number of frames.
        sweeps: number of Gibbs sweeps between two frames.
        start: initial visible states (n, …), such as rows of the data; by default random.
        image: shape (channels, height, width) of a row of images; see :func:`samples` for other data.
        columns: number of columns of tiles.
        seconds: time of each frame.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(16, 4)
    >>> len(animate_chain(rbm, 4, frames=4, sweeps=2, image=(1, 4, 4), seed=0))
    4
    """
    if frames < 1 or sweeps < 1:
        raise InvalidOption(f"frames, sweeps: expected at least 1, found {frames} and {sweeps}")
    first = machine.sample(n, sweeps=0, start=start, seed=seed, check_mixing=False)
    states = [first]

    def keep(sweep: int, state: State) -> None:
        if (sweep + 1) % sweeps == 0:
            states.append(state[0].clone())

    if frames > 1:
        length = (frames - 1) * sweeps
        machine.sample(len(first), sweeps=length, start=first, seed=seed, callback=keep, check_mixing=False)
    drawn = (
        samples(machine, rows, image=image, columns=columns, title=_counted(k * sweeps, "sweep"))
        for k, rows in enumerate(states)
    )
    return animate(drawn, seconds=seconds, title="Gibbs chains")


def animate_weights(
    machines: Machines,
    *,
    image: tuple[int, int, int],
    n: int = 36,
    columns: int | None = None,
    seconds: float = 0.4,
) -> Animation:
    """Animate the receptive fields of hidden units during training, such as of ``hm.Run("runs/mnist").machines()``.

    Shows the ``n`` hidden units that have the largest norms at the end, on one scale.

    Args:
        machines: the machines of a run by epoch, or a sequence of machines.
        image: shape (channels, height, width) of a row.
        n: number of hidden units.
        columns: number of columns of tiles.
        seconds: time of each frame.
    """
    epochs, chain = by_epoch(machines)
    all_fields = [_fields(machine) for machine in chain]
    order = np.argsort(-np.linalg.norm(all_fields[-1], axis=1), kind="stable")[:n]
    limit = ordered_weights(chain[-1], n)[1]

    def drawn() -> Iterable[Figure]:
        for epoch, fields in zip(epochs, all_fields, strict=True):
            tiles = diverging(pictures(fields[order], image), columns=columns, limit=limit)
            yield show(tiles, f"epoch {epoch:g}", None)

    return animate(drawn(), seconds=seconds, title="Weights during training")


def animate_spectrum(machines: Machines, *, bins: int = 60, seconds: float = 0.4) -> Animation:
    """Animate the histogram of the singular values of the first coupling during training, on fixed axes.

    >>> import harmonium as hm
    >>> early, late = (hm.RBM(12, 8) for _ in range(2))
    >>> early.initialize(scale=0.01, seed=0); late.initialize(scale=0.5, seed=0)
    >>> len(animate_spectrum({0: early, 5: late}))
    2
    """
    epochs, chain = by_epoch(machines)
    spectra = [spectrum(machine) for machine in chain]
    widest = 1.05 * max(float(found.values.max()) for found in spectra)
    most = 1.6 * max(len(found) for found in spectra)

    def drawn() -> Iterable[Figure]:
        for epoch, found in zip(epochs, spectra, strict=True):
            with style.look():
                ax = style.axes(None, (4.6, 2.8))
            spectrum_histogram(found, bins=bins, ax=ax)
            ax.set(xlim=(0, widest), ylim=(0.6, most))
            ax.set_title(f"Epoch {epoch:g}: {found.outliers} of {len(found)} modes above the noise", loc="left")
            yield style.figure_of(ax)

    return animate(drawn(), seconds=seconds, title="Singular values during training")


def _fields(machine: Machine) -> np.ndarray:
    """The weights of all hidden units of the first layer, (hidden, visible)."""
    return style.as_array(machine.couplings[0].matrix()).T


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _pixels(figure: Figure, dpi: int) -> np.ndarray:
    """Render a figure as RGB bytes (height, width, 3)."""
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(cast("Sequence[Any]", canvas.buffer_rgba()))[..., :3].copy()
