"""The checks of hm.testing pass on everything the package has, and find what is wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch
from cases import PHASES, UNITS, generator

import harmonium as hm
from harmonium import units
from harmonium.testing import check_coupling, check_negative_phase, check_unit
from harmonium.training.negative import Sampled

TWO = torch.tensor([0.3, -0.5], dtype=torch.float64)


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.slow
def test_units(name):
    check_unit(UNITS[name].build((2,), generator(name)))


#: naive mean field does not learn two clusters, and adaptive TAP and belief propagation take their time
@pytest.mark.parametrize(
    "name", [name for name, case in PHASES.items() if name not in ("naive", "adatap", "bp") and not case.visible]
)
@pytest.mark.slow
def test_phases(name):
    check_negative_phase(PHASES[name].build())


@pytest.mark.slow
def test_pytest_is_not_needed():
    code = "import sys, harmonium as hm; hm.testing.check_unit; assert 'pytest' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- what is wrong is found ---------------------------------------------------------------------------------------

WRONG_UNITS = {
    "log_partition is the logarithm of the sum": {"log_partition": lambda self, B, A=None: (self.bias + B).square()},
    "mean is the average": {"mean": lambda self, B, A=None: torch.tanh(B)},
    "variance over the support": {"variance": lambda self, B, A=None: torch.ones_like(B)},
    "moments": {"moments": lambda self, B, A=None, mean=None: {"bias": self.mean(B) ** 2 if mean is None else mean}},
    "log_weight changes with bias": {"log_weight": lambda self, x: self.bias * x + self.bias**2 * x.clamp_min(0)},
    "mode has the largest": {"mode": lambda self, B: torch.ones_like(B)},
    "mode is in the support": {"mode": lambda self, B: 0 * B},
    "sample: mean of": {"sample": lambda self, B, *, generator=None, A=None: units.Spin(2).to(B.dtype).sample(
        B, generator=generator)},
    "with the same generator": {"sample": lambda self, B, *, generator=None, A=None: units.Spin.sample(self, B)},
    "sample is in the support": {"sample": lambda self, B, *, generator=None, A=None: self.mean(B)},
    "mean_and_variance_": {"mean_and_variance_": lambda self, B, A, mean, variance: (mean.zero_(), variance.zero_())},
    "sample_ equals sample": {"sample_": lambda self, B, out, generator=None, mean=None: out.fill_(1.0)},
    "log_partition_gain": {"log_partition_gain": lambda self, B, before, B_before, mean=None: B.sum(1)},
    "check of data with the value": {"check": lambda self, x, what="data": None},
    "initialize_from": {"initialize_from": lambda self, data, pseudocount=None: None},
    "cumulant(2)": {"cumulant": lambda self, n: self.mean(0 * self.bias).detach()},
    "shape of log_partition": {"log_partition": lambda self, B, A=None: units.Spin.log_partition(self, B, A).sum()},
    "shape after": {"config": lambda self: {**units.Spin.config(self), "shape": [3]}},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("check", WRONG_UNITS)
def test_wrong_units(check):
    kind = type("WrongSpin", (units.Spin,), WRONG_UNITS[check])
    try:
        with pytest.raises(AssertionError) as caught:
            check_unit(kind(2, bias=TWO))
        message = str(caught.value)
        assert message.startswith("check_unit(wrong-spin): ")
        assert check in message or check in ("shape of log_partition", "log_weight changes with bias")
        assert "expected" in message and "found" in message
    finally:
        del hm.units.Unit.registry["wrong-spin"]


def test_wrong_couplings():
    class Wrong(hm.couplings.Dense):
        def down(self, y):
            return 2 * super().down(y)

    try:
        with pytest.raises(AssertionError, match=r"check_coupling\(Wrong\): down is the product with the transpose"):
            check_coupling(Wrong(3, 2))
        Wrong.down = hm.couplings.Dense.down
        Wrong.correlate = lambda self, x, y, out=None, *, add=False, scale=1.0: torch.zeros_like(self.weight)
        with pytest.raises(AssertionError, match="correlate is the gradient"):
            check_coupling(Wrong(3, 2))
        Wrong.correlate = hm.couplings.Dense.correlate
        Wrong.squared = lambda self: self
        with pytest.raises(AssertionError, match=r"matrix of squared\(\)"):
            check_coupling(Wrong(3, 2))
    finally:
        del hm.couplings.Coupling.registry["wrong"]


@dataclass(frozen=True)
class Reconstructions(Sampled):
    """Means instead of draws: not the machine's distribution."""

    def move(self, rbm, v, generator):
        return rbm.reconstruct(v).round()


