"""Every test starts with the same state of torch's default generator, whatever ran before it."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _default_generator() -> None:
    torch.default_generator.manual_seed(0)  # torch.manual_seed would also seed other devices, which is slow
