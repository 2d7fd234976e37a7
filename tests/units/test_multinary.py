"""Multinary units with many levels and any activation: tables against sums, draws against probabilities, errors."""

from __future__ import annotations

import copy
import math
import runpy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor
from torch.nn.functional import softplus

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidOption
from harmonium.machines.layout import UnitSpec
from harmonium.training.outcome import gain_over_independent
from harmonium.units.multinary import _offsets
from harmonium.units.taylor import SoftplusSum, TermByTerm
from harmonium.units.tilted import Tilted

F64 = torch.float64
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "multinary.py"
FORMS = ["offsets", "integral"]


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def probabilities(unit: units.Multinary, B: float) -> Tensor:
    """The distribution of one unit, from its weights."""
    values = unit.support.states()
    with torch.no_grad():
        return torch.softmax(unit.double().log_weight(values[:, None])[:, 0] + B * values, 0)


# -- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(("scale", "activation"), [(0.1, "sigmoid"), (1.0, "sigmoid"), (1.0, "relu"), (3.0, "sigmoid")])
def test_series_agree_with_the_sum(scale: float, activation: str) -> None:
    """ln Z and four derivatives with full relative precision, in and far outside the table."""
    offsets = tuple(_offsets(255, scale, activation))
    table, plain = SoftplusSum.of(offsets), TermByTerm(offsets)
    assert table is not None
    B = torch.cat([torch.linspace(-300, 400, 501, dtype=F64), torch.linspace(-3, 3, 301, dtype=F64)])
    x = B[:, None] - torch.tensor(offsets, dtype=F64)
    s, v = torch.sigmoid(x), torch.sigmoid(x) * torch.sigmoid(-x)
    third, fourth = (v * (1 - 2 * s)).sum(1), (v * (1 - 6 * v)).sum(1)
    size = plain(B, 2)
    for order, expected in enumerate([plain(B, 0), plain(B, 1), plain(B, 2), third, fourth]):
        error = (table.evaluate(B, order) - expected).abs() / (expected.abs() if order < 3 else size)
        assert error.max() < 1e-13, order
        single = (table.evaluate(B.float(), order).double() - table.evaluate(B.float().double(), order)).abs()
        scale_of = table.evaluate(B.float().double(), min(order, 2)).abs()
        assert (single / scale_of)[scale_of > 1e-30].max() < 4e-7, order


def test_series_are_differentiable() -> None:
    table = SoftplusSum.of(tuple(_offsets(255, 0.5, "sigmoid")))
    assert table is not None
    B = torch.tensor([-9.0, 0.3, 4.0], dtype=F64, requires_grad=True)
    for order in (0, 1, 2):
        assert torch.autograd.gradcheck(lambda b, order=order: table(b, order), (B,))
        assert torch.autograd.gradgradcheck(lambda b, order=order: table(b, order), (B,))


def test_not_a_number_stays_one() -> None:
    """A machine that diverges is detected by its NaN, not by an index error."""
    for form in FORMS:
        unit = units.Multinary(2, levels=255, form=form)
        B = torch.tensor([[math.nan, 0.0]])
        assert bool(unit.mean(B)[0, 0].isnan()) and unit.mean(B)[0, 1] > 0
        assert bool(unit.log_partition(B)[0, 0].isnan())
        assert unit.sample(B).shape == (1, 2)


# -- draws ----------------------------------------------------------------------------------------------------------


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("scale", [0.1, 1.0])
@pytest.mark.parametrize("form", FORMS)
def test_draws_of_255_levels(form: str, scale: float) -> None:
    """Chi-square test of 200 000 draws, and their mean and variance within 5 standard errors."""
    source = torch.Generator().manual_seed(1)
    for B in (-3.3 / scale, 0.0, 0.7 / scale):
        unit = units.Multinary(1, levels=255, scale=scale, form=form)
        field = torch.full((200_000, 1), B)
        x = unit.sample(field, generator=source).double()
        unit.check(x.float())
        p = probabilities(unit, field[0].double().item())
        counts = torch.bincount((x / unit.step).round().long().flatten(), minlength=len(p)).double()
        common = p * len(x) >= 5
        found = np.append(counts[common].numpy(), counts[~common].sum().item())
        expected = np.append((p * len(x))[common].numpy(), (p * len(x))[~common].sum().item())
        assert chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-4
        with torch.no_grad():
            mean, variance = unit.mean(field[:1].double()), unit.variance(field[:1].double())
        assert abs(x.mean() - mean) < 5 * (variance / len(x)).sqrt()
        assert abs(x.var() / variance - 1) < 5 * math.sqrt(3 / len(x))


