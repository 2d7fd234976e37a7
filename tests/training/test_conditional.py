"""Training of machines with a context: data, gradients in centered coordinates, learning, resume and errors."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from training_helpers import F64, adam, assert_same, generator, gradients, parameters, randomize, sgd, step

import harmonium as hm
from harmonium import couplings, units
from harmonium.errors import InvalidData, InvalidOption
from harmonium.training.coordinates import Coordinates
from harmonium.training.schedules import Clock

QUIET: dict[str, Any] = {"progress": False, "seed": 0}


def machine(visible: units.Unit | None = None, hidden: units.Unit | None = None, **ends: Any) -> hm.ConditionalRBM:
    made = hm.ConditionalRBM(visible or units.Bernoulli(4), hidden or units.Bernoulli(2), 3, **ends).double()
    randomize(made, 1, weight=0.5)
    return made


def rows(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Bits v that depend on the context u, and on each other: v_0 = u_0, v_1 = v_2 are random, v_3 = 1 - u_1."""
    u = torch.bernoulli(torch.full((n, 3), 0.5, dtype=F64), generator=generator(seed))
    coin = torch.bernoulli(torch.full((n, 1), 0.5, dtype=F64), generator=generator(seed + 1))
    v = torch.cat([u[:, :1], coin, coin, 1 - u[:, 1:2]], 1)
    flip = torch.bernoulli(torch.full_like(v, 0.1), generator=generator(seed + 2))
    return (v + flip) % 2, u


def log_likelihood(given: hm.ConditionalRBM, v: Tensor, u: Tensor) -> float:
    return given.given(u).log_probability(v).mean().item()


# -- data -------------------------------------------------------------------------------------------------------


def test_windows_never_cross_sequences() -> None:
    sequences = [torch.arange(5.0).unsqueeze(1), 100 + torch.arange(4.0).unsqueeze(1)]
    source = hm.Windows(sequences, 3)
    v, context = source[:]
    assert v.flatten().tolist() == [3, 4, 103]
    assert context.squeeze(2).tolist() == [[0, 1, 2], [1, 2, 3], [100, 101, 102]]
    assert source.sequence.tolist() == [0, 0, 1]
    taken = source.take(torch.tensor([2, 0]), (torch.empty(2, 1), torch.empty(2, 3, 1)))
    assert torch.equal(taken[1], context[[2, 0]])
    assert source.context == (3, 1)


def jumping(scale: float = 1.0) -> Tensor:
    """A linear autoregression with slope 0.9 in two channels, and five jumps back and forth."""
    noise, frames = generator(0), torch.zeros(200, 2, dtype=F64)
    for k in range(1, 200):
        frames[k] = 0.9 * frames[k - 1] + 0.1 * torch.randn(2, generator=noise, dtype=F64)
    frames[20::40] += torch.randn(5, 2, generator=noise, dtype=F64) * 20
    return frames * torch.tensor([1.0, scale], dtype=F64)


def test_robust_weights_are_small_for_jumps() -> None:
    rows = hm.Windows(jumping(), 3)
    weights = rows.robust_weights()
    assert sorted((weights.argsort()[:5] + 3).tolist()) == [20, 60, 100, 140, 180]
    assert weights.mean().item() == pytest.approx(1.0)
    assert torch.equal(rows.robust_weights(0.0), torch.ones(len(rows), dtype=F64))
    scaled = hm.Windows(jumping(1e6), 3, standardize=True).robust_weights()
    torch.testing.assert_close(scaled, hm.Windows(jumping(), 3, standardize=True).robust_weights(), rtol=1e-6, atol=0)
    with pytest.raises(InvalidOption, match="power: expected a number of at least 0, found -1"):
        rows.robust_weights(-1)


@pytest.mark.parametrize("frames", [torch.ones(20, 2), torch.arange(40.0).reshape(20, 2)], ids=["constant", "linear"])
def test_robust_weights_of_frames_without_noise_are_finite(frames: Tensor) -> None:
    weights = hm.Windows(frames, 2).robust_weights()
    assert bool(weights.isfinite().all()) and weights.mean().item() == pytest.approx(1.0)


