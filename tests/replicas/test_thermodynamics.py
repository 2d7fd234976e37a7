"""The replica-symmetric theory: reference values, derivatives, stability, and comparison with simulations."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium.errors import InvalidData, InvalidOption
from harmonium.replicas.ensemble import Ensemble
from harmonium.replicas.phases import phase_diagram
from harmonium.replicas.thermodynamics import SaddlePoint, response, saddle_point, saddle_points

CASES = json.loads((Path(__file__).parent / "rs_saddle.json").read_text(encoding="utf-8"))["cases"]
KINDS = ("gaussian", "bernoulli", "uniform", "laplace")


def ensemble_of(case: dict) -> Ensemble:
    return Ensemble(case["w"], case["sigma"], case["kappa"], case["dist"], case["eta"], case["theta"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['dist']}-{case['w']}-{case['sigma']}")
def test_reference_values(case):
    found = saddle_point(ensemble_of(case), (case["m_init"], case["q_init"]), tolerance=1e-13)
    assert found.converged
    assert found.hidden == pytest.approx(case["m"], abs=1e-11)
    assert found.visible == pytest.approx(case["mbar"], abs=1e-11)
    assert found.hidden_overlap == pytest.approx(case["q"], abs=1e-11)
    assert found.visible_overlap == pytest.approx(case["qbar"], abs=1e-11)
    assert found.at == pytest.approx(case["AT"], abs=1e-11)
    assert found.stable == (case["AT"] < 1)
    assert found.free_energy == pytest.approx(-case["lnZ_over_L"], abs=1e-12)


# -- the free energy --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("components", KINDS)
def test_free_energy_is_that_of_the_equations(components):
    """-∂f is m m̄ for w, m̄ for η, m for θ and σ (1 - q q̄) for σ: checks all terms and factors."""
    ensemble = Ensemble([1.4, 1.1], 0.6, 0.4, components, eta=[0.2, 0.0], theta=[-0.1, 0.3])
    start = ((0.5, 0.4), 0.5)
    point = saddle_point(ensemble, start)

    def slope(**changed: tuple[object, object]) -> float:
        up, down = (saddle_point(replace(ensemble, **{k: v[i] for k, v in changed.items()}), start) for i in (0, 1))
        return -(up.free_energy - down.free_energy) / (2 * step)

    step = 1e-4
    for name, expected in (
        ("w", [m * bar for m, bar in zip(point.hidden, point.visible, strict=True)]),
        ("eta", point.visible),
        ("theta", point.hidden),
    ):
        values = getattr(ensemble, name)
        for k in range(2):
            moved = [[v + sign * step * (i == k) for i, v in enumerate(values)] for sign in (1, -1)]
            assert slope(**{name: tuple(moved)}) == pytest.approx(expected[k], abs=1e-7)
    noise = ensemble.sigma * (1 - point.hidden_overlap * point.visible_overlap)
    assert slope(sigma=(ensemble.sigma + step, ensemble.sigma - step)) == pytest.approx(noise, abs=1e-7)


def test_layers_change_places_with_kappa():
    one = saddle_point(Ensemble([1.3], 0.7, 0.3, "uniform", eta=[0.2], theta=[0.1]))
    other = saddle_point(Ensemble([1.3], 0.7, 1 / 0.3, "uniform", eta=[0.1], theta=[0.2]))
    assert one.hidden == pytest.approx(other.visible, abs=1e-11)
    assert one.hidden_overlap == pytest.approx(other.visible_overlap, abs=1e-11)
    assert one.free_energy == pytest.approx(other.free_energy, abs=1e-12)


@pytest.mark.slow
def test_paramagnet():
    """Paramagnet: ln Z / L is that of free spins plus σ²/2, also for an ensemble without modes."""
    for w in ([], [0.9, 0.2]):
        found = saddle_point(Ensemble(w, 0.6, 0.5))
        assert (found.phase, found.stable, found.attracts) == ("paramagnetic", True, True)
        assert found.free_energy == pytest.approx(-(0.5**0.5 + 0.5**-0.5) * math.log(2) - 0.18, abs=1e-12)
    assert saddle_point(Ensemble([], 1.5)).phase == "spin glass"


@pytest.mark.slow
def test_many_modes_cost_nothing():
    """Gaussian modes with zero overlap do not change the result."""
    one, many = saddle_point(Ensemble([1.5], 0.5)), saddle_point(Ensemble([1.5] + [1.2] * 20, 0.5))
    assert many.hidden[0] == pytest.approx(one.hidden[0], abs=1e-12)
    assert many.free_energy == pytest.approx(one.free_energy, abs=1e-12)


# -- stabilities ------------------------------------------------------------------------------------------------


def returns(point: SaddlePoint, by: float = 1e-3) -> bool:
    """Whether the iteration returns after a small perturbation of every overlap."""
    away = [m + by for m in point.hidden], min(1.0, point.hidden_overlap + by)
    again = saddle_point(point.ensemble, away)
    assert again.converged
    return np.allclose(again.hidden, point.hidden, atol=1e-6)


@pytest.mark.slow
def test_only_the_strongest_gaussian_mode_attracts():
    """At mode α, w_α² (1 - q)(1 - q̄) = 1, so a perturbation along mode β grows by the factor (w_β/w_α)²."""
    w = (2.0, 1.8, 1.5)
    found = saddle_points(Ensemble(w, 0.3, 0.5), starts=12)
    singles = [point for point in found if point.phase == "ferromagnetic"]
    assert len(singles) == 3  # no combination
    for rank, point in enumerate(singles):
        assert np.flatnonzero(np.abs(point.hidden) > 1e-6).tolist() == [rank]
        assert point.attracts == returns(point) == (rank == 0)
        assert point.rate == pytest.approx(max((w[b] / w[rank]) ** 2 for b in range(3) if b != rank), rel=1e-8)
    assert [point.free_energy for point in found] == sorted(point.free_energy for point in found)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("components", ["bernoulli", "uniform"])
def test_lower_modes_of_smaller_kurtosis_attract(components):
    found = saddle_points(Ensemble([2.0, 1.95, 1.9], 0.2, 0.5, components), starts=10)
    attracting = [point for point in found if point.attracts]
    assert [np.flatnonzero(np.abs(point.hidden) > 1e-6).tolist() for point in attracting] == [[0], [1], [2]]
    assert all(returns(point) for point in attracting)


def test_equal_gaussian_modes_neither_attract_nor_repel():
    found = saddle_points(Ensemble([1.5, 1.5], 0.3), starts=6)
    circle = [point for point in found if point.phase == "ferromagnetic"]
    assert len(circle) > 2 and not any(point.attracts for point in circle)
    radius = saddle_point(Ensemble([1.5], 0.3)).hidden[0]
    assert [math.hypot(*point.hidden) for point in circle] == pytest.approx([radius] * len(circle), abs=1e-9)


def test_combinations_of_modes():
    """Three ±1 modes together attract. Two modes with a kurtosis above the normal attract, single ones do not."""
    found = saddle_points(Ensemble([3.0, 2.95, 2.9], 0.2, 0.5, "bernoulli"), starts=12)
    together = [point for point in found if point.attracts and min(point.hidden) > 0.1]
    assert len(together) == 1 and returns(together[0])
    pair = [point for point in saddle_points(Ensemble([2.0, 1.9], 0.2, 0.5, "laplace"), starts=8) if point.attracts]
    assert len(pair) == 1 and min(pair[0].hidden) > 0.1 and returns(pair[0])


@pytest.mark.parametrize("case", [CASES[9], CASES[10]], ids=["stable", "unstable"])
def test_at_is_the_rate_of_replicas(case):
    """Two replicas with an overlap slightly below q: a sweep multiplies the difference by ``at``."""
    point = saddle_point(ensemble_of(case))
    (w,), (eta,), (theta,) = case["w"], case["eta"], case["theta"]
    x = np.arange(-40, 41) * 0.22
    share = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * 0.22

    def overlap(scale: float, q: float, shared: float, field: float) -> float:
        """E[tanh h₁ tanh h₂] with a fraction ``shared`` of common noise; the sign of a ±1 mode does not matter."""
        common, own = (scale**0.5 * case["sigma"] * math.sqrt(part) for part in (shared, q - shared))
        inner = np.tanh(common * x[:, None] + own * x + scale**0.5 * field) @ share
        return float(share @ inner**2)

    def rate(lack: float) -> float:
        q, root = point.hidden_overlap, case["kappa"] ** 0.5
        visible = overlap(root, q, q - lack, w * point.hidden[0] + eta)
        hidden = overlap(1 / root, point.visible_overlap, visible, w * point.visible[0] + theta)
        return (q - hidden) / lack

    assert 2 * rate(1e-4) - rate(2e-4) == pytest.approx(point.at, rel=1e-5)


# -- phases -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("components", KINDS)
@pytest.mark.slow
def test_the_paramagnet_ends_at_one(components):
    assert saddle_point(Ensemble([0.96], 0.5, 0.5, components), tolerance=1e-9).phase == "paramagnetic"
    assert saddle_point(Ensemble([1.04], 0.5, 0.5, components), tolerance=1e-9).phase == "ferromagnetic"
    assert saddle_point(Ensemble([0.3], 0.96, 0.5, components), tolerance=1e-9).phase == "paramagnetic"
    assert saddle_point(Ensemble([0.3], 1.04, 0.5, components), tolerance=1e-9).phase == "spin glass"


@pytest.mark.slow
def test_where_the_spin_glass_ends():
    """The mode appears at w² (1 - q)(1 - q̄) = 1, which is w/σ = √(π/2) at zero temperature."""
    glass = saddle_point(Ensemble([], 2.0, 0.5))
    assert glass.phase == "spin glass" and not glass.stable
    end = ((1 - glass.hidden_overlap) * (1 - glass.visible_overlap)) ** -0.5
    assert saddle_point(Ensemble([0.97 * end], 2.0, 0.5), tolerance=1e-9).phase == "spin glass"
    assert saddle_point(Ensemble([1.03 * end], 2.0, 0.5), tolerance=1e-9).phase == "mixed"
    cold = saddle_point(Ensemble([], 400.0, 0.5))
    end = ((1 - cold.hidden_overlap) * (1 - cold.visible_overlap)) ** -0.5
    assert end / 400 == pytest.approx(math.sqrt(math.pi / 2), rel=1 / 400)


@pytest.mark.slow
def test_phase_diagram():
    temperatures, couplings = [0.4, 0.8, 1.5], [0.3, 1.15, 2.0]
    diagram = phase_diagram(temperatures, couplings, kappa=0.5, components="bernoulli")
    assert diagram.converged.all()
    for i, j in itertools.product(range(3), repeat=2):
        sigma = 1 / temperatures[i]
        point = saddle_point(Ensemble([couplings[j] * sigma], sigma, 0.5, "bernoulli"))
        assert diagram.phases[i][j] == point.phase
        assert diagram.hidden[i, j] == pytest.approx(point.hidden[0], abs=1e-7)
        assert diagram.visible_overlap[i, j] == pytest.approx(point.visible_overlap, abs=1e-7)
        assert diagram.at[i, j] == pytest.approx(point.at, abs=1e-7)
        assert diagram.free_energy[i, j] == pytest.approx(point.free_energy, abs=1e-7)
    assert {name for row in diagram.phases for name in row} == {"paramagnetic", "spin glass", "ferromagnetic", "mixed"}
    for wrong in ([], [0.0], [math.nan]):
        with pytest.raises(InvalidOption, match="temperatures"):
            phase_diagram(wrong, couplings)


# -- the response -----------------------------------------------------------------------------------------------


def test_response_is_the_sum_over_states_and_images():
    ensemble = Ensemble([2.0, 1.95, 1.9], 0.2, 0.5, "bernoulli", theta=[0.0, 0.0, 0.02])
    points, size = saddle_points(ensemble, starts=16), 20.0
    used = [point for point in points if point.attracts]
    assert len(used) >= 3
    total, weighted = 0.0, np.zeros((3, 3))
    for point in used:
        every = [np.array([*signs, 1]) for signs in itertools.product((1, -1), repeat=2)]  # the third has a bias
        images = {tuple(np.round(signs * point.hidden, 9)): signs for signs in every}
        for signs in images.values():
            weight = math.exp(-size * (point.free_energy - used[0].free_energy))
            total += weight
            weighted += weight * np.outer(signs * point.visible, signs * point.hidden)
    found = response(points, size).numpy()
    assert np.allclose(found, size * weighted / total, atol=1e-8)
    assert np.all(np.diag(found) > 0.01) and np.isclose(found[0, 1], 0)


def test_response_needs_states():
    repelling = [point for point in saddle_points(Ensemble([1.5], 0.3), starts=4) if not point.attracts]
    with pytest.raises(InvalidData, match="attracts, found none among 1"):
        response(repelling, 100)
    one, other = saddle_point(Ensemble([1.5], 0.3)), saddle_point(Ensemble([1.6], 0.3))
    with pytest.raises(InvalidData, match="one ensemble"):
        response([one, other], 100)
    with pytest.raises(InvalidOption, match="size"):
        response([one], 0)


@pytest.mark.slow
@pytest.mark.parametrize("components", ["bernoulli", "gaussian"])
def test_simulated_machines(components):
    """Overlaps, spin-glass overlaps and response agree with sampled machines within the statistical errors."""
    visible, hidden, w, sigma, machines = 480, 240, 1.6, 0.5, 16
    size = math.sqrt(visible * hidden)
    generator = torch.Generator().manual_seed(0)

    def mode(n: int) -> torch.Tensor:
        drawn = torch.randn(n, generator=generator)
        drawn = drawn.sign() if components == "bernoulli" else drawn
        return drawn / drawn.norm()

    measured = []
    for _ in range(machines):
        u, v = mode(visible), mode(hidden)
        rbm = hm.RBM(hm.units.Spin(visible), hm.units.Spin(hidden))
        noise = torch.randn(visible, hidden, generator=generator) * sigma / math.sqrt(size)
        with torch.no_grad():
            rbm.coupling.weight.copy_(w * torch.outer(u, v) + noise)
        state = rbm.initial_state(u.sign().expand(24, -1).clone(), generator)
        for _ in range(20):
            state = rbm.sweep(state, generator)
        sums, product = [torch.zeros(24, visible), torch.zeros(24, hidden)], 0.0
        for _ in range(60):
            state = rbm.sweep(state, generator)
            sums = [total + part for total, part in zip(sums, state, strict=True)]
            product += float(((state[0] @ u) * (state[1] @ v)).mean()) / 60
        s, tau = (total / 60 for total in sums)
        halves = [(part[:12].mean(0) * part[12:].mean(0)).mean() for part in (s, tau)]  # independent chains: unbiased
        measured.append(
            [float(x) for x in (tau.mean(0) @ v, s.mean(0) @ u)] + [float(x) for x in halves[::-1]] + [product]
        )
    point = saddle_point(Ensemble([w], sigma, hidden / visible, components))
    expected = np.array(
        [
            point.hidden[0] * math.sqrt(size),
            point.visible[0] * math.sqrt(size),
            point.hidden_overlap,
            point.visible_overlap,
            float(response([point], size)),
        ]
    )
    ratios = np.array(measured) / expected
    error = ratios.std(0, ddof=1) / math.sqrt(machines)
    assert np.all(error < 0.03)
    assert np.all(np.abs(ratios.mean(0) - 1) < 4 * error), (ratios.mean(0), error)


# -- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": -0.1}, "sigma: expected 0 or more"),
        ({"sigma": math.nan}, "sigma: expected finite"),
        ({"kappa": 0.0}, "kappa: expected N_h / N_v above 0"),
        ({"w": [1.0, math.inf]}, "w: expected finite"),
        ({"w": [-1.0]}, "w: expected strengths of 0 or more"),
        ({"w": "strong"}, "w: expected numbers"),
        ({"w": 1.5}, "w: expected numbers"),
        ({"eta": [0.1, 0.2]}, "eta: expected one number for each of 1 modes, found 2"),
        ({"theta": []}, "theta: expected one number for each of 1 modes, found 0"),
        ({"components": "gausian"}, "did you mean 'gaussian'"),
    ],
)
def test_bad_ensembles(options, message):
    with pytest.raises(InvalidOption, match=message):
        Ensemble(**{"w": [1.0], "sigma": 0.5, **options})


def test_bad_starts():
    ensemble = Ensemble([1.2], 0.5)
    for start, message in ((([1.0, 1.0], 0.5), "each of 1 modes"), (([1.0], 2.0), r"in \[0, 1\]"), (1.0, "a pair")):
        with pytest.raises(InvalidOption, match=message):
            saddle_point(ensemble, start)
    with pytest.raises(InvalidOption, match="damping"):
        saddle_point(ensemble, damping=1.0)
    with pytest.raises(InvalidOption, match="starts"):
        saddle_points(ensemble, 0)


def test_without_enough_sweeps_it_says_so():
    found = saddle_point(Ensemble([1.1], 0.3), max_iterations=3)
    assert (found.converged, found.iterations) == (False, 3)
    assert saddle_points(Ensemble([1.1], 0.3, eta=[0.1]), starts=4, max_iterations=2) == ()
    damped = saddle_point(Ensemble([1.3], 0.3), damping=0.5)
    assert damped.hidden == pytest.approx(saddle_point(Ensemble([1.3], 0.3)).hidden, abs=1e-10)