@pytest.mark.slow
def test_mean_and_variance_are_those_of_the_activation() -> None:
    """Draws of form "integral": N σ(kx) and N k σ'(kx). A unit with another scale fails the same test."""
    x = torch.full((100_000, 1), 8.0)
    source = torch.Generator().manual_seed(2)
    f, slope = 255 * logistic(0.8), 25.5 * logistic(0.8) * logistic(-0.8)
    tests = []
    for scale in (0.1, 0.102):
        draws = units.Multinary(1, levels=255, scale=scale, form="integral").sample(x, generator=source).double()
        tests.append(abs(draws.mean() - f) < 5 * math.sqrt(slope / len(x)) and abs(draws.var() / slope - 1) < 0.025)
    assert tests == [True, False]


@pytest.mark.parametrize("form", FORMS)
def test_gaussian_draws(form: str) -> None:
    """Mean and variance of the exact unit in the middle, up to the variance of rounding; values in the support."""
    unit = units.Multinary(1, levels=255, scale=0.1, form=form, sampling="gaussian")
    B = torch.full((100_000, 1), 4.0)
    x = unit.sample(B, generator=torch.Generator().manual_seed(0))
    unit.check(x)
    with torch.no_grad():
        mean, variance = unit.mean(B[:1]).item(), unit.variance(B[:1]).item() + unit.step**2 / 12
    assert abs(x.double().mean() - mean) < 5 * math.sqrt(variance / len(x))
    assert abs(x.double().var() / variance - 1) < 5 * math.sqrt(2 / len(x))
    far = unit.sample(torch.tensor([[-1e4], [1e4]]))
    assert far.flatten().tolist() == [0.0, 255.0]


@pytest.mark.slow
def test_units_too_large_for_a_table() -> None:
    """Far offsets and very many levels are drawn without tables."""
    far = units.Multinary(1, levels=3, offsets=(-1e6, 0.0, 1e6))
    assert Tilted.of(far._log_base) is None
    x = far.sample(torch.full((10_000, 1), 1.0), generator=torch.Generator().manual_seed(0)).double()
    assert abs(x.mean() - 1 - logistic(1.0)) < 5 * math.sqrt(0.2 / len(x))
    many = units.Multinary(1, levels=255, scale=0.0025, form="integral")
    assert Tilted.of(many._log_base) is None
    x = many.sample(torch.full((10_000, 1), 400.0), generator=torch.Generator().manual_seed(0)).double()
    assert abs(x.mean() - 255 * logistic(1.0)) < 5 * math.sqrt(255 * 0.0025 * 0.2 / len(x))
    wide = tuple(np.linspace(-5e5, 5e5, 20))
    assert SoftplusSum.of(wide) is None
    assert units.Multinary(1, levels=20, offsets=wide).mean(torch.zeros(1)).item() == 10.0


# -- activation functions ---------------------------------------------------------------------------------------------


def test_python_and_torch_functions_have_the_offsets_of_the_formula() -> None:
    expected = units.Multinary(1, levels=7, scale=0.3).get_buffer("offsets")
    for function in (logistic, torch.sigmoid, lambda x: torch.sigmoid(x)):
        unit = units.Multinary(1, levels=7, scale=0.3, activation=function)
        torch.testing.assert_close(unit.get_buffer("offsets"), expected, rtol=1e-10, atol=1e-10)
    error = units.Multinary(1, levels=3, activation=lambda x: (1 + math.erf(x)) / 2).get_buffer("offsets")
    found = [(1 + math.erf(x)) / 2 * 3 for x in error.tolist()]
    assert found == pytest.approx([0.5, 1.5, 2.5], abs=1e-12)


def normal_integral(x: Tensor) -> Tensor:
    return x * torch.special.ndtr(x) + torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)


INTEGRALS = {
    "sigmoid": (torch.sigmoid, lambda x: softplus(x, threshold=50.0)),
    "normal": (torch.special.ndtr, normal_integral),
    "steep": (lambda x: torch.sigmoid(50 * (x - 0.3)), lambda x: softplus(50 * (x - 0.3), threshold=60.0) / 50),
    "flat": (lambda x: torch.sigmoid(0.01 * x), lambda x: softplus(0.01 * x, threshold=50.0) / 0.01),
    "ramp": (lambda x: x.clamp(0, 1), lambda x: x.clamp(0, 1).square() / 2 + (x - 1).clamp_min(0)),
}


