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
    assert {"start", "seed"} <= names(hm.sampling.langevin) & names(hm.sampling.gibbs_langevin)
    assert names(hm.DeepBeliefNetwork.initialize) == names(hm.RBM.initialize)


def test_a_unit_of_a_user_passes_arguments_on():
    class Shifted(hm.units.Spin, named=False):
        def __init__(self, shape, *, shift=0.0, **common):
            super().__init__(shape, **common)
            self.options = {"shift": shift}

    assert list(inspect.signature(Shifted).parameters) == ["shape", "shift", "bias", "learn", "shared"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'bais'"):
        Shifted(3, bais=1.0)


def test_one_way_to_make_a_call_reproducible():
    """``seed=None`` is a number or a generator; no function has a generator beside it."""
    for function in public():
        parameters = inspect.signature(function).parameters
        assert not {"seed", "generator"} <= set(parameters), function
        if "seed" in parameters and function not in FIXED:
            assert parameters["seed"].default is None, function


#: what is the same in every call: a data set, initial values of missing cells, checks, and what continues in a folder
FIXED = (
    *(hm.data.load, hm.Incomplete, hm.MixingTime, hm.select, hm.tasks.finetune),
    *(hm.testing.check_unit, hm.testing.check_coupling, hm.testing.check_negative_phase),
)


def public():
    """Every public function and class, and the methods of machines."""
    modules = [getattr(hm, name) for name in dir(hm) if inspect.ismodule(getattr(hm, name))]
    for module in [hm, *modules]:
        for value in (getattr(module, name) for name in getattr(module, "__all__", ())):
            if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, Exception)):
                yield value
    for machine in (hm.RBM, hm.DeepBeliefNetwork, hm.ConditionalRBM):
        yield from (value for name, value in inspect.getmembers(machine, inspect.isfunction) if name[0] != "_")