class Hidden:
    """What is not a tensor, a number, a list or a dict is not saved."""

    states = None


class Forgetful(hm.PCD):
    def init(self, machine, rows, generator):
        state = super().init(machine, rows, generator)
        kept = Hidden()
        kept.states = state.pop("h")
        return {**state, "kept": kept}

    def step(self, machine, batch, state, generator):
        gradient, after = super().step(machine, batch, {**state, "h": state["kept"].states}, generator)
        kept = Hidden()
        kept.states = after.pop("h")
        return gradient, {**after, "kept": kept}

    def visible_chains(self, machine, state, generator):
        return super().visible_chains(machine, {"h": state["kept"].states}, generator)


class Upward(hm.PCD):
    def step(self, machine, batch, state, generator):
        gradient, state = super().step(machine, batch, state, generator)
        gradient.units[machine.visible.bias].neg_()
        return gradient, state


class Overwriting(hm.PCD):
    def step(self, machine, batch, state, generator):
        gradient, after = super().step(machine, batch, state, generator)
        state["h"].copy_(after["h"])
        return gradient, after


class BottomRung(hm.ParallelTempering):
    def advance(self, rbm, state, generator):
        state = super().advance(rbm, state, generator)
        return {**state, "v": state["layers"][0][0]}


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (BottomRung(1), "frequency of every visible state"),
        (Reconstructions(), "frequency of every visible state"),
        (Forgetful(), "after a saved state: expected bitwise equal"),
        (Upward(), "gradient of the loss"),
        (Overwriting(), "the state that a step gets: expected unchanged"),
    ],
)
def test_wrong_phases(phase, message):
    with pytest.raises(AssertionError, match=message):
        check_negative_phase(phase)


# -- a unit in a user's own script ----------------------------------------------------------------------------------


def test_only_a_support_and_a_weight(tmp_path):
    class ThreeLevels(units.Unit):
        support = units.support.Values("-1, 0 or 1", (-1.0, 0.0, 1.0))

        def log_weight(self, x):
            return self.bias * x - x.square() / 2

    try:
        unit = ThreeLevels(2, bias=TWO)
        check_unit(unit)
        machine = hm.RBM(unit, units.Bernoulli(3))
        hm.save(machine, tmp_path / "machine.safetensors")
        assert type(hm.load(tmp_path / "machine.safetensors").visible) is ThreeLevels
    finally:
        del units.Unit.registry["three-levels"]
    with pytest.raises(
        hm.errors.CheckpointError, match=r"unknown unit 'three-levels'.*import the module that defines it"
    ):
        hm.load(tmp_path / "machine.safetensors")


def test_infinitely_many_states_need_formulas():
    class Laplace(units.Unit):
        support = units.support.real

        def log_weight(self, x):
            return self.bias * x - x.abs()

    try:
        with pytest.raises(
            NotImplementedError, match="laplace: a unit with infinitely many states must define log_par"
        ):
            Laplace(1).log_partition(torch.zeros(1))
        with pytest.raises(hm.errors.InvalidOption, match="unbounded; override tail"):
            Laplace(1).tail()
    finally:
        del units.Unit.registry["laplace"]


@pytest.mark.parametrize("base", [units.Unit, hm.couplings.Coupling])
def test_names_of_the_package_are_taken(base):
    name = "Spin" if base is units.Unit else "Dense"
    with pytest.raises(hm.errors.InvalidOption, match="choose another name"):
        type(name, (base,), {})