@pytest.mark.parametrize("given", [False, True], ids=["quadrature", "given"])
@pytest.mark.parametrize("name", INTEGRALS)
def test_integral_form_of_any_function(name: str, given: bool) -> None:
    """ln Z = (N/k) G(kx), mean N g(kx) and variance N k g'(kx); the derivatives agree with each other."""
    g, G = INTEGRALS[name]
    options = {"levels": 10, "scale": 0.5, "form": "integral", "sampling": "gaussian"}
    unit = units.Multinary(1, activation=g, integral=G if given else None, **options).double()
    B = torch.linspace(-40, 40, 400, dtype=F64)[:, None].requires_grad_()
    torch.testing.assert_close(unit.log_partition(B), 20 * G(0.5 * B), rtol=1e-10, atol=1e-10)
    assert torch.equal(unit.mean(B), 10 * g(0.5 * B))
    (slope,) = torch.autograd.grad(unit.log_partition(B).sum(), B)
    assert torch.equal(slope, unit.mean(B))
    assert torch.autograd.gradcheck(unit.log_partition, (torch.tensor([[0.7], [-0.4]], dtype=F64, requires_grad=True),))
    (slope,) = torch.autograd.grad(unit.mean(B).sum(), B)
    torch.testing.assert_close(unit.variance(B), slope)


@pytest.mark.slow
def test_integral_form_trains_but_has_no_weights() -> None:
    hidden = units.Multinary(3, levels=10, activation=torch.special.ndtr, form="integral", sampling="gaussian")
    rbm = hm.RBM(units.Bernoulli(5), hidden)
    source = torch.Generator().manual_seed(0)
    flipped = (torch.rand(200, 5, generator=source) < 0.1).float()
    data = (torch.randint(2, (200, 1), generator=source) - flipped).abs()
    rbm.initialize(data, seed=0)
    before = rbm.log_probability(data, rbm.log_partition()).mean().item()
    hm.fit(rbm, data, epochs=100, seed=0, progress=False)
    assert rbm.log_probability(data, rbm.log_partition()).mean().item() > before + 0.5
    copy.deepcopy(rbm)
    for question in (
        lambda: rbm.energy(data, torch.ones(200, 3)),
        lambda: hidden.mean(torch.zeros(3), torch.ones(3)),
    ):
        with pytest.raises(InvalidOption, match="not the weights of single values; use form='offsets'"):
            question()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (torch.tanh, "from 0 to 1, found -1 at x"),
        (lambda x: 0.5 * torch.sigmoid(x), "from 0 to 1, found 0.5 at x"),
        (lambda x: torch.sigmoid(-x), "from 0 to 1, found 1 at x"),
        (lambda x: 0.001 + 0.999 * torch.sigmoid(x), "from 0 to 1, found 0.001 at x"),
        (
            lambda x: torch.sigmoid(x) + 2 * torch.sin(x) * torch.exp(-x.square()),
            "increasing function from 0 to 1, found",
        ),
    ],
    ids=["negative", "half", "decreasing", "floor", "bump"],
)
@pytest.mark.parametrize("form", FORMS)
def test_functions_that_are_rejected(function: object, message: str, form: str) -> None:
    with pytest.raises(InvalidOption, match=f"^multinary:2x3: activation: .*{message}"):
        units.Multinary((2, 3), levels=5, activation=function, form=form, sampling="gaussian")  # type: ignore[arg-type]


def test_python_functions_that_are_rejected() -> None:
    with pytest.raises(InvalidOption, match="increasing function from 0 to 1, found"):
        units.Multinary(1, levels=5, activation=lambda x: logistic(x) + 2 * math.sin(x) * math.exp(-x * x))
    with pytest.raises(InvalidOption, match="expects a function of tensors"):
        units.Multinary(1, levels=5, activation=logistic, form="integral", sampling="gaussian")


def test_options_that_are_rejected() -> None:
    gaussian = {"levels": 5, "form": "integral", "sampling": "gaussian"}
    for message, options in (
        (
            "exact draws.*found levels/scale = 16.6667; pass sampling",
            {"levels": 5, "scale": 0.3, "form": "integral"},
        ),
        ("exact draws.*found another activation", {"levels": 5, "activation": "relu", "form": "integral"}),
        ("decays too slowly", {**gaussian, "activation": lambda x: 0.5 + torch.atan(x) / math.pi}),
        (
            "integral: expected the integral.*found",
            {**gaussian, "activation": torch.special.ndtr, "integral": softplus},
        ),
        ("integral: expected form='integral'", {"levels": 5, "integral": softplus}),
        ("offsets: expected form='offsets'", {"levels": 1, "form": "integral", "offsets": [0.0]}),
        ("sampling of multinary units 'gauss'", {"levels": 5, "sampling": "gauss"}),
        ("activation of multinary units 'tanh'", {"levels": 5, "activation": "tanh"}),
    ):
        with pytest.raises(InvalidOption, match=message):
            units.Multinary(1, **options)


