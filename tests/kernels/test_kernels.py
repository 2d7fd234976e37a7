"""Products and draws in C: against torch, for every set of instructions, and with sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import harmonium as hm
from harmonium import kernels, noise

needs_library = pytest.mark.skipif(kernels.library() is None, reason="the library of kernels was not built")


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the library for small matrices, too."""
    monkeypatch.setattr(kernels, "_FEW_ROWS", 5)
    monkeypatch.setattr(kernels, "_FEW_WEIGHTS", 1)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _states(*shape: int, density: float = 0.3, seed: int = 0, signs: bool = False) -> torch.Tensor:
    ones = (torch.rand(shape, generator=_generator(seed)) < density).float()
    return 2 * ones - 1 if signs else ones


def _whole(*shape: int, seed: int = 1) -> torch.Tensor:
    """Whole numbers, of which float32 sums are exact in any order."""
    return torch.randint(-50, 50, shape, generator=_generator(seed)).float()


@needs_library
@pytest.mark.parametrize(("density", "signs"), [(0.0, False), (0.05, False), (0.5, False), (0.0, True), (0.7, True)])
@pytest.mark.parametrize(("rows", "lower", "upper"), [(16, 64, 64), (37, 131, 97), (1100, 70, 65), (100, 784, 33)])
def test_products_equal_those_of_torch(rows: int, lower: int, upper: int, density: float, signs: bool) -> None:
    x, y = (_states(rows, n, density=density, signs=signs) for n in (lower, upper))
    W = _whole(lower, upper)
    field, back, weight = torch.empty(rows, upper), torch.empty(rows, lower), W.clone()
    assert kernels.up(x, W, field) and kernels.down(y, W, back)
    assert torch.equal(field, x @ W) and torch.equal(back, y @ W.T)
    z = _whole(rows, upper, seed=2)
    x[[0, -1]] = 0.5
    assert kernels.correlate(x, z, weight, 2.0)
    assert torch.equal(weight, W + 2 * x.T @ z)


@needs_library
def test_other_states_are_refused_before_anything_is_written() -> None:
    W, out = _whole(64, 64), torch.full((20, 64), 7.0)
    mixed = _states(20, 64, signs=True)
    mixed[15:, 0] = 0
    for states in (_states(20, 64).mul_(2), _states(20, 64).fill_(torch.nan), _states(20, 64, density=0.9), mixed):
        assert not kernels.up(states, W, out) and not kernels.down(states, W, out)
        assert not kernels.correlate(states, out, W, 1.0)
    for states in (_states(20, 64).double(), _states(64, 20).T, _states(4, 64)):
        assert not kernels.up(states, W, out)
    assert torch.equal(out, torch.full((20, 64), 7.0)) and torch.equal(W, _whole(64, 64))


