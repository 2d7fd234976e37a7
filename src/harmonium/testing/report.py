"""Failures of checks: the name of the check, the expected and the actual value."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Subject:
    """The checked object; every failure names the object and the check."""

    def __init__(self, function: str, name: str) -> None:
        self.title = f"{function}({name})"

    def expect(self, condition: bool, check: str, expected: object, found: object) -> None:
        """Fail unless ``condition``."""
        if not condition:
            raise AssertionError(f"{self.title}: {check}: expected {expected}, found {found}")

    def equal(self, check: str, found: object, expected: object) -> None:
        """Fail unless the two are equal."""
        self.expect(found == expected, check, expected, found)

    def close(self, check: str, found: Tensor, expected: Tensor, tolerance: Tensor | float) -> None:
        """Fail unless |found - expected| ≤ tolerance (which broadcasts) everywhere; shows the worst entry."""
        self.equal(f"{check} (shape)", tuple(found.shape), tuple(expected.shape))
        found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
        allowed = torch.as_tensor(tolerance, dtype=torch.float64).expand(expected.shape)
        excess = (found - expected).abs() / allowed.clamp_min(1e-300)
        excess = torch.where(found == expected, 0.0, excess).nan_to_num(nan=math.inf)
        if found.numel() and bool((excess > 1).any()):
            worst = int(excess.argmax())
            self.expect(
                False,
                f"{check} (entry {worst}, allowed error {allowed.flatten()[worst]:.2g})",
                f"{expected.flatten()[worst]:.10g}",
                f"{found.flatten()[worst]:.10g}",
            )

    def finite(self, check: str, x: Tensor) -> None:
        """Fail unless every entry is finite."""
        bad = x[~torch.isfinite(x)]
        self.expect(len(bad) == 0, check, "finite numbers", bad[:3].tolist())
