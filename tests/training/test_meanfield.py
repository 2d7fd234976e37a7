"""Training by mean field: gradient, learning, resume and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from training_helpers import (
    F64,
    adam,
    assert_close,
    assert_same,
    binary,
    draw,
    generator,
    gradients,
    log_likelihood,
    parameters,
    randomize,
    rbm,
    sgd,
    step,
)

import harmonium as hm
from harmonium import meanfield, units
from harmonium.couplings import Conv2d, Dense, Masked
from harmonium.errors import Diverged, InvalidOption, NotNormalizable
from harmonium.machines import BoltzmannMachine
from harmonium.meanfield.starts import scattered
from harmonium.training import MeanField
from harmonium.training.batches import as_source
from harmonium.training.gradient import Gradient
from harmonium.training.loop import Training

METHODS = ["naive", "tap", "adatap", "bp", "bp-exact"]
every_method = pytest.mark.parametrize("method", METHODS)


def deep(seed: int = 0, weight: float = 0.4) -> hm.DeepBoltzmannMachine:
    machine = hm.DeepBoltzmannMachine([units.Bernoulli(6), units.Bernoulli(4), units.Bernoulli(3)]).double()
    randomize(machine, seed, weight)
    return machine


def one_gradient(
    machine: BoltzmannMachine, phase: MeanField, data: Tensor, start: Tensor | None = None
) -> tuple[Gradient, dict[str, Any]]:
    return step(phase, machine, data, generator(0), start=start)


def mean_likelihood(machine: BoltzmannMachine, data: Tensor, log_z: Tensor) -> Tensor:
    clamped = meanfield.tap(machine, clamped=data, tolerance=1e-28, max_iterations=3000)
    return -meanfield.free_energy(machine, clamped).mean() - log_z


# -- the gradient -------------------------------------------------------------------------------------------------


def test_the_moments_of_the_paper():
    """Eqs. (39)-(41), written out for a machine whose units have more than a bias."""
    machine = rbm(units.Gaussian(4, precision=2.0, learn=("bias", "precision")), units.Bernoulli(3), weight=0.4, seed=1)
    data = torch.randn(5, 4, generator=generator(2), dtype=F64)
    phase = MeanField(400, tolerance=1e-30)
    one_gradient(machine, phase, data)
    a, c = (meanfield.tap(machine, data, tolerance=1e-28).__getattribute__(n) for n in ("magnetizations", "variances"))
    hidden = machine.hidden_mean(data).detach()
    W = machine.coupling.weight.detach()
    model = (a[0].T @ a[1] + W * (c[0].T @ c[1])) / 5
    torch.testing.assert_close(machine.coupling.weight.grad, model - data.T @ hidden / 5, rtol=0, atol=1e-9)
    torch.testing.assert_close(machine.visible.bias.grad, (a[0] - data).mean(0), rtol=0, atol=1e-9)
    torch.testing.assert_close(machine.hidden.bias.grad, (a[1] - hidden).mean(0), rtol=0, atol=1e-9)
    second = -(a[0].square() + c[0] - data.square()).mean(0) / 2 * machine.visible.precision.detach()
    torch.testing.assert_close(machine.visible.log_precision.grad, second, rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["naive", "tap"])
@pytest.mark.parametrize("clamped", ["deep", "deep-softmax"])
@pytest.mark.fast_cases(1)
def test_deep(method, clamped):
    """The positive phase of a deep machine is clamped mean field of the same kind."""
    machine = deep()
    if clamped == "deep-softmax":
        layers = [units.Potts((2, 3)), units.Bernoulli(4), units.Mixed(units.Bernoulli(2), units.Potts((1, 3)))]
        machine = hm.DeepBoltzmannMachine(layers).double()
        randomize(machine, 3, 0.4)
    data = machine.independent(5, generator(1))
    one_gradient(machine, MeanField(2000, method=method, tolerance=1e-30), data)
    found = gradients(machine)
    machine.zero_grad()
    solve = getattr(meanfield, method)
    strict = {"tolerance": 1e-28, "max_iterations": 3000}
    held, free = solve(machine, clamped=data, **strict), solve(machine, data, **strict)
    assert bool(held.converged.all()) and bool(free.converged.all())
    loss = meanfield.free_energy(machine, held).mean() - meanfield.free_energy(machine, free).mean()
    loss.backward()
    assert_close(found, gradients(machine), 1e-8)


@every_method
@pytest.mark.parametrize("coupling", ["dense", "masked", "conv2d"])
@pytest.mark.fast_cases(5)
def test_couplings(method, coupling):
    made = {
        "dense": lambda: Dense((1, 3, 3), (2, 2, 2)),
        "masked": lambda: Masked((1, 3, 3), (2, 2, 2), degree=4),
        "conv2d": lambda: Conv2d((1, 3, 3), (2, 2, 2), kernel=2),
    }[coupling]()
    machine = rbm(units.Bernoulli((1, 3, 3)), units.Spin((2, 2, 2)), weight=0.3, coupling=made)
    data = machine.independent(4, generator(1))
    phase = MeanField(500, method=method, tolerance=1e-28)
    gradient, _ = one_gradient(machine, phase, data)
    found = gradients(machine)
    machine.zero_grad()
    gradient.loss().backward()  # type: ignore[misc]
    assert_close(found, gradients(machine), 1e-9)


def test_few_starts_are_enough_where_there_is_one_solution():
    """The number of starts may differ from the batch size."""
    machine = binary(weight=0.3)
    data = draw(machine, 12)
    found = []
    for starts in (None, 1, 30):
        one_gradient(machine, MeanField(500, starts=starts, tolerance=1e-30), data)
        found.append(gradients(machine))
    assert_close(found[0], found[1], 1e-9)
    assert_close(found[0], found[2], 1e-9)


def test_persistent_or_from_the_data():
    """Spins of a ferromagnet: from the data the solution of its sign is found, persistent ones stay where they are."""
    machine = hm.RBM(units.Spin(6), units.Spin(5), Dense(6, 5, torch.full((6, 5), 0.5, dtype=F64)))
    up, down = torch.ones(4, 6, dtype=F64), -torch.ones(4, 6, dtype=F64)
    for persistent, sign in ((True, 1.0), (False, -1.0)):
        phase = MeanField(50, persistent=persistent)
        _, state = one_gradient(machine, phase, down, start=up)
        assert bool((state["a"][0] * sign > 0.5).all())


def test_only_deep_machines_are_persistent_by_default():
    """Ferromagnets of two and three layers, as above."""
    up, down = torch.ones(4, 6, dtype=F64), -torch.ones(4, 6, dtype=F64)

    def deep() -> BoltzmannMachine:
        return hm.DeepBoltzmannMachine([units.Spin(6), units.Spin(5), units.Spin(4)])

    def shallow() -> BoltzmannMachine:
        return hm.RBM(units.Spin(6), units.Spin(5))

    for make, options, sign in ((shallow, {}, -1.0), (deep, {}, 1.0), (deep, {"noise": 0.1}, -1.0)):
        machine = make().double()
        for coupling in machine.couplings:
            torch.nn.init.constant_(coupling.weight, 0.5)
        phase = MeanField(**options)
        _, state = one_gradient(machine, phase, down, start=up)
        assert bool((state["a"][0] * sign > 0.5).all())
        assert phase.k is None


def test_noisy_starts():
    """Magnetized by its own couplings: from data that are all up only noise leads to the other solution."""
    machine = hm.RBM(units.Spin(20), units.Spin(20), Dense(20, 20, torch.full((20, 20), 0.3, dtype=F64)))
    up = torch.ones(400, 20, dtype=F64)
    down = {}
    for noise in (0.0, 1.0):
        phase = MeanField(50, persistent=False, noise=noise)
        _, state = one_gradient(machine, phase, up)
        down[noise] = int((state["a"][0].mean(1) < 0).sum())
    assert down[0.0] == 0
    assert 4 <= down[1.0] <= 100  # most shares are far from 1, the only one at which both solutions are as near


@pytest.mark.parametrize("most", [0.0, 0.3, 1.0])
def test_how_noisy_starts_are(most):
    """On average half of the fraction ``most`` of the units is replaced, by all values with equal probability."""
    layer = units.Mixed(units.Spin(40), units.Potts((20, 3)))
    rows = torch.cat([torch.ones(2000, 40), torch.tensor([1.0, 0.0, 0.0]).repeat(2000, 20)], 1)
    noisy = scattered(layer, rows, most, generator(0))
    layer.check(noisy)
    spins, states = noisy[:, :40], noisy[:, 40:].reshape(2000, 20, 3)
    error = 4 * most / 12**0.5 / 2000**0.5 + 4 / (2000 * 20) ** 0.5 * most  # of the shares, and of the draws
    assert (spins < 0).double().mean().item() == pytest.approx(most / 4, abs=error)
    for state in (1, 2):
        assert states[..., state].double().mean().item() == pytest.approx(most / 6, abs=error)
    if most:  # every row has its own fraction
        assert (spins < 0).double().mean(1).std() > 1.2 * (most / 4 * (1 - most / 4) / 40) ** 0.5


def test_steps_and_tolerance():
    machine = binary(weight=0.5)
    data = draw(machine, 6)
    phases = MeanField(3), MeanField(300, tolerance=1e-24)
    exactly, until = (one_gradient(machine, phase, data)[1]["a"][0] for phase in phases)
    three = meanfield.tap(machine, data, iterations=3)
    torch.testing.assert_close(exactly, three.magnetizations[0], rtol=0, atol=1e-12)
    fixed = meanfield.tap(machine, data, tolerance=1e-24)
    torch.testing.assert_close(until, fixed.magnetizations[0], rtol=0, atol=1e-10)
    assert (three.magnetizations[0] - fixed.magnetizations[0]).abs().max() > 1e-4


# -- learning -----------------------------------------------------------------------------------------------------


def two_patterns(n: int) -> Tensor:
    """One half on or the other, a tenth of the units flipped: far from independent units."""
    rows = torch.tensor([[1.0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], dtype=F64).repeat(n // 2, 1)
    return (rows - (torch.rand(n, 6, generator=generator(0)) < 0.1).double()).abs()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tap", "adatap", "bp", "bp-exact"])
def test_it_learns(method):
    """Naive mean field is a lower bound of ln Z, so it gives an upper bound of the likelihood, which may decrease."""
    data = two_patterns(400)
    machine = hm.RBM(units.Bernoulli(6), units.Bernoulli(3)).double()
    machine.initialize(data, seed=2)
    before = log_likelihood(machine, data)
    options = {"optimizer": adam(0.05), "batch_size": 100, "initialize": "keep", "progress": False}
    hm.fit(machine, data, negative=MeanField(5, method=method, starts=8), epochs=8, **options)
    assert log_likelihood(machine, data) > before + 0.9


@pytest.mark.slow
def test_deep_machines_learn():
    data = torch.tensor([[1.0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]).double().repeat(50, 1)
    machine = hm.DeepBoltzmannMachine([units.Bernoulli(6), units.Bernoulli(4), units.Bernoulli(3)]).double()
    machine.initialize(data, seed=0, scale=0.1)

    def value() -> float:
        return hm.likelihood.tap(machine, data, combine="log-sum-exp").log_likelihood(data).value

    before = value()
    hm.fit(
        machine,
        data,
        negative=MeanField(10, persistent=False),
        optimizer=adam(0.05),
        epochs=40,
        batch_size=50,
        initialize="keep",
        progress=False,
    )
    assert value() > before + 0.5


@pytest.mark.slow
def test_defaults_learn_clusters():
    """Four patterns of 8 bits, 8 % of them flipped: independent units have -4.47 nats, exact gradients reach -3.31."""
    source = np.random.default_rng(31)
    patterns = source.choice([0.0, 1.0], (4, 8))[source.choice(4, 500, p=[0.4, 0.3, 0.2, 0.1])]
    data = torch.tensor(np.where(source.random(patterns.shape) < 0.08, 1 - patterns, patterns))
    machine = hm.RBM(8, 5).double()
    hm.fit(machine, data, negative=MeanField(), progress=False)
    assert log_likelihood(machine, data) > -3.7


@pytest.mark.slow
def test_real_units_learn_all_their_parameters():
    source = generator(3)
    data = torch.rand(200, 5, generator=source, dtype=F64).square()
    visible = units.TruncatedGaussian(5, learn=("bias", "precision"))
    machine = rbm(visible, units.Bernoulli(3), weight=0.1, seed=1)
    start = parameters(machine)
    before = hm.likelihood.tap(machine, data).log_likelihood(data).value
    hm.fit(machine, data, negative=MeanField(3), optimizer=adam(0.02), epochs=20, initialize="keep", progress=False)
    assert hm.likelihood.tap(machine, data).log_likelihood(data).value > before + 0.1
    for name, value in parameters(machine).items():
        assert not torch.equal(value, start[name]), name


def test_no_random_numbers():
    """Two runs that differ only in the seed of the chains are identical."""
    machine = binary(weight=0.5)
    data = draw(machine, 10)
    found = []
    for seed in (0, 1):
        step(MeanField(4), machine, data, generator(seed))
        found.append(gradients(machine))
    assert_same(*found)


# -- a run ----------------------------------------------------------------------------------------------------------


class Stop(hm.Callback):
    """Stop training after some epochs, as if the process had been killed."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch(self, state: object) -> None:
        if state.epoch == self.epoch:  # type: ignore[attr-defined]
            raise KeyboardInterrupt


