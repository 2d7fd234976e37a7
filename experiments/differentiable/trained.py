"""The networks of the tables and figures: data sets, settings, and joint training once for all of them.

The paper trains for 500 epochs with Adam at rate 0.03 and batches of 128, and gives neither k, nor the initial weights,
nor the channels of its classifiers. Here the initial weights, the rate and the sparsity were chosen on validation rows
of MNIST (docs/differentiable.md) and are used for the other classifiers unchanged; those of the faces were not tuned.
The initial weights drive the units out of their linear range; with small ones the features were no better for
a linear classifier than random weights of the same size. With k = 1 and N = 255, a standard deviation of 0.01 to 0.02,
as usual for RBMs, has that effect in the first layer by itself, and for N = 1 it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Unpack

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, avg_pool2d

from harmonium import data as datasets
from harmonium import noise
from harmonium.errors import unknown
from harmonium.machines import RBM, DeepBeliefNetwork
from harmonium.training import CD, PCD, Average, Clock, Linear, Reconstruction, Redrawn, Setting
from harmonium.units import Bernoulli

from .. import machines as shared
from ..machines import MachineOptions, name_by_settings
from ..record import Record
from .contrast import normalized
from .networks import (
    PUBLISHED,
    Architecture,
    Sparse,
    Window,
    build,
    equalized,
    groups,
    initialize,
    levels_of,
    rewindowed,
)

BRIGHTEST = 255  # of the pixels
BATCH = 128
PUBLISHED_EPOCHS = 500
SOME = 500  # images from which the sizes of inputs are computed
CHUNK = 100  # images whose features are computed at once; larger ones spend their time in allocations


@dataclass(frozen=True)
class Encoding:
    """How features are computed from the kernels of a network of one convolution (:func:`.networks.equalized`)."""

    window: Window
    deviation: float = 2.5  # of the inputs of the hidden units
    activity: float = 0.2  # mean of a unit at the mean input, as a share of N


@dataclass(frozen=True)
class BinaryTop:
    """The binary machine that generates states in place of the top machine (:meth:`Machines.binary_top`)."""

    hidden: int = 400
    epochs: int = 40
    rate: float = 0.05  # at the first step; it falls to zero
    batch: int = 64


@dataclass(frozen=True)
class Settings:
    """How a network is trained; ``rows=0`` means all rows."""

    architecture: Architecture
    epochs: int
    rows: int = 0
    rate: float = 0.01  # of the inputs in units of 1/k, at the first step
    gain: float = 8.0  # of the initial weights
    activity: float = 0.05  # mean hidden state as a share of N; 0.5 means no penalty
    aligned: bool = False
    centered: bool = False  # gradients; without, the hidden units of dense layers turn off (docs/differentiable.md)
    pool: int = 1  # features are means over blocks of pool × pool units of a map
    encoding: Encoding | None = None  # of the features; None means as trained
    contrast: bool = False  # whether the network sees images with normalized local contrast
    batch: int = BATCH
    size: int = 0  # height and width to which images are reduced; 0 keeps them
    top: BinaryTop = BinaryTop()


#: of the quick classifiers: patches that do not overlap, so that units of the same map do not explain the same pixels
PATCHES = Architecture((128,), windows=(Window(8, 8, 2),))
DENSE = Encoding(Window(8, 1, 2))
SETTINGS: Mapping[str, Mapping[str, Settings]] = {
    "quick": {
        "mnist": Settings(PATCHES, 10, rows=20_000, gain=1.0, pool=5, encoding=DENSE),
        "fashion-mnist": Settings(PATCHES, 10, rows=20_000, gain=1.0, pool=5, encoding=DENSE, contrast=True),
        "cifar10": Settings(PATCHES, 20, gain=1.0, pool=6, encoding=DENSE, contrast=True),
        "caltech-silhouettes": Settings(PATCHES, 50, gain=1.0, pool=5, encoding=DENSE),
        "lfw": Settings(
            Architecture((32, 64), (300, 100)),
            20,
            gain=1.0,
            activity=0.5,
            aligned=True,
            centered=True,
            batch=32,
            size=32,
        ),
    },
    "full": {
        "mnist": Settings(Architecture((64, 128, 512)), PUBLISHED_EPOCHS),
        "fashion-mnist": Settings(Architecture((64, 128, 512)), PUBLISHED_EPOCHS),
        "cifar10": Settings(Architecture((64, 128, 256)), PUBLISHED_EPOCHS),
        "caltech-silhouettes": Settings(Architecture((32, 64, 128)), PUBLISHED_EPOCHS),
        "lfw": Settings(PUBLISHED, PUBLISHED_EPOCHS, gain=1.0, activity=0.5, aligned=True),
    },
}


def pixels(dataset: str, split: str) -> tuple[Tensor, Tensor]:
    """Images as 8-bit numbers (n, channels, height, width), and their classes."""
    images, labels = datasets.load(dataset, split=split, flatten=False, labels=True)
    return (images * BRIGHTEST).round().to(torch.uint8), labels


def reduced(images: Tensor, size: int) -> Tensor:
    """Images (n, channels, height, width) of ``size`` × ``size`` pixels, as means over pixels; 0 keeps them.

    >>> reduced(torch.tensor([[[[0, 10], [20, 30]]]], dtype=torch.uint8), 1).tolist()
    [[[[15]]]]
    """
    return adaptive_avg_pool2d(images.float(), size).round().to(images.dtype) if size else images


def states(images: Tensor, levels: int) -> Tensor:
    """Pixels (n, ...) as values from 0 to N of visible units; for N = 1 these are probabilities.

    >>> states(torch.tensor([[0, 51, 255]], dtype=torch.uint8), 1)
    tensor([[0.0000, 0.2000, 1.0000]])
    """
    return images.float() * (levels / BRIGHTEST)


@torch.no_grad()
def features(
    network: DeepBeliefNetwork, images: Tensor, levels: int, pool: int = 1, layer: int | None = None
) -> Tensor:
    """The means of a layer (default: the top one) as shares of N, averaged over ``pool`` × ``pool`` units: (n, m)."""
    parts = []
    for rows in images.split(CHUNK):
        found = network.features(states(rows, levels), layer) / levels
        parts.append((avg_pool2d(found, pool) if pool > 1 else found).flatten(1))
    return torch.cat(parts)


class Machines(shared.Machines):
    """Networks by data set and number of levels.

    Args:
        data: data sets, separated by commas, instead of all.
        options: as in :class:`experiments.machines.Machines`.
    """

    def __init__(self, record: Record, scale: str, data: str = "", **options: Unpack[MachineOptions]) -> None:
        super().__init__(record, scale, data, **options)
        self.load, self.inputs = cache(self._load), cache(self._inputs)
        for name in self.data.split(",") if self.data else ():
            self.settings(name)

    def _load(self, dataset: str, split: str) -> tuple[Tensor, Tensor]:
        images, labels = pixels(dataset, split)
        return reduced(images, self.settings(dataset).size), labels

    def _inputs(self, dataset: str, split: str) -> Tensor:
        """The images as the network sees them."""
        images = self.load(dataset, split)[0]
        return normalized(images) if self.settings(dataset).contrast else images

    def settings(self, dataset: str) -> Settings:
        """The settings of a data set at this scale."""
        if dataset not in SETTINGS[self.scale]:
            raise unknown("data set of the experiments with multinary units", dataset, SETTINGS[self.scale])
        return SETTINGS[self.scale][dataset]

    def chosen(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """The data sets of an experiment: those given, or all that it knows."""
        return tuple(self.data.split(",")) if self.data else known

    def epochs(self, dataset: str) -> int:
        """The number of epochs for a data set."""
        return self.given_epochs or self.settings(dataset).epochs

    def rows(self, dataset: str) -> Tensor:
        """The images on which the network of a data set is trained."""
        images = self.inputs(dataset, "train")
        return images[: self.given_rows or self.settings(dataset).rows or len(images)]

    def difference(self, dataset: str) -> str:
        """How training differs from the paper's, in words."""
        return (
            f"{self.epochs(dataset)} epochs of {len(self.rows(dataset))} images instead of {PUBLISHED_EPOCHS} of all, "
            "channels, initial weights, learning rate and sparsity chosen here"
        )

    # -- networks -------------------------------------------------------------------------------------------

    def untrained(self, dataset: str, levels: int) -> DeepBeliefNetwork:
        """The network before training."""
        chosen, images = self.settings(dataset), self.rows(dataset)
        network = build(tuple(images.shape[1:]), chosen.architecture, levels, aligned=chosen.aligned)  # type: ignore[arg-type]
        start = states(images[:1000], levels)
        initialize(network, start, chosen.gain, activity=chosen.activity, seed=self.seed)
        return network

    def network(self, dataset: str, levels: int, *, factor: float = 1.0) -> DeepBeliefNetwork:
        """The trained network.

        Args:
            dataset: name of the data set.
            levels: N.
            factor: of the learning rate.
        """
        images = self.rows(dataset)
        network = self.untrained(dataset, levels)
        if levels == 1:  # every pixel is drawn once, with its gray value as probability
            data = torch.bernoulli(states(images, 1), generator=noise.generator(self.seed)).to(torch.uint8)
        else:
            data = images
        epochs = self.epochs(dataset)
        self.train(
            self._name(dataset, levels, factor),
            network,
            data,
            words=f"{dataset}, N = {levels}, {epochs} epochs of {len(data)} images"
            + (f", learning rate × {factor:.3g}" if factor != 1 else ""),
            **self.options(dataset, network, levels, factor),
        )
        return network

    def _name(self, dataset: str, levels: int, factor: float) -> str:
        architecture = self.settings(dataset).architecture
        kind = [dataset, "levels", levels, *architecture.channels, *architecture.dense]
        if factor != 1:
            kind += ["rate", f"{factor:.3g}"]
        return name_by_settings(*kind, rows=len(self.rows(dataset)), epochs=self.epochs(dataset), seed=self.seed)

    def binary_top(self, dataset: str, network: DeepBeliefNetwork, *, factor: float = 1.0) -> RBM:
        """A machine of binary units on the layer below the top one, which generates states of that layer.

        Its visible units are drawn in each epoch with the means of that layer, as shares of N, as probabilities. These
        are multinary units with k = N, whose values are 0 and N. Draws of the top machine itself, with k = 1, have too
        little noise to move between states (docs/differentiable.md).
        """
        chosen, levels = self.settings(dataset).top, levels_of(network)
        shares = features(network, self.rows(dataset), levels, layer=len(network.machines) - 1)
        machine = RBM(Bernoulli(shares.shape[1]), Bernoulli(chosen.hidden))
        self.train(
            f"{self._name(dataset, levels, factor)}-binary-{chosen.hidden}-epochs-{chosen.epochs}",
            machine,
            Redrawn(shares),
            words=f"binary machine {shares.shape[1]}×{chosen.hidden}, {chosen.epochs} epochs",
            negative=PCD(5),
            epochs=chosen.epochs,
            batch_size=chosen.batch,
            learning_rate=chosen.rate,
            schedule=Linear(0.0),
            constraints=[Average(0.2)],
            progress=False,
        )
        return machine

    def encoder(self, dataset: str, network: DeepBeliefNetwork) -> DeepBeliefNetwork:
        """The network that computes the features of a classifier: the kernels of ``network``, with chosen inputs."""
        encoding = self.settings(dataset).encoding
        if encoding is None:
            return network
        some = states(self.rows(dataset)[:SOME], levels_of(network))
        network = rewindowed(network, encoding.window)
        return equalized(network, some, encoding.deviation, encoding.activity)

    def options(self, dataset: str, network: DeepBeliefNetwork, levels: int, factor: float = 1.0) -> dict[str, Any]:
        """The options of ``fit``: means for many levels, whose draws have little noise, and draws for N = 1."""
        chosen = self.settings(dataset)

        def falling(clock: Clock) -> Setting:
            return Setting(rate=1 - clock.fraction)

        return {
            "negative": CD(1) if levels == 1 else Reconstruction(1),
            "epochs": self.epochs(dataset),
            "batch_size": chosen.batch,
            "optimizer": torch.optim.Adam(groups(network, chosen.rate * factor)),
            "penalties": [*([] if chosen.activity == 0.5 else [Sparse(target=chosen.activity)])],
            "centered": chosen.centered,
            "schedule": falling,
            "initialize": "keep",
            "progress": False,
        }
