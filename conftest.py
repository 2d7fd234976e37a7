"""Every test starts with the same state of torch's default generator, whatever ran before it."""

from __future__ import annotations

import signal

import pytest
import torch

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell; tests send this signal
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _default_generator() -> None:
    torch.default_generator.manual_seed(0)  # torch.manual_seed would also seed other devices, which is slow