# -- files and command line -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"levels": 255, "scale": 0.1, "form": "integral"},
        {"levels": 255, "scale": 0.3, "form": "integral", "sampling": "gaussian"},
        {"levels": 20, "activation": "relu", "form": "integral", "sampling": "gaussian"},
        {"levels": 20, "activation": "relu"},
        {"levels": 20, "activation": torch.special.ndtr},
        {"levels": 20, "scale": 0.2, "sampling": "gaussian"},
    ],
    ids=["integral", "gaussian", "relu-integral", "relu", "function", "offsets-gaussian"],
)
def test_files(options: dict[str, object], tmp_path: Path) -> None:
    rbm = hm.RBM(units.Bernoulli(4), units.Multinary(3, **options))
    rbm.initialize(seed=0, scale=0.5)
    hm.save(rbm, tmp_path / "machine.safetensors")
    other = hm.load(tmp_path / "machine.safetensors")
    v = torch.eye(4)
    assert torch.equal(other.free_energy(v), rbm.free_energy(v))
    draws = [machine.sample_hidden(v, seed=torch.Generator().manual_seed(0)) for machine in (rbm, other)]
    assert torch.equal(*draws)


def test_a_function_in_the_integral_form_cannot_be_saved(tmp_path: Path) -> None:
    hidden = units.Multinary(2, levels=5, activation=torch.special.ndtr, form="integral", sampling="gaussian")
    with pytest.raises(InvalidOption, match=r"save: expected options.*can be saved in form='offsets'"):
        hm.save(hm.RBM(units.Bernoulli(2), hidden), tmp_path / "machine.safetensors")


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("more", ["", ",form=integral", ",form=integral,sampling=gaussian", ",activation=relu"])
def test_names_on_the_command_line(more: str) -> None:
    unit = UnitSpec.parse(f"multinary:100,levels=255,scale=0.1{more}").build()
    assert unit.shape == (100,) and isinstance(unit, units.Multinary) and unit.levels == 255
    with pytest.raises(InvalidOption, match="integral cannot be set in a text"):
        UnitSpec.parse("multinary:3,levels=2,integral=softplus")


# -- learning with the defaults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["visible", "hidden", "both"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.fast_cases(1)
def test_255_levels_learn_with_the_defaults(form: str, layer: str) -> None:
    """8-bit data with two factors: finite parameters, and better than independent units."""
    source = torch.Generator().manual_seed(0)
    factors, loadings = torch.randn(300, 2, generator=source), torch.randn(2, 5, generator=source)
    pixels = (255 * torch.sigmoid(factors @ loadings + 0.3 * torch.randn(300, 5, generator=source))).round()
    multinary = partial(units.Multinary, levels=255, scale=0.1, form=form)
    visible = units.Bernoulli(5) if layer == "hidden" else multinary(5)
    rbm = hm.RBM(visible, units.Bernoulli(3) if layer == "visible" else multinary(3))
    data = (pixels > 127).float() if layer == "hidden" else pixels
    hm.fit(rbm, data, epochs=40, progress=False)  # a fifteenth of the default number
    assert all(bool(torch.isfinite(parameter).all()) for parameter in rbm.parameters())
    ours, theirs = gain_over_independent(rbm, data)
    assert ours > theirs + 0.01, (ours, theirs)  # the criterion of the conformance suite


# -- the numbers in docs/multinary.md ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_documented_errors() -> None:
    if not BENCHMARK.exists():
        pytest.skip("the benchmarks are not beside the tests")
    names = runpy.run_path(str(BENCHMARK))
    for scale, expected in ((0.1, 0.0016), (0.5, 0.032), (1.0, 0.087)):
        assert names["error_of_the_mean"](scale)[0] == pytest.approx(expected, rel=0.05)
    page = (BENCHMARK.parents[1] / "docs" / "multinary.md").read_text(encoding="utf-8")
    for scale in names["SCALES"]:
        mean, variance = names["error_of_the_mean"](scale)
        assert f"| {scale:g} | {mean:.2g} | {variance:.2g} |" in page
    near, most, shift = names["error_of_the_normal"](0.1, "offsets")
    assert "| offsets | 0.1 | " + " | ".join(f"{x:.1g}" for x in (*near, most, shift)) + " |" in page
