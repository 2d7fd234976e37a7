"""The machines of figures 3 to 9: three image data sets at several sizes, trained with TAP once and shared.

The full scale is that of Table I. The paper does not give the following. Weights start as N(0, 10⁻⁶), visible
parameters as those of free units with the single-site statistics of the data. Only the weights have momentum. The rate
of real-MNIST decreases linearly. The fixed points start at the rows of every batch, eqs. (36)-(37); starts that persist
from step to step collapse to a few solutions and miss all others.

The quick scale has fewer rows and epochs, larger rates (decreasing ones for binary-MNIST), and few iterations per
step. For faces, whose pixels are far from zero on average, its gradients are centered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Unpack, cast

import torch
from torch import Tensor

from harmonium import data as datasets
from harmonium.data.loading import Binarize
from harmonium.errors import unknown
from harmonium.machines import RBM
from harmonium.training import L2, Clock, MeanField, NegativePhase, Run, Setting
from harmonium.training.initial import Normal
from harmonium.units import Bernoulli, TruncatedGaussBernoulli, TruncatedGaussian, Unit

from .. import machines as shared
from ..machines import MachineOptions, name_by_settings
from ..options import parse_sizes, with_options_of
from ..record import Record


@dataclass(frozen=True)
class Pictures:
    """An image data set and the visible units for it."""

    source: str
    binarize: Binarize | None
    visible: Callable[[int], Unit]
    ink: bool = True  # whether large values are drawn dark


DATASETS: dict[str, Pictures] = {
    "binary-mnist": Pictures("mnist", "threshold", Bernoulli),
    "real-mnist": Pictures(
        "mnist", None, lambda n: TruncatedGaussBernoulli(n, learn=("bias", "precision", "log_odds"))
    ),
    "cbcl": Pictures("cbcl-faces", None, lambda n: TruncatedGaussian(n, learn=("bias", "precision")), ink=False),
}


@dataclass(frozen=True)
class Settings:
    """A column of Table I, and settings that it does not give; ``rows=0`` means all rows."""

    sizes: tuple[int, ...]
    batch: int  # M
    starts: int  # K
    rate: tuple[float, float]  # γ, at the first and at the last step
    decay: float  # ε, of ℓ2
    momentum: float  # η
    rows: int = 0
    epochs: int = 100
    iterations: int = 100  # per step, or fewer if the tolerance is met
    tolerance: float | None = 1e-8
    centered: bool = False
    pseudocount: float | None = None  # of the initial values
    probes: int = 10_000  # rows from which the landscape is explored


SETTINGS: dict[str, Mapping[str, Settings]] = {
    "full": {
        "binary-mnist": Settings((25, 50, 100, 500), 100, 100, (0.005, 0.005), 0.001, 0.5),
        "real-mnist": Settings((100, 500), 100, 100, (1e-2, 1e-5), 0.001, 0.5, pseudocount=60.0),
        "cbcl": Settings((256,), 20, 20, (0.005, 0.005), 0.01, 0.5, probes=2400),
    },
    "quick": {
        "binary-mnist": Settings(
            (25, 50, 100, 500), 100, 100, (0.05, 0.0005), 0.001, 0.5,
            rows=5000, epochs=25, iterations=10, tolerance=None, probes=1000,
        ),
        "real-mnist": Settings(
            (50, 100), 100, 100, (0.1, 0.1), 0.001, 0.5,
            rows=3000, epochs=20, iterations=5, tolerance=None, pseudocount=30.0, probes=300,
        ),
        "cbcl": Settings(
            (100,), 20, 20, (0.3, 0.3), 0.01, 0.5,
            epochs=12, iterations=5, tolerance=None, centered=True, probes=500,
        ),
    },
}  # fmt: skip


class Machines(shared.Machines):
    """Machines by data set and size.

    Args:
        data: an image data set instead of MNIST and CBCL.
        hidden: sizes such as ``"50,400"`` instead of those of the scale.
        options: as in :class:`experiments.machines.Machines`.
    """

    def __init__(
        self, record: Record, scale: str, data: str = "", *, hidden: str | int = "", **options: Unpack[MachineOptions]
    ) -> None:
        super().__init__(record, scale, data, **options)
        self._hidden = parse_sizes(hidden) if hidden else ()
        self._load = cache(self._read)  # of this object, and gone with it
        self._done: dict[tuple[str, int], tuple[RBM, list[dict[str, float]]]] = {}

    # -- data -----------------------------------------------------------------------------------------------

    def settings(self, dataset: str) -> Settings:
        """The settings of a data set at this scale."""
        if dataset not in DATASETS:
            raise unknown("data set of the TAP experiments", dataset, DATASETS)
        return SETTINGS[self.scale][dataset]

    def source(self, dataset: str) -> str:
        """The name of the image data set."""
        return self.data or DATASETS[dataset].source

    def rows(self, dataset: str) -> Tensor:
        """The training rows: (n, pixels)."""
        return self._load(dataset, "train")[0]

    def test(self, dataset: str) -> Tensor:
        """The test rows: (n, pixels)."""
        return self._load(dataset, "test")[0]

    def labels(self, dataset: str) -> Tensor | None:
        """The classes of the training rows, if there are any: (n,)."""
        return self._load(dataset, "train")[1]

    def probes(self, dataset: str) -> Tensor:
        """The indices of the training rows from which the landscape is explored, evenly spaced: (n,)."""
        rows = len(self.rows(dataset))
        return torch.linspace(0, rows - 1, min(rows, self.settings(dataset).probes)).round().long()

    def published_probes(self, dataset: str) -> Tensor:
        """As many training rows as the paper explores the landscape from: (n, pixels)."""
        return self._load(dataset, "train", SETTINGS["full"][dataset].probes)[0]

    def image(self, dataset: str) -> tuple[int, int, int]:
        """The shape of an image: (channels, height, width)."""
        return cast("tuple[int, int, int]", datasets.info(self.source(dataset)).shape)

    def _read(self, dataset: str, split: str, limit: int | None = None) -> tuple[Tensor, Tensor | None]:
        chosen, source = self.settings(dataset), self.source(dataset)
        if limit is None and split == "train":
            limit = self.given_rows or chosen.rows or None
        binarize = DATASETS[dataset].binarize
        if datasets.info(source).has_labels:
            rows, labels = datasets.load(source, split=split, binarize=binarize, labels=True)
            return rows[:limit], labels[:limit]
        return datasets.load(source, split=split, binarize=binarize)[:limit], None

    def difference(self, dataset: str, *published: int) -> str:
        """How the machines differ from those of Table I, in words, if any of this could change a verdict.

        Empty if training is as published and there is a machine of each of the ``published`` sizes.
        """
        own, full, found = self.settings(dataset), SETTINGS["full"][dataset], []
        if self.data:
            found.append(f"images of {self.data}")
        missing = [size for size in published if size not in self.sizes(dataset)]
        if missing:
            found.append(f"no machine of {', '.join(map(str, missing))} hidden units")
        rows, epochs = len(self.rows(dataset)), self.epochs(dataset)
        whole = datasets.info(self.source(dataset)).splits["train"]
        if (rows, epochs, own.batch) != (whole, full.epochs, full.batch):
            updates, wanted = (
                n * -(-r // m) for n, r, m in ((epochs, rows, own.batch), (full.epochs, whole, full.batch))
            )
            found.append(f"{updates} updates from {rows} images instead of {wanted} from {whole}")
        if own.rate != full.rate:
            found.append(f"learning rate {_range(own.rate)} instead of {_range(full.rate)}")
        if (own.iterations, own.tolerance) != (full.iterations, full.tolerance):
            found.append(f"{own.iterations} iterations per step instead of up to {full.iterations}")
        if own.centered != full.centered:
            found.append("centered gradients")
        return ", ".join(found)

    # -- machines -------------------------------------------------------------------------------------------

    def sizes(self, dataset: str) -> tuple[int, ...]:
        """Numbers of hidden units, ascending."""
        return self._hidden or self.settings(dataset).sizes

    def size(self, dataset: str, published: int) -> int:
        """The size nearest to a published one."""
        return min(self.sizes(dataset), key=lambda size: abs(size - published))

    def epochs(self, dataset: str) -> int:
        """The number of epochs for a data set."""
        return self.given_epochs or self.settings(dataset).epochs

    def machine(self, dataset: str, hidden: int) -> RBM:
        """A trained machine."""
        return self._trained(dataset, hidden)[0]

    def history(self, dataset: str, hidden: int) -> list[dict[str, float]]:
        """The metrics of its training, a row for each epoch."""
        return self._trained(dataset, hidden)[1]

    def along(self, dataset: str, hidden: int) -> list[tuple[int, RBM]]:
        """The machine at the epochs that were kept, from 0 (not trained) to the last."""
        self._trained(dataset, hidden)
        kept = Run(self.folder / self._name(dataset, hidden)).machines()
        return [(int(epoch), cast("RBM", machine)) for epoch, machine in kept.items()]

    def build(self, dataset: str, hidden: int) -> RBM:
        """A new machine."""
        return RBM(DATASETS[dataset].visible(self.rows(dataset).shape[1]), Bernoulli(hidden))

    def options(self, dataset: str, machine: RBM) -> dict[str, Any]:
        """The options of ``fit`` for its training."""
        chosen = self.settings(dataset)
        first, last = chosen.rate

        def falling(clock: Clock) -> Setting:
            return Setting(rate=1 + (last / first - 1) * clock.fraction)

        return {
            "negative": MeanField(
                chosen.iterations, starts=chosen.starts, tolerance=chosen.tolerance, persistent=False
            ),
            "epochs": self.epochs(dataset),
            "batch_size": chosen.batch,
            "optimizer": torch.optim.SGD(self._groups(chosen, machine), lr=first),
            "penalties": [L2(chosen.decay)],
            "centered": chosen.centered,
            "schedule": falling,
            "initialize": Normal(1e-3, chosen.pseudocount),
            "progress": False,
        }

    @staticmethod
    def _groups(chosen: Settings, machine: RBM) -> list[dict[str, Any]]:
        """Alg. 2 gives momentum to the weights only. A centered gradient moves the biases with the weights, c by -Wᵀμ,
        which needs the same momentum: then all parameters have it."""
        weights = machine.coupling.weight
        others = [p for p in machine.parameters() if p is not weights and p.requires_grad]
        return [
            {"params": [weights], "momentum": chosen.momentum},
            {"params": others, "momentum": chosen.momentum if chosen.centered else 0.0},
        ]

    def trained_with(self, dataset: str, hidden: int, way: str, negative: NegativePhase) -> RBM:
        """A machine trained with another negative phase, called ``way``, and otherwise like the others."""
        machine = self.build(dataset, hidden)
        self.train(
            self._name(dataset, hidden, way),
            machine,
            self.rows(dataset),
            words=f"{dataset}, {hidden} hidden units, {way}, {self.epochs(dataset)} epochs",
            **self.options(dataset, machine) | {"negative": negative},
        )
        return machine

    def _name(self, dataset: str, hidden: int, way: str = "") -> str:
        kind = [dataset, *(["of", self.data] if self.data else []), *way.lower().split(), hidden, self.scale]
        return name_by_settings(*kind, rows=len(self.rows(dataset)), epochs=self.epochs(dataset), seed=self.seed)

    def _trained(self, dataset: str, hidden: int) -> tuple[RBM, list[dict[str, float]]]:
        key = dataset, hidden
        if key not in self._done:
            machine = self.build(dataset, hidden)
            result = self.train(
                self._name(dataset, hidden),
                machine,
                self.rows(dataset),
                words=f"{dataset}, {hidden} hidden units, {self.epochs(dataset)} epochs",
                **self.options(dataset, machine),
            )
            self._done[key] = machine, result.history
        return self._done[key]


def _range(rate: tuple[float, float]) -> str:
    first, last = rate
    return f"{first:g}" if first == last else f"{first:g} to {last:g}"


#: makes an experiment of a function of a record and machines
on_machines = with_options_of(Machines)
