"""harmonium: restricted Boltzmann machines, right and fast.

>>> import harmonium as hm
>>> rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(32))
>>> images = hm.data.load("digits", binarize="threshold")
>>> result = hm.fit(rbm, images, negative=hm.PCD(1), epochs=1, seed=0, progress=False)
>>> rbm.sample(5, steps=10, seed=0).shape
torch.Size([5, 64])
"""

from __future__ import annotations

import importlib
from typing import Any

from . import (
    couplings,
    data,
    errors,
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
from .files import load, save
from .machines import RBM, BoltzmannMachine, DeepBoltzmannMachine
from .training import (
    CD,
    L1,
    L2,
    PCD,
    Average,
    Callback,
    Centered,
    Clip,
    Constant,
    DeepPCD,
    Exact,
    GrowingSteps,
    L1Squared,
    LinearDecay,
    MeanField,
    Metric,
    MixingTime,
    ParallelTempering,
    Redrawn,
    Run,
    TrajectoryTempering,
    Weighted,
    ZeroSum,
    fit,
    losses,
    pretrain,
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
    "Centered",
    "Clip",
    "Constant",
    "DeepBoltzmannMachine",
    "DeepPCD",
    "Exact",
    "GrowingSteps",
    "L1Squared",
    "LinearDecay",
    "MeanField",
    "Metric",
    "MixingTime",
    "ParallelTempering",
    "Redrawn",
    "Run",
    "TrajectoryTempering",
    "Weighted",
    "ZeroSum",
    "couplings",
    "data",
    "errors",
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
    "spectra",
    "tasks",
    "training",
    "units",
]

_ON_DEMAND = ("plots", "report", "testing")  # training and measuring should not wait for these to load


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