@pytest.mark.parametrize("options", [*({"method": m} for m in METHODS), {"persistent": False, "noise": 0.5}], ids=str)
@pytest.mark.slow
def test_resumed_to_the_bit(options, tmp_path):
    data = draw(binary(6, 3, seed=5), 60)

    def train(folder: str, resume: bool = False, callbacks: tuple[hm.Callback, ...] = ()) -> BoltzmannMachine:
        machine = hm.RBM(units.Bernoulli(6), units.Bernoulli(3)).double()
        hm.fit(
            machine,
            data,
            negative=MeanField(2, starts=7, **options),
            optimizer=sgd(0.1),
            epochs=4,
            batch_size=20,
            run=tmp_path / folder,
            resume=resume,
            callbacks=callbacks,
            progress=False,
            seed=0,
        )
        return machine

    straight = train("straight")
    with pytest.raises(KeyboardInterrupt):
        train("broken", callbacks=(Stop(3),))
    assert_same(parameters(straight), parameters(train("broken", resume=True)))


def test_batches_that_grow():
    """The number of starts stays that of the first batches."""
    data = draw(binary(6, 3, seed=5), 60)

    def growing(clock: hm.training.Clock) -> hm.training.Setting:
        return hm.training.Setting(batch_size=10 if clock.epoch == 1 else 20)

    for method in ("tap", "adatap"):
        machine = hm.RBM(units.Bernoulli(6), units.Bernoulli(3)).double()
        source = as_source(data, machine)
        plan = hm.Plan(negative=MeanField(2, method=method), epochs=2, batch_size=10, schedule=growing)
        training = Training(machine, source, plan.resolved(machine, source), progress=False)
        training.train()
        assert len(training.learners[0].state["a"][0]) == 10


