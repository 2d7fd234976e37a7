"""What cannot fit into memory is refused before it is tried, with the requirement and an alternative."""

from __future__ import annotations

import pytest

import harmonium as hm
from harmonium import allocation, interactions
from harmonium.errors import HarmoniumError, InvalidOption, OutOfMemory


def test_huge_layers():
    with pytest.raises(
        OutOfMemory, match=r"weights of shape .*needs 37,252\.9 GB of memory.*use fewer units, or a Masked"
    ):
        hm.RBM(10**5, 10**8)
    with pytest.raises(OutOfMemory, match="bias of bernoulli units: needs"):
        hm.units.Bernoulli(10**12)
    with pytest.raises(InvalidOption, match="expected at most 1,099,511,627,776 entries"):
        hm.units.Bernoulli(2**70)


def test_interactions_of_order_three(monkeypatch):
    monkeypatch.setattr(allocation, "available_memory", lambda: 4 * 2**30)
    with pytest.raises(
        OutOfMemory, match=r"order 3 of 784 units: needs 7\.2 GB of memory, found 4\.0 GB; pass indices"
    ):
        interactions.tuples.all_tuples(784, 3)


def test_enumeration(monkeypatch):
    monkeypatch.setattr(allocation, "available_memory", lambda: 2**30)
    with pytest.raises(OutOfMemory, match=r"distribution of 33,554,432 states: needs 18\.\d GB.*log_partition"):
        hm.RBM(25, 30).distribution()


def test_it_is_an_error_of_the_package_and_a_memory_error():
    assert issubclass(OutOfMemory, HarmoniumError) and issubclass(OutOfMemory, MemoryError)
    assert allocation.available_memory() is None or allocation.available_memory() > 2**20


@pytest.mark.parametrize("shape", [(1,) * 200, (2,) * 65])
def test_many_dimensions(shape):
    with pytest.raises(InvalidOption, match="expected at most 32 dimensions"):
        hm.units.Bernoulli(shape)


@pytest.mark.parametrize("trials", [10**30, 1e30, 2**25, 0, 2.5])
def test_trials(trials):
    with pytest.raises(InvalidOption, match="trials"):
        hm.units.Binomial(3, trials=trials)
