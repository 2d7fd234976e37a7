"""Named settings of training, found by measuring (see the experiment mnist/500)."""

from __future__ import annotations

from typing import Any

from ..errors import unknown

#: name: options of the table [training]
PRESETS: dict[str, dict[str, Any]] = {
    # persistent chains, centring, a rate that falls to zero and an average over the end of the run
    "plain": {
        "negative": "pcd:1",
        "batch_size": 100,
        "learning_rate": 0.05,
        "schedule": "linear:0.3",
        "average": 0.3,
    },
    # twice the rate, which a little decay of the weights keeps from overfitting and from states that do not mix
    "best": {
        "negative": "pcd:1",
        "batch_size": 100,
        "learning_rate": 0.1,
        "schedule": "linear:0.3",
        "average": 0.3,
        "l2": 1.5e-4,
    },
    # for rows that are the same in every epoch, which overfit sooner and make deeper valleys: with more decay
    "best-fixed": {
        "negative": "pcd:1",
        "batch_size": 100,
        "learning_rate": 0.1,
        "schedule": "linear:0.3",
        "average": 0.3,
        "l2": 1e-3,
    },
}


def find(name: str) -> dict[str, Any]:
    """The options of a preset.

    >>> find("plain")["negative"]
    'pcd:1'
    """
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]
