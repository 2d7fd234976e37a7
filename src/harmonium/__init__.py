"""harmonium: restricted Boltzmann machines, right and fast.

>>> import harmonium as hm
>>> rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(32))
>>> images = hm.data.load("digits", binarize="threshold")
>>> result = hm.fit(rbm, images, negative=hm.PCD(1), epochs=1, seed=0, progress=False)
>>> rbm.sample(5, sweeps=10, seed=0).shape
torch.Size([5, 64])
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors; at run time a name is imported when it is first used
    from . import convert as convert
    from . import (
        couplings,
        data,
        errors,
        estimates,
        interactions,
        landscape,
        likelihood,
        machines,
        meanfield,
        quality,
        replicas,
        sampling,
        spectra,
        tasks,
        training,
        units,
    )
    from . import plots as plots
    from . import report as report
    from . import testing as testing
    from .files import load, save
    from .machines import RBM, BoltzmannMachine, ConditionalRBM, DeepBeliefNetwork, DeepBoltzmannMachine
    from .runs import select
    from .training import (
        CD,
        L1,
        L2,
        PCD,
        Average,
        Callback,
        Conditional,
        Constant,
        DeepPCD,
        Discriminative,
        Exact,
        GibbsLangevin,
        Growing,
        Incomplete,
        L1Squared,
        L2ToMean,
        Labeled,
        Langevin,
        Linear,
        MeanField,
        Metric,
        MixingTime,
        ParallelTempering,
        Plan,
        Reconstruction,
        Redrawn,
        Run,
        Smooth,
        Training,
        TrajectoryTempering,
        UnbiasedCD,
        Weighted,
        WeightedSum,
        Windows,
        ZeroSum,
        deepen,
        fit,
        losses,
        pretrain,
        widen,
    )

__version__ = "0.1.0"

__all__ = [
    "CD",
    "L1",
    "L2",
    "PCD",
    "RBM",
    "Average",
    "BoltzmannMachine",
    "Callback",
    "Conditional",
    "ConditionalRBM",
    "Constant",
    "DeepBeliefNetwork",
    "DeepBoltzmannMachine",
    "DeepPCD",
    "Discriminative",
    "Exact",
    "GibbsLangevin",
    "Growing",
    "Incomplete",
    "L1Squared",
    "L2ToMean",
    "Labeled",
    "Langevin",
    "Linear",
    "MeanField",
    "Metric",
    "MixingTime",
    "ParallelTempering",
    "Plan",
    "Reconstruction",
    "Redrawn",
    "Run",
    "Smooth",
    "Training",
    "TrajectoryTempering",
    "UnbiasedCD",
    "Weighted",
    "WeightedSum",
    "Windows",
    "ZeroSum",
    "couplings",
    "data",
    "deepen",
    "errors",
    "estimates",
    "fit",
    "interactions",
    "landscape",
    "likelihood",
    "load",
    "losses",
    "machines",
    "meanfield",
    "pretrain",
    "quality",
    "replicas",
    "sampling",
    "save",
    "select",
    "spectra",
    "tasks",
    "training",
    "units",
    "widen",
]

_HOMES = ("machines", "training", "files", "runs")  # where the public names that are no modules live
_OPTIONAL = ("convert", "plots", "report", "testing")  # public too, but not for ``import *``: they need extras


def __getattr__(name: str) -> Any:
    if name in (*__all__, *_OPTIONAL):
        if find_spec(f"{__name__}.{name}"):
            return importlib.import_module(f".{name}", __name__)
        for home in _HOMES:
            module = importlib.import_module(f".{home}", __name__)
            if hasattr(module, name):
                return globals().setdefault(name, getattr(module, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_OPTIONAL, "__version__", "__doc__", "__file__", "__name__", "__path__"])
