"""What cannot fit into memory is refused before it is tried, with the requirement and an alternative."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium import allocation, interactions
from harmonium.errors import HarmoniumError, InvalidOption, OutOfMemory


@pytest.mark.slow
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


@pytest.mark.parametrize("given", [{}, {"start": torch.eye(6)}, {"given": torch.eye(6)}], ids=["new", "start", "given"])
def test_many_samples(given):
    """Numbers of samples are checked before memory is used."""
    rbm = hm.RBM(6, 3)
    with pytest.raises(OutOfMemory, match=r"1e\+13 states of 9 units: needs .* GB of memory.*use fewer at a time"):
        rbm.sample(10**13, **given)
    with pytest.raises(InvalidOption, match=r"n: expected a whole number of at most 4\.6e\+18, found about 1e\+400"):
        rbm.sample(10**400, **given)
    with pytest.raises(InvalidOption, match=r"n: expected a whole number, found 2\.5"):
        rbm.sample(2.5, **given)


def test_many_chains_steps_and_epochs():
    rbm, rows = hm.RBM(6, 3), torch.eye(6)
    with pytest.raises(OutOfMemory, match=r"batch and chains: 1e\+13 rows of 6 units.*use fewer chains"):
        hm.fit(rbm, rows, negative=hm.PCD(1, chains=10**13), epochs=1, progress=False)
    with pytest.raises(OutOfMemory, match=r"betas: .* steps: needs"):
        hm.likelihood.ais(rbm, runs=2, betas=10**14)
    with pytest.raises(OutOfMemory, match="states of 9 units"):
        hm.likelihood.ais(rbm, runs=10**13, betas=2)
    with pytest.raises(InvalidOption, match="epochs: expected a whole number of at most"):
        hm.fit(rbm, rows, epochs=10**400, progress=False)
    with pytest.raises(InvalidOption, match="betas: expected a whole number of at most"):
        hm.likelihood.ais(rbm, runs=2, betas=10**400)
    with pytest.raises(InvalidOption, match="chains: expected a whole number of at most"):
        hm.PCD(1, chains=10**400)


@pytest.mark.parametrize("betas", [2.5, "x", None, [0, "a", 1]])
def test_steps_that_are_no_number(betas):
    with pytest.raises(InvalidOption, match="betas: expected a number of steps, or values from 0 to 1, found"):
        hm.likelihood.ais(hm.RBM(3, 2), runs=2, betas=betas)
