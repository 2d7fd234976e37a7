"""Sufficient statistics of units with -U(x) = b x - γ x²/2 on any support."""

from __future__ import annotations

from typing import Any

from torch import Tensor


class Quadratic:
    """Mixin for units with natural parameters ``bias`` and ``precision``, whose statistics are x and -x²/2."""

    def statistics(self, x: Tensor) -> dict[str, Tensor]:
        """x and -x²/2."""
        return {"bias": x, "precision": -x.square() / 2}

    def moments(self: Any, B: Tensor, A: Tensor | None = None, mean: Tensor | None = None) -> dict[str, Tensor]:
        """⟨x⟩ and -⟨x²⟩/2 in the field B."""
        mean = self.mean(B, A) if mean is None else mean
        return {"bias": mean, "precision": -(mean.square() + self.variance(B, A)) / 2}
