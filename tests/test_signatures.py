"""Keyword arguments that are declared once and passed on with ``**`` appear in the signatures that users see."""

from __future__ import annotations

import inspect

import pytest

import harmonium as hm

UNITS = [kind for name, kind in hm.units.Unit.registry.items() if kind.__module__.startswith("harmonium.")]


def names(function: object) -> set[str]:
    return set(inspect.signature(function).parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", UNITS, ids=lambda kind: kind.__name__)
def test_units(kind):
    parameters = inspect.signature(kind).parameters
    assert all(p.kind is not p.VAR_KEYWORD for p in parameters.values())
    if kind is not hm.units.Mixed:
        assert {"bias", "learn"} <= set(parameters)


def test_defaults_of_units_are_those_of_the_base():
    found = inspect.signature(hm.units.TruncatedGaussBernoulli).parameters
    assert {name: p.default for name, p in found.items() if name != "shape"} == {
        **{"rho": 0.5, "low": 0.0, "high": 1.0, "precision": 1.0},
        **{"bias": 0.0, "learn": ("bias",), "shared": ()},
    }
    assert inspect.signature(hm.units.Gaussian).parameters["learn"].default is None


def test_functions():
    assert {"channels", "kernel", "stride", "padding", "pool", "hidden", "biases"} <= names(hm.machines.convolutional)
    assert {"start", "seed", "generator"} <= names(hm.sampling.langevin) & names(hm.sampling.gibbs_langevin)
    assert names(hm.DeepBeliefNetwork.initialize) == names(hm.RBM.initialize)


def test_a_unit_of_a_user_passes_arguments_on():
    class Shifted(hm.units.Spin, named=False):
        def __init__(self, shape, *, shift=0.0, **common):
            super().__init__(shape, **common)
            self.options = {"shift": shift}

    assert list(inspect.signature(Shifted).parameters) == ["shape", "shift", "bias", "learn", "shared"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'bais'"):
        Shifted(3, bais=1.0)
