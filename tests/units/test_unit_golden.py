"""ln Z, mean and variance against 40-digit golden values and against mpmath, in float64 and float32.

float64 is compared with the golden values, with relative tolerance 1e-9 for ln Z and mean and 1e-7 for the variance. In
float32 the reference is the same unit in float64 at the *rounded* inputs, with tolerances 2e-5 and 1e-3, so that
rounding of the inputs does not count. If a result is a small difference of larger terms, the error is relative to those
terms; each case states them as ``size``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
import pytest
import torch
from torch import Tensor
from unit_reference import (
    F64,
    GOLDEN,
    assert_close,
    compositions,
    double_relu,
    golden,
    sums,
    vector_sums,
)

from harmonium import units
from harmonium.errors import NotNormalizable
from harmonium.units import Unit

TOLERANCE = {F64: (1e-9, 1e-9, 1e-7), torch.float32: (2e-5, 2e-5, 1e-3)}

Build = Callable[[dict[str, Tensor], torch.dtype], Unit]


def simple(cls: type[Unit], **names: str) -> Build:
    """One unit per row, its parameters from the named columns."""

    def build(rows: dict[str, Tensor], dtype: torch.dtype) -> Unit:
        columns = {parameter: rows[column].to(dtype) for parameter, column in names.items()}
        return cls(len(rows["B"]), **columns)  # type: ignore[arg-type]

    return build


def bounded(cls: type[Unit], low: float, high: float, **names: str) -> Build:
    def build(rows: dict[str, Tensor], dtype: torch.dtype) -> Unit:
        columns = {parameter: rows[column].to(dtype) for parameter, column in names.items()}
        return cls(len(rows["B"]), low=low, high=high, **columns)  # type: ignore[call-arg,arg-type]

    return build


def groups() -> list[tuple[str, Build, dict[str, Tensor]]]:
    result = [
        ("bernoulli", simple(units.Bernoulli, bias="U"), golden("bernoulli")),
        ("spin", simple(units.Spin, bias="U"), golden("spin")),
        ("gaussian", simple(units.Gaussian, bias="U", precision="V"), golden("gaussian")),
        ("relu", simple(units.ReLU, bias="U", precision="V"), golden("relu")),
        ("poisson", simple(units.Poisson, bias="U"), golden("poisson")),
    ]
    naturals = {"bias": "U", "precision": "V"}
    for name, cls, extra in (
        ("trunc_gauss", units.TruncatedGaussian, {}),
        ("trunc_gauss_bernoulli", units.TruncatedGaussBernoulli, {"rho": "rho"}),
    ):
        table = golden(name)
        for low, high in sorted(set(zip(table["alpha"].tolist(), table["omega"].tolist(), strict=True))):
            chosen = (table["alpha"] == low) & (table["omega"] == high)
            rows = {column: values[chosen] for column, values in table.items()}
            result.append((f"{name}[{low:g},{high:g}]", bounded(cls, low, high, **naturals, **extra), rows))
    table = golden("multinary")
    for levels, scale in sorted(set(zip(table["N"].tolist(), table["k"].tolist(), strict=True))):
        chosen = (table["N"] == levels) & (table["k"] == scale)
        rows = {column: values[chosen] for column, values in table.items()}
        rows |= {name: rows[f"{name}_offsets"] for name in ("lnZ", "mean", "var")}

        def build(rows: dict[str, Tensor], dtype: torch.dtype, levels: float = levels, scale: float = scale) -> Unit:
            return units.Multinary(len(rows["B"]), levels=int(levels), scale=scale).to(dtype)

        result.append((f"multinary[{levels:g},{scale:g}]", build, rows))
    return result


CASES = {name: (build, rows) for name, build, rows in groups()}


def values(unit: Unit, rows: dict[str, Tensor], dtype: torch.dtype) -> list[Tensor]:
    B, A = rows["B"].to(dtype), rows["A"].to(dtype)
    return [unit.log_partition(B, A), unit.mean(B, A), unit.variance(B, A)]


def sizes(name: str, rows: dict[str, Tensor], spread: Tensor) -> list[Tensor | float]:
    """The sizes of the terms that add up to ln Z, mean and variance.

    ln Z of a continuous unit is an exponent plus the logarithm of a width, both of order one or more. The mean of a
    two-sided unit changes sign and is then small compared with the spread. In a far tail, ln Z of a discrete unit is
    tiny *without* cancellation (its x = 0 term is exactly one), so it has no floor; a spin's quadratic term is -A/2.
    """
    if name.startswith(("gaussian", "relu", "trunc")):
        return [1.0, spread.sqrt(), 0.0]
    if name == "spin":
        return [1 + rows["A"].abs() / 2, 0.0, 0.0]
    return [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", CASES)
def test_golden_float64(name: str) -> None:
    build, rows = CASES[name]
    found = values(build(rows, F64), rows, F64)
    expected = [rows["lnZ"], rows["mean"], rows["var"]]
    for got, want, tolerance, size in zip(found, expected, TOLERANCE[F64], sizes(name, rows, rows["var"]), strict=True):
        assert_close(got, want, tolerance, size)


@pytest.mark.parametrize("name", CASES)
def test_float32_at_rounded_inputs(name: str) -> None:
    build, rows = CASES[name]
    rounded = {column: column_values.float().double() for column, column_values in rows.items()}
    unit = build(rounded, torch.float32)
    reference = build(rounded, torch.float32).double()  # the parameters as rounded by float32
    found, expected = values(unit, rounded, torch.float32), [v.detach() for v in values(reference, rounded, F64)]
    # below 1.2e-38, float32 may round to a denormal or to zero
    tiny = 1.2e-38
    floor = sizes(name, rounded, expected[2])
    for got, want, tolerance, size in zip(found, expected, TOLERANCE[torch.float32], floor, strict=True):
        size = torch.maximum(torch.as_tensor(size, dtype=F64), torch.tensor(tiny / tolerance, dtype=F64))
        assert_close(got, want, tolerance, size)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("trunc_gauss[", "relu", "poisson"))])
def test_float32_against_golden(name: str) -> None:
    """If A and V add without rounding, the golden values hold in float32."""
    build, rows = CASES[name]
    exact = torch.ones_like(rows["B"], dtype=torch.bool)
    for column in ("U", "B", "A", "V"):
        if column in rows:
            exact &= rows[column].float().double() == rows[column]
    rows = {column: column_values[exact] for column, column_values in rows.items()}
    found = values(build(rows, torch.float32), rows, torch.float32)
    expected = [rows["lnZ"], rows["mean"], rows["var"]]
    floor = sizes(name, rows, rows["var"])
    for got, want, tolerance, size in zip(found, expected, TOLERANCE[torch.float32], floor, strict=True):
        assert_close(got, want, tolerance, size)


def test_probability_of_the_slab() -> None:
    for name, (build, rows) in CASES.items():
        if name.startswith("trunc_gauss_bernoulli"):
            slab = build(rows, F64).moments(rows["B"], rows["A"])["log_odds"]
            assert_close(slab, rows["p_nonzero"], 1e-9)


def test_potts() -> None:
    for case in GOLDEN["units"]["potts"]["cases"]:
        U, B, A = (torch.tensor([case[key]], dtype=F64) for key in "UBA")
        covariance = torch.tensor(case["cov"], dtype=F64)
        expected = [
            torch.tensor([case["lnZ"]], dtype=F64),
            torch.tensor([case["mean"]], dtype=F64),
            covariance.diagonal()[None],
        ]
        check(units.Potts(U.shape, bias=U), B, A, expected, [1.0, 0.0, 0.0])


@pytest.mark.parametrize("dtype", [F64, torch.float32])
def test_multinary_integral(dtype: torch.dtype) -> None:
    table = golden("multinary")
    chosen = (table["A"] == 0) & ~table["lnZ_f"].isnan()
    for levels, scale in sorted(set(zip(table["N"].tolist(), table["k"].tolist(), strict=True))):
        here = chosen & (table["N"] == levels) & (table["k"] == scale)
        unit = units.Multinary(1, levels=int(levels), scale=scale, form="integral").to(dtype)
        B = table["B"][here, None]
        reference = [table[f"{name}_f"][here, None] for name in ("lnZ", "mean", "var")]
        found = [unit.log_partition(B.to(dtype)), unit.mean(B.to(dtype)), unit.variance(B.to(dtype))]
        for got, want, tolerance in zip(found, reference, TOLERANCE[dtype], strict=True):
            assert_close(got, want, tolerance)


@pytest.mark.parametrize("name", GOLDEN["cgf"])
def test_cumulant_generating_function(name: str) -> None:
    """κ₁ … κ₆, K(q), mean, variance and mode as functions of the threshold c = -bias."""
    cls = {"linear": units.Gaussian, "relu": units.ReLU, "step": units.Bernoulli, "exponential": units.Poisson}[name]
    for case in GOLDEN["cgf"][name]:
        unit = cls(1, bias=torch.tensor([-case["c"]], dtype=F64))
        q, k, mean, variance, mode = torch.tensor(case["rows"], dtype=F64).T[:, :, None]
        zero = torch.zeros(1, dtype=F64)
        lnz = unit.log_partition(q)
        assert_close(lnz - unit.log_partition(zero), k, 1e-9, torch.maximum(lnz.detach().abs(), torch.tensor(1.0)))
        assert_close(unit.mean(q), mean, 1e-9, variance.sqrt() * 1e-3)
        assert_close(unit.variance(q), variance, 1e-7)
        # κ_n is a polynomial of moments of size σ^n (linear units: exactly zero beyond the second)
        sigma = unit.variance(zero).detach().sqrt().item()
        for n, kappa in enumerate(case["kappa"], 1):
            expected = torch.tensor([kappa], dtype=F64)
            assert_close(unit.cumulant(n), expected, 1e-9, 0.0 if name in ("relu", "exponential") else sigma**n * 1e-3)
        found = unit.mode(q)
        if name == "exponential":  # at integer λ both λ and λ - 1 are modes
            weight = unit.log_weight(found) + q * found
            best = unit.log_weight(mode) + q * mode
            assert_close(weight, best.detach(), 1e-9, 1.0)
        elif name == "step":
            tie = (q - case["c"]) == 0
            assert bool(((found == mode) | tie).all())
        else:
            assert_close(found, mode, 1e-12, 1.0)


# -- units without golden tables ----------------------------------------------------------------------------------


def check(unit: Unit, B: Tensor, A: Tensor | None, expected: list[Tensor], size: list[Tensor | float]) -> None:
    """The unit in float64 at its reference, and in float32 at its own float64 values for the same inputs."""
    for got, want, tolerance, floor in zip(
        (unit.log_partition(B, A), unit.mean(B, A), unit.variance(B, A)), expected, TOLERANCE[F64], size, strict=True
    ):
        assert_close(got, want, tolerance, floor)
    unit.float()
    b, a = B.float(), None if A is None else A.float()
    found = [unit.log_partition(b, a), unit.mean(b, a), unit.variance(b, a)]
    unit.double()  # with the rounded parameters
    b, a = b.double(), None if a is None else a.double()
    reference = [unit.log_partition(b, a), unit.mean(b, a), unit.variance(b, a)]
    for got, want, tolerance, floor in zip(found, reference, TOLERANCE[torch.float32], size, strict=True):
        floor = torch.maximum(torch.as_tensor(floor, dtype=F64), torch.tensor(1.2e-38 / tolerance, dtype=F64))
        assert_close(got, want.detach(), tolerance, floor)


FIELDS = [-50.0, -10.0, -1.0, -0.125, 0.0, 0.5, 3.0, 20.0, 50.0]


@pytest.mark.parametrize("A", [None, -0.5, -0.0625, 0.25, 2.0])
@pytest.mark.parametrize("trials", [1, 2, 7, 30])
def test_binomial(trials: int, A: float | None) -> None:
    bias = 0.25
    rows = [sums(range(trials + 1), lambda x: bias * x + mp.log(mp.binomial(trials, x)), B, A or 0.0) for B in FIELDS]
    expected = list(torch.tensor(rows, dtype=F64)[:, None].permute(2, 0, 1))
    B = torch.tensor(FIELDS, dtype=F64)[:, None]
    quadratic = None if A is None else torch.full_like(B, A)
    unit = units.Binomial(1, trials=trials, bias=torch.tensor([bias], dtype=F64))
    check(unit, B, quadratic, expected, [0.0, 0.0, 0.0])


@pytest.mark.parametrize("A", [None, -0.375, 0.5, 30.0])
@pytest.mark.parametrize("t", [-20.0, -1.0, 0.0, 2.0])
def test_double_relu(t: float, A: float | None) -> None:
    b, plus, minus = 0.25, 1.0, 0.5
    rows = [double_relu(b, t, plus, minus, B, A or 0.0) for B in FIELDS]
    expected = list(torch.tensor(rows, dtype=F64)[:, None].permute(2, 0, 1))
    B = torch.tensor(FIELDS, dtype=F64)[:, None]
    parameters = {"bias": b, "tilt": t, "precision_plus": plus, "precision_minus": minus}
    unit = units.DoubleReLU(1, **{name: torch.tensor([value], dtype=F64) for name, value in parameters.items()})
    spread = expected[2].sqrt()  # the mean is the difference of two sides
    check(unit, B, None if A is None else torch.full_like(B, A), expected, [1.0, spread, 0.0])


@pytest.mark.parametrize("quadratic", [False, True])
@pytest.mark.parametrize("total", [1, 3, 5])
def test_multinomial(total: int, quadratic: bool) -> None:
    bias = [0.25, -0.5, 0.0]
    fields = [[0.0, 0.0, 0.0], [1.0, -2.0, 0.5], [-20.0, 3.0, 1.0], [50.0, 0.0, -50.0]]
    A = [0.5, -0.25, 0.125] if quadratic else [0.0] * 3

    def log_weight(x: tuple[int, ...]) -> mp.mpf:
        value = mp.loggamma(total + 1) - mp.fsum(mp.loggamma(k + 1) for k in x)
        return value + mp.fsum(mp.mpf(b) * k for b, k in zip(bias, x, strict=True))

    rows = [vector_sums(compositions(total, 3), log_weight, B, A) for B in fields]
    expected = [torch.tensor(list(column), dtype=F64) for column in zip(*rows, strict=True)]
    unit = units.Multinomial(3, total=total, bias=torch.tensor(bias, dtype=F64))
    B = torch.tensor(fields, dtype=F64)
    largest = torch.tensor([max(abs(b) for b in row) for row in fields], dtype=F64)
    given = torch.tensor(A, dtype=F64).expand_as(B) if quadratic else None
    check(unit, B, given, expected, [1 + total * largest, 0.0, 0.0])


def test_mixed_is_its_parts() -> None:
    parts = [
        units.Bernoulli(2, bias=torch.tensor([0.5, -1.0], dtype=F64)),
        units.DoubleReLU(1, tilt=torch.tensor([1.0], dtype=F64)),
        units.Binomial(1, trials=3, bias=torch.tensor([0.25], dtype=F64)),
    ]
    B = [-3.0, 2.0, 0.5, 1.0]
    rows = [
        sums((0, 1), lambda x: 0.5 * x, B[0]),
        sums((0, 1), lambda x: -1.0 * x, B[1]),
        double_relu(0.0, 1.0, 1.0, 1.0, B[2]),
        sums(range(4), lambda x: 0.25 * x + mp.log(mp.binomial(3, x)), B[3]),
    ]
    expected = list(torch.tensor(rows, dtype=F64).T[:, None])
    unit = units.Mixed(*parts)
    check(unit, torch.tensor([B], dtype=F64), None, expected, [1.0, 0.0, 0.0])


@pytest.mark.parametrize(("B", "A"), [(50.0, 1e-3), (8.0, 1e-6), (4.0, 1e-4), (-50.0, 1e-3), (3.2, 1e-9)])
@pytest.mark.slow
def test_poisson_sums_of_every_stride(B: float, A: float) -> None:
    """Sums over all terms and strided sums; the reference adds all terms."""
    with mp.workdps(40):
        h, a = mp.mpf(B), mp.mpf(A)
        top = mp.findroot(lambda x: mp.log(x) + a * x - h, float(mp.exp(min(B, 9)))) if B > 0 else mp.mpf(0)
        spread = mp.sqrt(1 / (a + 1 / (top + 1)))
        states = range(max(0, int(top - 14 * spread)), int(top + 16 * spread) + 40)
        offset = h * top - a * top**2 / 2 - mp.loggamma(top + 1)
        weights = [mp.exp(h * x - a * x * x / 2 - mp.loggamma(x + 1) - offset) for x in states]
        z = mp.fsum(weights)
        lnz = mp.log(z) + offset if B > 0 else mp.log1p(mp.fsum(weights[1:]))
        mean = mp.fsum(x * w for x, w in zip(states, weights, strict=True)) / z
        variance = mp.fsum((x - mean) ** 2 * w for x, w in zip(states, weights, strict=True)) / z
    unit = units.Poisson(1, bias=torch.zeros(1, dtype=F64))
    field, quadratic = torch.tensor([[B]], dtype=F64), torch.tensor([[A]], dtype=F64)
    expected = [torch.tensor([[float(value)]], dtype=F64) for value in (lnz, mean, variance)]
    check(unit, field, quadratic, expected, [0.0, 0.0, 0.0])


def test_what_grows_is_refused() -> None:
    B, A = torch.zeros(1, 2), torch.tensor([[0.5, -1e-6]])
    with pytest.raises(NotNormalizable, match="A ≥ 0"):
        units.Poisson(2).log_partition(B, A)
    with pytest.raises(NotNormalizable, match="A ≥ 0"):
        units.Poisson(2).sample(B, A=A)
    for unit in (units.ReLU(2), units.DoubleReLU(2, precision_minus=0.5), units.Gaussian(2)):
        with pytest.raises(NotNormalizable, match="> 0"):
            unit.mean(B, torch.tensor([[0.0, -1.0]]))


def test_poisson_overflows_to_infinity_without_nan() -> None:
    unit = units.Poisson(1)
    for value in (unit.log_partition, unit.mean, unit.variance):
        assert value(torch.tensor([[100.0]])).item() == math.inf
        assert value(torch.tensor([[100.0]]), torch.tensor([[0.5]])).isfinite().all()
