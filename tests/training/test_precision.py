"""Rounded matrix products: the same learning within rounding errors, and no stale values."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium.couplings import Dense, Masked


def _machine(dtype: torch.dtype = torch.float32) -> hm.RBM:
    generator = torch.Generator().manual_seed(3)
    rbm = hm.RBM(hm.units.Bernoulli(40), hm.units.Bernoulli(24))
    rbm.initialize(torch.full((2, 40), 0.5), seed=generator, scale=0.3)
    return rbm.to(dtype=dtype)


def _data() -> torch.Tensor:
    return torch.bernoulli(torch.full((400, 40), 0.4), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", [Dense, Masked])
def test_in_place_forms_round_under_autocast_only(kind: type) -> None:
    options = {"mask": torch.ones(40, 24)} if kind is Masked else {}
    coupling = kind((40,), (24,), weight=torch.randn(40, 24, generator=torch.Generator().manual_seed(0)), **options)
    x, y = torch.rand(50, 40), torch.rand(50, 24)
    before = coupling.up_(x, torch.empty(50, 24)), coupling.down_(y, torch.empty(50, 40)), coupling.correlate(x, y)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = coupling.up_(x, torch.empty(50, 24)), coupling.down_(y, torch.empty(50, 40)), coupling.correlate(x, y)
    for exact, found in zip(before, rounded, strict=True):
        assert found.dtype == torch.float32
        error = (found - exact).abs().max() / exact.abs().max()
        assert 0 < error < 2**-6


def test_new_weights_are_seen_within_one_autocast() -> None:
    coupling = Dense((3,), (2,), weight=torch.zeros(3, 2))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert coupling.up_(torch.ones(1, 3), torch.empty(1, 2)).tolist() == [[0.0, 0.0]]
        coupling.weight.fill_(1.0)
        assert coupling.up_(torch.ones(1, 3), torch.empty(1, 2)).tolist() == [[3.0, 3.0]]
        assert coupling.down_(torch.ones(1, 2), torch.empty(1, 3)).tolist() == [[2.0, 2.0, 2.0]]


@pytest.mark.parametrize("parts", [{}, {"penalties": [hm.L2(1e-3)]}, {"penalties": [hm.L1(1e-3)], "centered": False}])
def test_one_step_is_the_exact_one_within_rounding(parts: dict) -> None:
    steps = {}
    for precision in ("float32", "bfloat16"):
        rbm = _machine()
        start = rbm.coupling.weight.detach().clone()
        # contrastive divergence of one batch from all zero noise but the draws, which are the same in both
        hm.fit(rbm, _data(), negative=hm.CD(1), epochs=1, batch_size=400, **parts, precision=precision,
               initialize="keep", progress=False, seed=0, optimizer=lambda p: torch.optim.SGD(p, lr=1.0))  # fmt: skip
        assert rbm.coupling.weight.dtype == torch.float32
        steps[precision] = rbm.coupling.weight.detach() - start
    exact, rounded = steps["float32"], steps["bfloat16"]
    # a rounded field changes a draw in about one of 2⁹ cases: far less than the noise of 400 rows
    assert 0 < (rounded - exact).norm() / exact.norm() < 0.1


@pytest.mark.slow
def test_training_is_as_good_as_without_rounding() -> None:
    rows, found = _digits(), {}
    for precision in ("float32", "bfloat16"):
        rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(12))
        hm.fit(rbm, rows, epochs=30, seed=1, progress=False, precision=precision)
        found[precision] = rbm.log_probability(rows).mean().item()
    assert found["float32"] > -25
    assert abs(found["float32"] - found["bfloat16"]) < 0.5


def _digits() -> torch.Tensor:
    return hm.data.load("digits", binarize="threshold")[:1000]


@pytest.mark.slow
def test_resumed_to_the_bit(tmp_path) -> None:
    whole, parts = _machine(), _machine()
    options = {"batch_size": 50, "precision": "bfloat16", "initialize": "keep", "progress": False, "seed": 0}
    hm.fit(whole, _data(), epochs=4, **options)

    class Stop(hm.training.Callback):
        def on_epoch(self, progress) -> None:
            progress.stop = progress.epoch == 2

    hm.fit(parts, _data(), epochs=4, run=tmp_path / "run", callbacks=[Stop()], **options)
    hm.fit(parts, _data(), epochs=4, run=tmp_path / "run", resume=True, **options)
    assert torch.equal(whole.coupling.weight, parts.coupling.weight)


def test_refusals() -> None:
    with pytest.raises(hm.errors.InvalidOption, match="unknown precision 'float16'"):
        hm.fit(_machine(), _data(), precision="float16")
    with pytest.raises(hm.errors.InvalidOption, match=r"expects float32 parameters, found torch\.float64"):
        hm.fit(_machine(torch.float64), _data(), precision="bfloat16")
    with pytest.raises(hm.errors.InvalidOption, match="expects a sampled negative phase, found Exact"):
        hm.fit(_machine(), _data(), precision="bfloat16", negative=hm.Exact())


def test_auto_follows_the_device_and_the_method(tmp_path, monkeypatch) -> None:
    """Rounded where all support it; the run records what was used."""
    found = {}
    for fast in (False, True):
        monkeypatch.setattr("harmonium.training.precision.fast_bfloat16", lambda device, fast=fast: fast)
        for negative in ("pcd:1", "exact"):
            folder = tmp_path / f"{fast}-{negative[:3]}"
            hm.fit(
                hm.RBM(6, 2), _data()[:, :6], negative=negative, epochs=1, precision="auto", run=folder, progress=False
            )
            found[fast, negative] = hm.Run(folder).read_config()["training"]["precision"]
    assert found == {
        (False, "pcd:1"): "float32",
        (False, "exact"): "float32",
        (True, "pcd:1"): "bfloat16",
        (True, "exact"): "float32",
    }