def test_robust_weights_make_the_next_frame_better() -> None:
    """With default settings, bursts of another motion change the slopes only if all frames have equal weights."""
    noise, frames = generator(0), torch.zeros(400, 2)
    burst = torch.arange(400) % 40 < 8
    for k in range(1, 400):
        kick = torch.randn(2, generator=noise)
        frames[k] = -0.5 * frames[k - 1] + 2 * kick if burst[k] else 0.9 * frames[k - 1] + 0.1 * kick
    rows = hm.Windows(frames, 1, standardize=True)
    v, context = rows[(~burst[1:]).nonzero().squeeze(1)]
    errors = []
    for data in (rows, hm.Weighted(rows, rows.robust_weights())):
        made = hm.ConditionalRBM(units.Gaussian(2), 4, (1, 2))
        hm.fit(made, data, epochs=20, **QUIET)
        errors.append((hm.tasks.next_frame(made, context, seed=0) - v).square().mean().item())
    assert errors[1] < 0.5 * errors[0]


def test_gaussian_units_given_a_context_learn_their_precision() -> None:
    made = hm.ConditionalRBM(units.Gaussian(2), 3, 1)
    assert made.visible.learn == ("bias", "precision")
    fixed = hm.ConditionalRBM(units.Gaussian(2, learn=("bias",)), 3, 1)
    fixed.given(torch.zeros(1, 1))
    assert fixed.visible.learn == ("bias",)
    unbounded = hm.ConditionalRBM(units.Gaussian(2), units.Gaussian(3), 1)
    unbounded.given(torch.zeros(1, 1))
    assert unbounded.visible.learn == ("bias",)


def test_one_sequence_is_a_list_of_one() -> None:
    frames = np.arange(12.0).reshape(6, 2)
    assert torch.equal(hm.Windows(frames, 2)[:][1], hm.Windows([frames], 2)[:][1])


def test_a_weighted_row_keeps_its_context() -> None:
    v, u = rows(50)
    marked = torch.cat([u[:, :2], torch.arange(50.0, dtype=F64).unsqueeze(1)], 1)
    source = hm.Weighted(hm.Conditional(v, marked), torch.arange(50.0))
    out = torch.empty(50, 4, dtype=F64), torch.empty(50, 3, dtype=F64)
    source.take(torch.arange(50), out, generator(0))
    assert torch.equal(out[0], v[out[1][:, 2].long()])
    assert out[1][:, 2].min() > 0
    hm.fit(machine(), source, epochs=1, batch_size=20, **QUIET)


