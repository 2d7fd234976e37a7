"""What newcomers type works, or the error names the right call."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium.machines.hints import CALLS


def test_numbers_stand_for_bernoulli_units():
    assert hm.RBM(6, 3).config() == hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(3)).config()
    assert hm.RBM((2, 3), 4).visible.shape == (2, 3)
    assert hm.DeepBoltzmannMachine([5, 4, 3]).depth == 3


@pytest.mark.parametrize("layer", [0, -1, 2.5, "784", (3, 0), (), None])
def test_other_layers_raise(layer):
    with pytest.raises(hm.errors.InvalidOption, match="layer"):
        hm.RBM(layer, 3)


def test_weight_is_the_parameter_of_the_coupling():
    rbm = hm.RBM(6, 3)
    assert rbm.weight is rbm.coupling.weight
    assert set(rbm.state_dict()) == set(hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(3)).state_dict())


@pytest.mark.parametrize("name", CALLS)
def test_names_of_other_libraries(name):
    rbm = hm.RBM(6, 3)
    with pytest.raises(AttributeError) as raised:
        getattr(rbm, name)
    assert CALLS[name] in str(raised.value)
    assert not hasattr(rbm, name)


def test_other_unknown_names_raise_as_usual():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = hm.RBM(6, 3).nonsense


def test_a_single_row():
    with pytest.raises(hm.errors.InvalidData, match=r"found \(6,\). For a single row, use x\[None\]"):
        hm.RBM(6, 3).free_energy(torch.zeros(6))


def test_public_names():
    """``dir(hm)`` shows what is public, and nothing else."""
    shown = [name for name in dir(hm) if not name.startswith("_")]
    assert set(hm.__all__) <= set(shown)
    assert not {"importlib", "Any", "annotations", "TYPE_CHECKING", "find_spec"} & set(shown)
