"""The result of a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..shown import Shown, short
from .plan import Plan
from .run import IN_REPR


@dataclass(repr=False)
class Result(Shown):
    """Result of :func:`fit`: the trained machine, the metrics of each epoch, and the complete plan.

    ``expected_gain`` is the increase of the log-likelihood per row, in nats, that another training of the same length
    would bring; it is None for machines that are too large for exact likelihoods, and after few epochs.
    """

    machine: Any
    history: list[dict[str, float]]
    plan: Plan
    expected_gain: float | None = None

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The machine and the metrics of the last epoch."""
        last = self.history[-1] if self.history else {}
        metrics = {name.replace("_", " "): short(value) for name, value in last.items()}
        return "Result", {"machine": repr(self.machine), **metrics}

    def __repr__(self) -> str:
        last = self.history[-1] if self.history else {}
        shown = {name.replace("_", " "): value for name, value in last.items()}
        metrics = [f"{name} {short(shown[name], 3)}" for name in IN_REPR if name in shown]
        words = ", ".join([f"{last.get('epoch', 0):.0f} epochs", *metrics])
        return f"Result({words})"
