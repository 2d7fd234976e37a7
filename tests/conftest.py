"""Makes the scripts in ``tools`` importable, and marks tests as slow: most of the conformance suite, and more cases.

``make test-fast`` leaves out what is slow. Tests are marked where they are written: ``@pytest.mark.slow`` for the whole
test, ``@pytest.mark.fast_cases(n)`` for all but n of its cases. The conformance suite has a rule in addition.
"""

from __future__ import annotations

import sys
from collections import defaultdict
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
    cases: dict[tuple[Path, str], list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function):
            if item.path.parent.name == "conformance" and not fast(item):
                item.add_marker(pytest.mark.slow)
            else:
                cases[item.path, item.originalname].append(item)
    for group in cases.values():
        marker = group[0].get_closest_marker("fast_cases")
        if marker is not None:
            kept = evenly_spaced(len(group), *marker.args)
            for k, item in enumerate(group):
                if k not in kept:
                    item.add_marker(pytest.mark.slow)


def evenly_spaced(size: int, n: int) -> set[int]:
    """Up to ``n`` indices below ``size``, the first of them 0."""
    return {k * size // n for k in range(n)}


def fast(item: pytest.Function) -> bool:
    """Whether a conformance test is in the fast part; those that are not about a pair of units are."""
    pair = item.callspec.params.get("pair") if hasattr(item, "callspec") else None
    if pair is None:
        return True
    return pair in TRAINED if item.path.name in TRAINING else PARTNER in pair
