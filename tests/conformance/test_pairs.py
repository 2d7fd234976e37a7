"""Pairs of units, in both layers, that have a finite partition function; ``make conformance`` tests every pair."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from cases import (
    FINITE,
    PAIRS,
    PHASES,
    REFUSED,
    SAMPLERS,
    TESTED,
    UNITS,
    generator,
    id_of,
    rbm,
    step,
)
from oracle import joint, worst_deviation
from torch import Tensor, nn

import harmonium as hm
from harmonium.errors import NotEnumerable, NotNormalizable
from harmonium.files import build
from harmonium.training.negative import CD, Reconstruction

#: how many standard errors a statistic may be off: one in 150 000 by chance, and seeds are fixed
SIGMAS = 4.5
CHAINS = 20_000
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

every_pair = pytest.mark.parametrize("pair", TESTED, ids=id_of)


def some_states(pair: tuple[str, str], machine: hm.RBM, layer: int, n: int) -> Tensor:
    """States of a layer: a node at random (not too far out) for each site."""
    points, _ = UNITS[pair[layer]].site
    likely = points[points.reshape(len(points), -1).abs().amax(1) < 4]
    unit = machine.layers[layer]
    sites = unit.size // points[0].numel()
    chosen = torch.randint(len(likely), (n, sites), generator=generator(*pair, "states", layer))
    return likely[chosen].reshape(n, *unit.shape)


class FreeEnergy(nn.Module):
    """The free energy as a module, so that torch can differentiate it."""

    def __init__(self, machine: hm.RBM) -> None:
        super().__init__()
        self.machine = machine

    def forward(self, v: Tensor) -> Tensor:
        return self.machine.free_energy(v)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@every_pair
def test_shapes_and_types(pair, dtype, device):
    double = rbm(*pair, sites=(3, 2)).build()
    machine = copy.deepcopy(double).to(device=device, dtype=dtype)
    v, h = (some_states(pair, double, layer, 5) for layer in (0, 1))
    source = torch.Generator(device).manual_seed(0)
    per_row = (5,)
    expected = {
        "energy": (machine.energy(v, h), per_row),
        "free_energy": (machine.free_energy(v), per_row),
        "hidden_free_energy": (machine.hidden_free_energy(h), per_row),
        "hidden_mean": (machine.hidden_mean(v), h.shape),
        "visible_mean": (machine.visible_mean(h), v.shape),
        "reconstruct": (machine.reconstruct(v), v.shape),
        "sample_hidden": (machine.sample_hidden(v, seed=source), h.shape),
        "sample_visible": (machine.sample_visible(h, seed=source), v.shape),
        "sample": (machine.sample(5, sweeps=2, seed=source), v.shape),
    }
    for name, (value, shape) in expected.items():
        assert value.shape == shape, name
        assert value.dtype == dtype, name
        assert value.device.type == device, name
        assert bool(torch.isfinite(value).all()), name
    for name, layer in (("sample_hidden", 1), ("sample_visible", 0), ("sample", 0)):
        machine.layers[layer].check(expected[name][0], name)
    for name, reference in (("energy", double.energy(v, h)), ("free_energy", double.free_energy(v))):
        torch.testing.assert_close(expected[name][0].cpu().double(), reference, rtol=2e-5, atol=2e-5)


@every_pair
def test_energy_is_what_it_says(pair):
    machine = rbm(*pair).build()
    v, h = (some_states(pair, machine, layer, 7) for layer in (0, 1))
    bond = torch.einsum("bi,ij,bj->b", v.flatten(1), machine.coupling.matrix(), h.flatten(1))
    own = machine.visible.log_weight(v).flatten(1).sum(1) + machine.hidden.log_weight(h).flatten(1).sum(1)
    torch.testing.assert_close(machine.energy(v, h), -own - bond, rtol=1e-12, atol=1e-12)


@every_pair
def test_free_energies_sum_out_the_other_layer(pair):
    machine = rbm(*pair, sites=(2, 2)).build()
    for layer, free_energy in ((0, machine.free_energy), (1, machine.hidden_free_energy)):
        here = some_states(pair, machine, layer, 4)
        there, weights = UNITS[pair[1 - layer]].nodes(machine.layers[1 - layer])
        for row, found in zip(here, free_energy(here), strict=True):
            state = [row.expand(len(there), *row.shape), there]
            energies = machine.energy(*(state if layer == 0 else state[::-1]))
            brute = -torch.logsumexp(weights - energies, 0)
            torch.testing.assert_close(found, brute, rtol=1e-9, atol=1e-9)


@every_pair
def test_log_partition(pair):
    case = rbm(*pair)
    machine = case.build()
    if not set(pair) & set(FINITE):
        with pytest.raises(NotEnumerable):
            machine.log_partition()
        return
    assert machine.log_partition() == pytest.approx(joint(machine, case.nodes(machine)).log_partition, abs=1e-8)


@pytest.mark.fast_cases(118)
@every_pair
def test_gradient_of_the_free_energy(pair):
    machine = rbm(*pair).build()
    module = FreeEnergy(machine)
    names = [name for name, _ in module.named_parameters()]
    values = [p.detach().clone().requires_grad_() for p in module.parameters()]
    v = some_states(pair, machine, 0, 4)

    def of_parameters(*parameters: Tensor) -> Tensor:
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (v,))

    assert torch.autograd.gradcheck(of_parameters, values, fast_mode=True)
    away_from_spike = torch.where(v == 0, 0.3, v).requires_grad_()  # a spike at zero has no derivative there
    assert torch.autograd.gradcheck(lambda x: machine.free_energy(x, check=False), (away_from_spike,))


@pytest.mark.parametrize(
    ("pair", "phase"),
    [pytest.param(pair, name, id=id_of((*pair, name))) for name, case in PHASES.items() for pair in case.pairs()],
)
def test_moments_are_the_gradient_of_the_loss(pair, phase):
    case = PHASES[phase]
    machine = rbm(*pair, sites=(2, 2)).build()
    data = some_states(pair, machine, 0, 6)
    gradient = step(case.build(), machine, data, generator(*pair, phase))
    found = {name: p.grad.clone() for name, p in machine.named_parameters()}
    machine.zero_grad()
    case.loss(machine, gradient, data).backward()
    expected = {name: p.grad for name, p in machine.named_parameters()}
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("method", ["cd", "reconstruction"])
@every_pair
def test_contrastive_loss_of_data_alone(pair, method):
    """``losses.contrastive`` draws the states of the model as ``fit`` does, and has the same gradient."""
    machine = rbm(*pair, sites=(2, 2)).build()
    data = some_states(pair, machine, 0, 6)
    phase = CD(1) if method == "cd" else Reconstruction(1)
    step(phase, machine, data, generator(*pair, "loss"))
    found = {name: p.grad.clone() for name, p in machine.named_parameters()}
    machine.zero_grad()
    hm.losses.contrastive(machine, data, method=method, seed=generator(*pair, "loss")).backward()
    expected = {name: p.grad for name, p in machine.named_parameters()}
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("sampler", SAMPLERS)
@every_pair
def test_stationarity(pair, sampler):
    case = rbm(*pair)
    machine = case.build()
    exact = joint(machine, case.nodes(machine))
    source = generator(*pair, sampler)
    state = SAMPLERS[sampler].run(machine, exact.draw(CHAINS, source), 2, source)
    assert worst_deviation(state, exact) < SIGMAS


@pytest.mark.parametrize("visible", UNITS)
@pytest.mark.fast_cases(3)
def test_convergence_from_afar(visible):
    pair = (visible, "spin")
    case = rbm(*pair)
    machine = case.build()
    exact = joint(machine, case.nodes(machine))
    start = case.nodes(machine)[0][0][-1]
    source = generator(*pair, "convergence")
    kept: list[Tensor] = []
    v = machine.sample(
        CHAINS, start=start[None], sweeps=30, seed=source, callback=lambda step, state: kept.append(state[1])
    )
    assert len(kept) == 30
    before = [start.expand(CHAINS, *start.shape), kept[0]]
    assert worst_deviation(before, exact) > 10 * SIGMAS  # the start is far away
    assert worst_deviation([v, kept[-1]], exact) < SIGMAS


# -- the tests above can fail -----------------------------------------------------------------------------------

MUTATIONS = {
    "mean-for-a-draw": lambda unit, B, g: unit.mean(B).detach(),
    "no-bias": lambda unit, B, g: type(unit).sample(unit, B - unit.bias.detach(), generator=g),
    "no-field": lambda unit, B, g: type(unit).sample(unit, 0 * B, generator=g),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("layer", [0, 1], ids=["visible", "hidden"])
@pytest.mark.parametrize("name", UNITS)
@pytest.mark.fast_cases(10)
def test_a_wrong_conditional_is_found(name, layer, mutation, monkeypatch):
    pair = (name, "binomial") if layer == 0 else ("binomial", name)
    case = rbm(*pair)
    machine = case.build()
    exact = joint(machine, case.nodes(machine))
    unit = machine.layers[layer]
    wrong = MUTATIONS[mutation]
    monkeypatch.setattr(unit, "sample", lambda B, *, generator=None, A=None: wrong(unit, B, generator))
    source = generator(*pair, mutation)
    state = SAMPLERS["sweep"].run(machine, exact.draw(CHAINS, source), 2, source)
    assert worst_deviation(state, exact) > SIGMAS


# -- pairs without a partition function -------------------------------------------------------------------------


@pytest.mark.parametrize("pair", REFUSED, ids=id_of)
def test_refused(pair):
    machine = rbm(*pair, sign_of_weights="positive").build()
    counts = 0 if UNITS[pair[0]].tail == "factorial" else 1
    states = [torch.zeros(1, *unit.shape, dtype=torch.float64) for unit in machine.layers]
    states[counts] += 4000.0
    states[1 - counts] = machine.layers[1 - counts].mode(machine.field(1 - counts, states)).clamp_max(1e6)
    assert machine.energy(*states) < -1e5  # the weight is unbounded
    for question in (
        machine.check_normalizable,
        machine.log_partition,
        machine.distribution,
        lambda: machine.sample(1, sweeps=1, seed=0),
        lambda: hm.fit(machine, torch.ones(2, *machine.visible.shape), epochs=1, batch_size=2, progress=False),
    ):
        with pytest.raises(NotNormalizable, match="no finite partition function"):
            question()


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair in REFUSED], ids=id_of)
def test_allowed_with_negative_weights(pair):
    rbm(*pair).build().check_normalizable()


@pytest.mark.parametrize("hidden", ["gaussian", "double-relu", "relu", "mixed-unbounded"])
@pytest.mark.parametrize("visible", ["gaussian", "double-relu", "relu", "mixed-unbounded"])
def test_spectral_bound(visible, hidden):
    """det of the quadratic form of one visible and one hidden unit changes its sign at w² = γ_v γ_h."""
    machine = rbm(visible, hidden, (1, 1)).build()
    precisions = []
    with torch.no_grad():
        for unit in machine.layers:
            precisions.append(unit.tail().precision[unit.tail().gaussian])
        bound = (precisions[0] * precisions[1]).sqrt().item()
        rows, columns = (torch.nonzero(unit.tail().gaussian)[0] for unit in machine.layers)
        machine.coupling.weight.zero_()
        machine.coupling.weight[rows, columns] = 0.999 * bound
        machine.check_normalizable()
        machine.coupling.weight[rows, columns] = 1.001 * bound
    with pytest.raises(NotNormalizable, match="spectral bound"):
        machine.check_normalizable()
    with pytest.raises(NotNormalizable, match="spectral bound"):
        machine.sample(1, sweeps=1)


# -- copies -----------------------------------------------------------------------------------------------------


@every_pair
def test_copies_are_equal_to_the_bit(pair, tmp_path):
    machine = rbm(*pair).build()
    v = some_states(pair, machine, 0, 5)
    hm.save(machine, tmp_path / "machine.safetensors")
    from_state = build(json.loads(json.dumps(machine.config()))).double()
    from_state.load_state_dict(machine.state_dict())
    copies = {
        "load": hm.load(tmp_path / "machine.safetensors"),
        "state_dict": from_state,
        "deepcopy": copy.deepcopy(machine),
    }
    for how, other in copies.items():
        assert type(other) is hm.RBM, how
        assert other.config() == machine.config(), how
        state = other.state_dict()
        assert list(state) == list(machine.state_dict()), how
        for name, value in machine.state_dict().items():
            assert state[name].dtype == value.dtype, (how, name)
            assert torch.equal(state[name], value), (how, name)
        trained = [p.requires_grad for p in machine.parameters()]
        assert [p.requires_grad for p in other.parameters()] == trained, how
        assert torch.equal(other.free_energy(v), machine.free_energy(v)), how
        with torch.no_grad():
            other.coupling.weight.add_(1.0)
        assert not torch.equal(other.coupling.weight, machine.coupling.weight), how


@every_pair
def test_single_precision_survives_a_file(pair, tmp_path):
    machine = rbm(*pair).build().float()
    v = some_states(pair, machine, 0, 5)
    hm.save(machine, tmp_path / "machine.safetensors")
    other = hm.load(tmp_path / "machine.safetensors")
    assert other.dtype == torch.float32
    assert torch.equal(other.free_energy(v), machine.free_energy(v))
    if set(pair) & set(FINITE):
        assert other.log_partition() == machine.log_partition()
