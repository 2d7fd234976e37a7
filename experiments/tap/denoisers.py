"""The priors of figures 8 and 9: machines of several sizes, and the widest one trained in other ways."""

from __future__ import annotations

from typing import Any

from harmonium.machines import RBM
from harmonium.training import PCD, MeanField, NegativePhase

from .trained import Machines

DATASET = "binary-mnist"
INFERENCE: dict[str, Any] = {"method": "tap", "max_iterations": 300, "tolerance": 1e-8}
NOISY = "noisy starts"
NOISE = 0.3  # of the starts: flips with any probability up to 0.15


def label(hidden: int) -> str:
    """The name of a machine in figures."""
    return f"$N_h$ = {hidden}"


def phases(trained: Machines) -> dict[str, NegativePhase]:
    """Other ways to train the widest machine: the one the paper suggests, and one without fixed points."""
    chosen = trained.settings(DATASET)
    noisy = MeanField(
        chosen.iterations, starts=chosen.starts, tolerance=chosen.tolerance, persistent=False, noise=NOISE
    )
    return {NOISY: noisy, "PCD": PCD(1)}


def trained_with(trained: Machines, hidden: int, way: str) -> RBM:
    """A machine trained in one of the other ways, and otherwise like all others."""
    return trained.trained_with(DATASET, hidden, way, phases(trained)[way])