# -- errors and messages -------------------------------------------------------------------------------------------


def test_refused():
    for options in ({"method": "tapp"}, {"starts": 0}, {"k": 0}, {"damping": 1.0}, {"tolerance": -1.0}):
        with pytest.raises(InvalidOption):
            MeanField(**options)
    for noise, persistent in ((0.5, True), (1.5, None), (-0.1, False)):
        with pytest.raises(InvalidOption, match="noise"):
            MeanField(noise=noise, persistent=persistent)
    real, phase = hm.RBM(units.Gaussian(4), units.Bernoulli(3)), MeanField(noise=0.5, persistent=False)
    with pytest.raises(InvalidOption, match="finitely many values, found gaussian"):
        hm.fit(real, torch.ones(20, 4), negative=phase, batch_size=10, epochs=1, progress=False)
    counts = hm.RBM(units.Poisson(4), units.Bernoulli(3))
    with pytest.raises(NotNormalizable, match="poisson"):
        hm.fit(counts, torch.ones(20, 4), negative=MeanField(), batch_size=10, epochs=1, progress=False)
    documents = hm.RBM(units.Multinomial(4), units.Bernoulli(3))
    with pytest.raises(InvalidOption, match="total"):
        hm.fit(documents, torch.ones(20, 4), negative=MeanField(), batch_size=10, epochs=1, progress=False)


