"""Makes the scripts in ``tools`` importable, and marks most of the conformance suite as slow.

``make test-fast`` leaves out what is slow. Tests elsewhere are marked where they are written, with
``@pytest.mark.slow``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

#: the fast part of the conformance suite has every unit as a visible and as a hidden layer, with this partner
PARTNER = "bernoulli"
#: of the tests that train, only these pairs are in the fast part
TRAINED = [("bernoulli", "bernoulli"), ("gaussian", "bernoulli")]
TRAINING = {"test_defaults.py", "test_optimizers.py"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "conformance" and isinstance(item, pytest.Function) and not fast(item):
            item.add_marker(pytest.mark.slow)


def fast(item: pytest.Function) -> bool:
    """Whether a conformance test is in the fast part; those that are not about a pair of units are."""
    pair = item.callspec.params.get("pair") if hasattr(item, "callspec") else None
    if pair is None:
        return True
    return pair in TRAINED if item.path.name in TRAINING else PARTNER in pair