ERRORS = {
    "short": (lambda: hm.Windows([torch.zeros(9, 2), torch.zeros(3, 2)], 3), "sequence 1: expected more than 3 frames"),
    "ragged": (
        lambda: hm.Windows([torch.zeros(9, 2), torch.zeros(9, 3)], 3),
        r"sequence 1: .* \(2,\), .* \(3,\)",
    ),
    "flat": (lambda: hm.Windows([torch.zeros(9)], 3), r"expected shape \(frames, channels\), found \(9,\)"),
    "nan": (lambda: hm.Windows(torch.full((9, 2), torch.nan), 3), "sequence 0: expected finite numbers"),
    "empty": (lambda: hm.Windows([], 3), "expected at least one sequence"),
    "rows": (lambda: hm.Conditional(torch.zeros(5, 4), torch.zeros(4, 3)), "context: expected 5 rows, .* found 4"),
    "missing": (lambda: hm.fit(machine(), rows(9)[0], **QUIET), r"expected rows with a context of shape \(3,\)"),
    "not-wanted": (
        lambda: hm.fit(hm.RBM(4, 2), hm.Conditional(*rows(9)), **QUIET),
        r"expected rows without a context for RBM, found a context of shape \(3,\)",
    ),
    "shape": (
        lambda: hm.fit(machine(), hm.Conditional(rows(9)[0], torch.zeros(9, 2)), **QUIET),
        r"expected rows with a context of shape \(3,\), found a context of shape \(2,\)",
    ),
    "nan-context": (
        lambda: hm.fit(machine(), hm.Conditional(rows(9)[0], torch.full((9, 3), torch.nan)), **QUIET),
        "context of data: expected finite numbers",
    ),
    "support": (
        lambda: hm.fit(machine(), hm.Conditional(rows(9)[0] + 1, rows(9)[1]), **QUIET),
        "data: expected binary values",
    ),
    "given-shape": (lambda: machine().given(torch.zeros(2, 4)), r"context: expected shape \(n, 3\), found \(2, 4\)"),
    "given-rows": (
        lambda: machine().given(torch.zeros(2, 3)).free_energy(torch.zeros(5, 4)),
        "expected 2 rows, .* found 5",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_invalid_data(case: str) -> None:
    call, message = ERRORS[case]
    with pytest.raises(InvalidData, match=message):
        call()


def test_invalid_options() -> None:
    with pytest.raises(InvalidOption, match="order: expected at least 1"):
        hm.Windows(torch.zeros(5, 2), 0)
    with pytest.raises(InvalidOption, match=r"expected CD, Reconstruction or Exact for .* found PCD"):
        hm.fit(machine(), hm.Conditional(*rows(9)), negative="pcd:1", **QUIET)
    with pytest.raises(InvalidOption, match="MixingTime expects a machine without a context"):
        hm.fit(machine(), hm.Conditional(*rows(9)), callbacks=[hm.MixingTime()], **QUIET)
    with pytest.raises(InvalidOption, match=r"to_hidden: expected a coupling of the shapes \(\(3,\), \(2,\)\)"):
        hm.ConditionalRBM(4, 2, 3, to_hidden=couplings.Dense(3, 4))
    with pytest.raises(InvalidOption, match="at least one coupling of the context"):
        hm.ConditionalRBM(4, 2, 3, to_visible=False, to_hidden=False)


WITHOUT_CONTEXT = {
    "free_energy": lambda m: m.free_energy(torch.zeros(1, 4)),
    "hidden_mean": lambda m: m.hidden_mean(torch.zeros(1, 4)),
    "reconstruct": lambda m: m.reconstruct(torch.zeros(1, 4)),
    "energy": lambda m: m.energy(torch.zeros(1, 4), torch.zeros(1, 2)),
    "sample": lambda m: m.sample(2),
    "log_partition": lambda m: m.log_partition(),
    "distribution": lambda m: m.distribution(),
    "sweep": lambda m: m.sweep([torch.zeros(1, 4), torch.zeros(1, 2)]),
    "ais": lambda m: hm.likelihood.ais(m, runs=2, betas=2),
    "tap": lambda m: hm.meanfield.tap(m),
    "pseudo": lambda m: hm.likelihood.pseudo(m, torch.zeros(1, 4)),
}


@pytest.mark.parametrize("name", WITHOUT_CONTEXT)
def test_a_conditional_machine_needs_a_context(name: str) -> None:
    with pytest.raises(InvalidOption, match=r"expected a context of shape \(n, 3\), found none"):
        WITHOUT_CONTEXT[name](machine())


# -- given ------------------------------------------------------------------------------------------------------


def test_a_row_is_an_ordinary_machine() -> None:
    made, (v, u) = machine(units.Gaussian(4, learn=("bias", "precision")), units.Spin(2)), rows(6)
    given = made.given(u)
    for k in range(6):
        alone = given.row(k)
        assert type(alone) is hm.RBM
        torch.testing.assert_close(alone.free_energy(v), made.given(u[k : k + 1]).free_energy(v))
        assert alone.log_partition() == pytest.approx(given.log_partition()[k].item(), abs=1e-10)
    with pytest.raises(InvalidOption, match="one distribution"):
        hm.likelihood.ais(given, runs=2, betas=2)


def test_documents_keep_their_lengths() -> None:
    made = machine(units.Multinomial(3), units.Bernoulli(2))
    documents = torch.tensor([[2, 0, 1], [0, 1, 0], [4, 1, 0], [1, 1, 1]], dtype=F64)
    u = rows(4)[1]
    found = made.given(u).log_probability(documents)
    for k in range(4):
        fixed = hm.RBM(units.Multinomial(3, total=int(documents[k].sum())), units.Bernoulli(2), made.coupling).double()
        with torch.no_grad():
            fixed.visible.bias.copy_(made.given(u).row(k).visible.bias)
            fixed.hidden.bias.copy_(made.given(u).row(k).hidden.bias)
        assert fixed.log_probability(documents[k : k + 1]).item() == pytest.approx(found[k].item(), abs=1e-10)
    data = hm.Conditional(documents.repeat(10, 1), u.repeat(10, 1))
    hm.fit(made, data, epochs=2, batch_size=15, **QUIET)
    moved = made.given(u).sample(start=documents, sweeps=3, seed=0, check_mixing=False)
    assert torch.equal(moved.sum(1), documents.sum(1))


def test_samples_have_the_context_of_their_row() -> None:
    made = hm.ConditionalRBM(3, 2, 1)
    with torch.no_grad():
        assert made.to_visible is not None
        made.to_visible.weight.fill_(40.0)
    given = made.given(torch.tensor([[-1.0], [1.0]]))
    assert given.sample(sweeps=1, seed=0, check_mixing=False).mean(1).tolist() == [0, 1]
    assert given.sample(5, sweeps=1, seed=0, check_mixing=False).mean(1).tolist() == [0, 1, 0, 1, 0]
    start = torch.zeros(1, 3)
    assert given.sample(start=start, sweeps=1, seed=0, check_mixing=False).mean(1).tolist() == [0, 1]
    observed = torch.tensor([[1.0, torch.nan, torch.nan]])
    assert given.sample(given=observed, sweeps=1, seed=0, check_mixing=False)[0].tolist() == [1, 0, 0]


def test_mixing_is_judged_for_chains_with_the_same_context() -> None:
    """Chains with different contexts have different means; that is no sign of bad mixing."""
    made = hm.ConditionalRBM(6, 2, 1)
    with torch.no_grad():
        assert made.to_visible is not None
        made.to_visible.weight.fill_(6.0)
    made.given(torch.tensor([[-1.0], [1.0]])).sample(400, sweeps=200, seed=0)  # a warning is an error


def test_one_end_only(tmp_path: Path) -> None:
    v, u = rows(20)
    for name in ("to_visible", "to_hidden"):
        made = machine(**{name: False})
        assert getattr(made, name) is None
        assert len(made.context_couplings) == 1
        hm.fit(made, hm.Conditional(v, u), epochs=1, batch_size=8, run=tmp_path / name, **QUIET)
        again = hm.load(tmp_path / name)
        assert isinstance(again, hm.ConditionalRBM)
        assert getattr(again, name) is None
        assert_same(parameters(again), parameters(made))


# -- gradients --------------------------------------------------------------------------------------------------

CENTERED = {
    "bernoulli": lambda: machine(),
    "gaussian-spin": lambda: machine(units.Gaussian(4, learn=("bias", "precision")), units.Spin(2)),
    "masked": lambda: machine(to_visible=couplings.Masked(3, 4, degree=2, seed=0)),
    "shared": lambda: machine(units.Bernoulli(4, shared=(0,)), units.Bernoulli(2, shared=(0,))),
    "hidden-only": lambda: machine(to_visible=False),
}


def data_for(made: hm.ConditionalRBM, n: int) -> tuple[Tensor, Tensor]:
    v = made.visible.sample(torch.zeros(n, 4, dtype=F64), generator=generator(3))
    return v, torch.randn(n, 3, generator=generator(4), dtype=F64) + 1


@pytest.mark.parametrize("kind", CENTERED)
def test_a_centered_step_is_a_plain_step_in_centered_coordinates(kind: str) -> None:
    """θ → (W, A, B, b + Wλ + Aᵀκ, c + Wᵀμ + Bᵀκ), a gradient step by autograd there, and back."""
    made = CENTERED[kind]()
    v, u = data_for(made, 20)
    coordinates = Coordinates(made, (v.mean(0), u.mean(0)), 0.3)
    gradient, state = step(hm.CD(1), made, v, generator(3), context=u)
    model = state["memory"].get(20, None).model.clone()
    with torch.no_grad():
        coordinates.follow(gradient)
        coordinates.center(gradient, at_mean=False)
        coordinates.pull_back(gradient, lambda parameter: 1.0)
        gradient.write()
    found = gradients(made)
    mu, lam = coordinates.state()["offsets"]
    kappa = u.mean(0, keepdim=True)

    def shifts(of: hm.ConditionalRBM, sign: float) -> None:
        fields = [of.coupling.down(lam[None]), of.coupling.up(mu[None])]
        for k, coupling in of.context_couplings.items():
            fields[k] = fields[k] + coupling.up(kappa)
        for unit, field in zip(of.layers, fields, strict=True):
            unit.shift_bias(sign * field[0].detach())

    class Centered(torch.nn.Module):
        """The loss as a function of the centered coordinates."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = copy.deepcopy(made)
            shifts(self.inner, 1.0)

        def forward(self) -> Tensor:
            inner = self.inner
            fields = {0: -inner.coupling.down(lam[None]), 1: -inner.coupling.up(mu[None])}
            for k, coupling in inner.context_couplings.items():
                fields[k] = fields[k] + coupling.up(u - kappa)
            fields = {k: unit_field(inner.layers[k], field, k) for k, field in fields.items()}
            given = hm.machines.GivenRBM(
                hm.RBM(inner.visible, inner.hidden, inner.coupling), {k: f.expand(20, -1) for k, f in fields.items()}
            )
            return hm.losses.contrastive(given, v, model)

    def unit_field(unit: units.Unit, field: Tensor, k: int) -> Tensor:
        """The fields as biases: those of units that share a bias are averaged over these units."""
        if not unit.shared:
            return field
        inner = centered.inner
        whole = (inner.coupling.down(lam[None]), inner.coupling.up(mu[None]))[k]
        end = inner.context_couplings.get(k)
        offset = whole if end is None else whole + end.up(kappa)
        return field + offset - offset.mean(1, keepdim=True)

    centered = Centered()
    centered.inner.zero_grad()
    centered().backward()
    stepped = copy.deepcopy(centered.inner)
    rate = 0.1
    with torch.no_grad():
        for parameter, original in zip(stepped.parameters(), centered.inner.parameters(), strict=True):
            if original.grad is not None:
                parameter.sub_(original.grad, alpha=rate)
        shifts(stepped, -1.0)
    for name, parameter in made.named_parameters():
        expected = stepped.get_parameter(name)
        torch.testing.assert_close(parameter - rate * found[name], expected, rtol=1e-9, atol=1e-11, msg=name)


def test_coordinates_of_the_optimizer_are_undone_exactly() -> None:
    """An optimizer with learning rate zero leaves the machine unchanged in centered coordinates."""
    made, data = machine(), hm.Conditional(*rows(40))
    before = parameters(made)
    hm.fit(made, data, epochs=2, batch_size=16, optimizer=adam(0.0), initialize="keep", **QUIET)
    for name, value in parameters(made).items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=1e-12)


def test_the_zero_sum_gauge_changes_no_probability() -> None:
    made = hm.ConditionalRBM(units.Potts((2, 3)), 2, 3).double()
    randomize(made, 1, weight=0.5)
    u = rows(5)[1]
    before = made.given(u).distribution()[1]
    hm.ZeroSum().after_step(made, {}, Clock(1, 1, 0.0))
    torch.testing.assert_close(made.given(u).distribution()[1], before, rtol=0, atol=1e-12)
    assert made.to_visible is not None
    assert made.to_visible.weight.view(3, 2, 3).sum(-1).abs().max() < 1e-12


def test_penalties_act_on_all_couplings() -> None:
    made, (v, u) = machine(), rows(8)
    gradient, _ = step(hm.CD(1), made, v, generator(1), context=u)
    before = gradients(made)
    with torch.no_grad():
        hm.L2(0.5).add(made, gradient, None, Clock(1, 1, 0.0), lambda weight: None)
        gradient.write()
    for name in ("coupling.weight", "to_visible.weight", "to_hidden.weight"):
        change = gradients(made)[name] - before[name]
        torch.testing.assert_close(change, 0.5 * made.get_parameter(name).detach())


# -- learning ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("negative", ["cd:1", "cd:5", "reconstruction:1", "exact"])
def test_the_conditional_likelihood_rises(negative: str) -> None:
    v, u = rows(400)
    test = rows(400, seed=10)
    made = hm.ConditionalRBM(4, 2, 3).double()
    made.initialize((v, u), seed=0)
    before = log_likelihood(made, *test)
    hm.fit(
        made,
        hm.Conditional(v, u),
        negative=negative,
        epochs=60,
        batch_size=50,
        learning_rate=0.5,
        **QUIET,
    )
    after = log_likelihood(made, *test)
    assert after > before + (0.7 if negative == "exact" else 0.6)
    # that of the generating process is 2 H(0.1) + ln 2 + H(0.1 * 2 - 2 * 0.01) = 1.77 nats
    assert after < -1.77


@pytest.mark.slow
def test_defaults_learn() -> None:
    v, u = rows(400)
    made = hm.ConditionalRBM(4, 2, 3)
    validation = hm.Conditional(*rows(100, seed=9))
    result = hm.fit(made, hm.Conditional(v, u), validation=validation, **QUIET)
    assert log_likelihood(made.double(), *rows(400, seed=10)) > -2.1  # 2.77 without learning
    assert {"reconstruction", "pseudo_likelihood", "free_energy_gap", "weight_norm"} <= result.history[-1].keys()


def regression(n: int = 300) -> tuple[Tensor, Tensor]:
    u = torch.randn(n, 3, generator=generator(0), dtype=F64) * torch.tensor([1.0, 5.0, 0.2], dtype=F64)
    slopes = torch.randn(3, 2, generator=generator(1), dtype=F64)
    return u @ slopes + 2 + 0.1 * torch.randn(n, 2, generator=generator(2), dtype=F64), u


def test_gaussian_units_start_at_the_linear_regression() -> None:
    v, u = regression()
    made = hm.ConditionalRBM(units.Gaussian(2, learn=("bias", "precision")), 2, 3).double()
    made.initialize((v, u), scale=0.0, seed=0)
    with_ones = torch.cat([u, torch.ones(len(u), 1, dtype=F64)], 1)
    fitted = with_ones @ torch.linalg.lstsq(with_ones, v).solution
    mean = made.given(u).visible_mean(torch.zeros(len(u), 2, dtype=F64)).detach()
    torch.testing.assert_close(mean, fitted, rtol=0, atol=0.05)
    assert isinstance(made.visible, units.Gaussian)
    torch.testing.assert_close(made.visible.precision.detach(), 1 / (v - fitted).var(0, correction=0), rtol=0.1, atol=0)


def test_mixed_units_start_at_the_linear_regression_of_the_real_part() -> None:
    v, u = regression()
    layer = units.Mixed(units.Bernoulli(1), units.Gaussian(2))
    made = hm.ConditionalRBM(layer, 2, 3).double()
    made.initialize((torch.cat([(v[:, :1] > 0).double(), v], 1), u), seed=0)
    assert made.to_visible is not None
    assert not bool(made.to_visible.weight[:, 0].any())
    assert bool(made.to_visible.weight[:, 1:].all())


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "momentum"])
def test_resume_is_exact(optimizer: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "batch_size": 15,
        "optimizer": {"sgd": None, "adam": adam(0.01), "momentum": sgd(0.1, momentum=0.9)}[optimizer],
        "penalties": [hm.L2(0.01)],
        "constraints": [hm.Average()],
        **QUIET,
    }
    data = hm.Conditional(*rows(50))
    whole, part = (hm.ConditionalRBM(4, 2, 3) for _ in range(2))
    hm.fit(whole, data, epochs=4, run=tmp_path / "whole", **options)

    class Stop(hm.Callback):
        def on_epoch(self, state: Any) -> None:
            state.stop = state.epoch == 2

    hm.fit(part, data, epochs=4, run=tmp_path / "part", callbacks=[Stop()], **options)
    again = hm.ConditionalRBM(4, 2, 3)
    hm.fit(again, data, epochs=4, run=tmp_path / "part", resume=True, **options)
    assert_same(parameters(again), parameters(whole))
    assert not torch.equal(again.coupling.weight, part.coupling.weight)
    loaded = hm.load(tmp_path / "part")
    assert isinstance(loaded, hm.ConditionalRBM)
    assert_same(parameters(loaded), parameters(whole))


def test_default_rates_follow_the_scale_of_the_context() -> None:
    v, u = rows(200)
    groups = [
        hm.training.default_groups(made := hm.ConditionalRBM(4, 2, 3).double(), (v, u * c)) for c in (10.0, 100.0)
    ]
    names = [name for name, _ in made.named_parameters()]
    rates = [dict(zip(names, (group["lr"] for group in found), strict=True)) for found in groups]
    assert rates[1]["to_visible.weight"] == pytest.approx(rates[0]["to_visible.weight"] / 100)
    assert rates[1]["coupling.weight"] == rates[0]["coupling.weight"]


@pytest.mark.slow
def test_rounded_products() -> None:
    v, u = rows(200)
    made = hm.ConditionalRBM(4, 2, 3)
    hm.fit(made, hm.Conditional(v, u), epochs=40, batch_size=50, learning_rate=0.3, precision="bfloat16", **QUIET)
    assert log_likelihood(made.double(), v, u) > -2.5