def test_no_fixed_point_at_all():
    machine = hm.RBM(units.Gaussian(1), units.Bernoulli(40), Dense(1, 40, torch.full((1, 40), 0.5)))
    for method in ("tap", "adatap", "bp"):
        with pytest.raises(Diverged, match="no start"):
            one_gradient(machine, MeanField(5, method=method), torch.zeros(3, 1))


def test_a_lost_start_begins_anew_at_the_data():
    n = 12
    machine = hm.RBM(
        units.Gaussian(1, precision=1.5, bias=torch.tensor(0.0, dtype=F64)),
        units.Bernoulli(n, bias=torch.full((n,), -3.0, dtype=F64)),
        Dense(1, n, torch.full((1, n), 0.9, dtype=F64)),
    )
    phase = MeanField(20, persistent=True, damping=0.0)
    good, bad = torch.full((3, 1), 9.0, dtype=F64), torch.full((3, 1), 3.4, dtype=F64)
    alone = meanfield.tap(machine, good[:1], iterations=20, damping=0.0)
    assert bool(torch.isfinite(alone.free_energy).all())
    _, state = step(phase, machine, good, generator(0), start=torch.cat([good[:2], bad[:1]]))
    model = machine.visible.bias.grad + good.mean(0)
    torch.testing.assert_close(model, alone.magnetizations[0][0], rtol=0, atol=1e-8)
    kept = state["a"][0]
    torch.testing.assert_close(kept[2], good[0])
