"""Arguments of random calls: numbers of any size, and data of any kind."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

NUMBERS: list[Any] = [-1, 0, 1, 2, 3, 5, 0.5, -0.0, 1e-300, 1e30, 1e38, math.nan, math.inf, -math.inf, np.int64(2)]
WHOLE: list[int] = [-5, -1, 0, 1, 2, 3, 4]
MANY: list[Any] = [10**13, 10**30, -(10**30), 10**400, 2.5, "3", None]
PATHS = ["", "none", ".", "/", "a\0b.npy", "~nosuchuser/a.csv", "x" * 5000]
SHAPES: list[Any] = [1, 2, 3, 0, -1, (2,), (2, 3), (0,), (), (1,) * 200, (2, 2, 2), 2.5, "2"]


def any_data(choice: random.Random) -> Any:
    """Data of any kind, most of them with rows of six bits."""
    bits = np.random.default_rng(choice.randrange(1000)).integers(0, 2, (choice.choice([1, 5, 45]), 6))
    kinds: list[Callable[[], Any]] = [
        lambda: bits,
        lambda: bits.astype(float),
        lambda: torch.tensor(bits).float(),
        lambda: bits.tolist(),
        lambda: bits * 1e38,
        lambda: bits * math.nan,
        lambda: bits * 1j,
        lambda: bits.astype(str),
        lambda: bits[:, :3],
        lambda: bits[:0],
        lambda: bits[0],
        lambda: None,
        lambda: "text",
        lambda: 3,
        lambda: [],
        lambda: [[]],
        lambda: torch.tensor(bits).bool(),
        lambda: bits.astype(">f8"),
        lambda: bits[::-1],
        lambda: bits.reshape(-1, 2, 3),
        lambda: bits * 255,
        lambda: -bits,
        lambda: bits + 0.5,
        lambda: {"a": 1},
        lambda: [object()] * 6,
    ]
    return choice.choice(kinds)()
