"""Every test starts with the same state of torch's default generator, whatever ran before it."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _default_generator() -> None:
    torch.manual_seed(0)