@needs_library
def test_the_same_bits_for_every_number_of_threads_and_set_of_instructions() -> None:
    code = """
import sys, torch
from harmonium import kernels, noise
torch.set_num_threads(int(sys.argv[1]))
g = torch.Generator().manual_seed(0)
W = torch.rand(300, 256, generator=g) - 0.5
x = (torch.rand(150, 300, generator=g) < 0.4).float()
field, back = torch.empty(150, 256), torch.empty(150, 300)
p = torch.rand(150, 256, generator=g)
h = noise.bernoulli(p, g)
one = noise.categorical(p.view(150, 64, 4), g)
mean, drawn = torch.empty_like(one), torch.empty_like(one)
fields = 9 * p.view(150, 64, 4)
assert kernels.softmax(fields, W[:64, :4].contiguous(), mean)
assert kernels.draw_softmax(fields, W[:64, :4].contiguous(), drawn, g)
signs, spun = 2 * x - 1, torch.empty(150, 256)
assert kernels.up(signs, W, spun)
assert kernels.up(x, W, field) and kernels.down(h, W, back) and kernels.correlate(x, field, W, 0.1)
results = (field, back, W, h, spun, mean * torch.arange(4), (one + 8 * drawn) * torch.arange(4))
print([t.double().sum().item().hex() for t in results])
"""
    results = {
        subprocess.run(
            [sys.executable, "-c", code, threads],
            env={**os.environ, "ATEN_CPU_CAPABILITY": capability},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for capability, threads in [("default", "1"), ("avx2", "1"), ("avx2", "2"), ("avx512", "1"), ("avx512", "3")]
    }
    assert len(results) == 1


@needs_library
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_computes_without_the_threads_of_its_parent() -> None:
    code = """
import os, torch
from harmonium import kernels
torch.set_num_threads(2)
x, W, field = torch.eye(300), torch.rand(300, 256), torch.empty(300, 256)
assert kernels.up(x, W, field)
if os.fork() == 0:  # operations of torch on so many numbers would wait for its threads forever
    again = torch.empty(300, 256)
    os._exit(not (kernels.up(x, W, again) and (again.numpy() == W.numpy()).all()))
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "0\n"


@needs_library
def test_frequencies_of_draws() -> None:
    generator, draws = _generator(5), 2000
    p = torch.rand(3000, generator=generator).clamp(0.02, 0.98)
    counts = sum(noise.bernoulli(p, generator) for _ in range(draws))
    z = (counts - draws * p) / (draws * p * (1 - p)).sqrt()
    assert abs(z.mean()) < 4 / 3000**0.5 and abs(z.std() - 1) < 4 / 6000**0.5
    site = torch.softmax(2 * torch.randn(600, 7, generator=generator), -1)
    counts = sum(noise.categorical(site, generator) for _ in range(draws))
    chi = ((counts - draws * site).square() / (draws * site)).sum(-1)  # 6 degrees of freedom at each site
    assert abs(chi.mean() - 6) < 4 * (12 / 600) ** 0.5


@needs_library
@pytest.mark.parametrize("scale", [1.0, 60.0])
@pytest.mark.parametrize("shape", [(3,), (7, 21), (500, 5), (2, 1500)])
def test_softmax_and_its_draws(shape: tuple[int, ...], scale: float) -> None:
    field, bias = scale * torch.randn(40, *shape, generator=_generator()), torch.randn(shape, generator=_generator(1))
    mean, expected = torch.empty_like(field), torch.softmax((field + bias).double(), -1)
    assert kernels.softmax(field, bias, mean)
    torch.testing.assert_close(mean.double(), expected, rtol=3e-5, atol=1e-30)  # fields of 200 are rounded to 1e-5
    assert kernels.softmax(field, bias, field) and torch.equal(field, mean)  # in place
    mean[0] = torch.nan
    assert kernels.softmax(mean, bias, field) and field[0].isnan().all() and not field[1:].isnan().any()


@needs_library
def test_draws_of_a_softmax_follow_its_probabilities() -> None:
    generator, rows = _generator(2), 100_000
    field, bias = torch.randn(3, 7, generator=generator), torch.randn(3, 7, generator=generator)
    drawn = torch.empty(rows, 3, 7)
    assert kernels.draw_softmax(field.expand(rows, 3, 7).contiguous(), bias, drawn, generator)
    p = torch.softmax(field + bias, -1)
    z = (drawn.sum(0) - rows * p) / (rows * p * (1 - p)).sqrt()
    assert (drawn.sum(-1) == 1).all() and z.abs().max() < 4.5


@needs_library
def test_rare_and_certain_states_are_exact() -> None:
    generator = _generator(3)
    p = torch.tensor([0.0, 1e-5, 1 - 1e-5, 1.0]).repeat(1_000_000, 1)
    counts = noise.bernoulli(p, generator).sum(0, dtype=torch.float64)
    assert counts[0] == 0 and counts[3] == 1_000_000
    assert abs(counts[1] - 10) < 13 and abs(counts[2] - (1_000_000 - 10)) < 13
    rare = torch.tensor([0.0, 1e-5, 1.0, 0.0]).repeat(1_000_000, 1)
    counts = noise.categorical(rare, generator).sum(0)
    assert counts[0] == 0 and counts[3] == 0 and abs(counts[1] - 10) < 13


@needs_library
def test_draws_of_neighbors_and_of_successive_calls_are_independent() -> None:
    generator = _generator(9)
    x = torch.stack([noise.bernoulli(torch.full((4096,), 0.5), generator) for _ in range(400)]) - 0.5
    for a, b in [(x[1:], x[:-1]), (x[:, 1:], x[:, :-1]), (x[:, 16:], x[:, :-16]), (x[:, 2048:], x[:, :2048])]:
        assert abs(4 * (a * b).mean()) < 4.5 / a.numel() ** 0.5


@needs_library
def test_training_with_and_without_the_library_reaches_the_same_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    data = hm.data.load("digits", binarize="threshold")
    found = {}
    for name in ("C", "dense"):
        values = []
        for seed in range(4):
            with monkeypatch.context() as patch:
                if name == "dense":
                    patch.setattr(kernels, "library", lambda: None)
                rbm = hm.RBM(64, 10)
                hm.fit(rbm, data, negative="pcd", epochs=20, seed=seed, progress=False)
            values.append(rbm.log_probability(torch.as_tensor(data).float()).mean())
        found[name] = torch.stack(values)
    difference = found["C"].mean() - found["dense"].mean()
    assert abs(difference) < 4 * ((found["C"].var() + found["dense"].var()) / 4).sqrt()


def test_transformed_tensors_and_gradients_use_torch() -> None:
    coupling = hm.couplings.Dense(64, 64, weight=_whole(64, 64))
    x = _states(32, 20, 64)
    expected = x @ coupling.weight
    assert torch.equal(torch.func.vmap(coupling.up)(x), expected)
    coupling.up(x[0]).sum().backward()
    assert torch.equal(coupling.weight.grad, x[0].sum(0)[:, None].expand(64, 64))


def test_without_the_library_products_are_dense() -> None:
    code = "from harmonium import kernels; print(kernels.described())"
    environment = {**os.environ, "HARMONIUM_KERNELS": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "dense products of torch\n"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("flags", ["", "-mavx2", "-mavx512f -mavx512dq -mavx512bw -mavx512vl"])
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(tmp_path: Path, flags: str, sanitizer: str) -> None:
    program, source = tmp_path / "fuzz", Path(__file__).with_name("fuzz.c")
    checks = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-g", "-O1"]
    subprocess.run(
        [
            "gcc",
            "-std=c11",
            "-ffp-contract=off",
            "-pthread",
            *checks,
            *flags.split(),
            str(source),
            "-o",
            str(program),
            "-lm",
        ],
        check=True,
    )
    if "avx512" in flags and torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("this processor has no AVX-512")
    done = subprocess.run([str(program), os.environ.get("FUZZ_ROUNDS", "60")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
