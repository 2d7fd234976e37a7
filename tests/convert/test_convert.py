"""Machines of other libraries: every reader against the energy of that library's own formula, and round trips."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from scipy.io import savemat
from torch import Tensor

import harmonium as hm
from harmonium.errors import InvalidData, InvalidOption

RNG = np.random.default_rng(0)


def machine(visible: hm.units.Unit, hidden: hm.units.Unit) -> hm.RBM:
    rbm = hm.RBM(visible, hidden).double()
    rbm.initialize(scale=0.7, seed=0)
    source = torch.Generator().manual_seed(1)
    for unit in rbm.layers:
        unit.shift_bias(torch.randn(unit.shape, generator=source, dtype=torch.float64))
    return rbm


def same_distribution(first: Any, second: Any) -> None:
    """Free energies of random states agree."""
    assert first.dtype == second.dtype
    v = first.independent(20, torch.Generator().manual_seed(2))
    torch.testing.assert_close(first.free_energy(v), second.free_energy(v), rtol=1e-12, atol=1e-12)


VISIBLE: list[Callable[[], hm.units.Unit]] = [lambda: hm.units.Bernoulli(5), lambda: hm.units.Potts((3, 4))]


@pytest.mark.parametrize("visible", VISIBLE, ids=["bernoulli", "potts"])
def test_files_of_rbms_go_round(visible: Callable[[], hm.units.Unit], tmp_path: Path) -> None:
    first, second = (machine(visible(), hm.units.Bernoulli(3)) for _ in range(2))
    with torch.no_grad():
        second.weight.mul_(2)
    hm.convert.write_rbms({1: first, 50: second}, tmp_path / "run.h5")
    run = hm.convert.read_rbms_trajectory(tmp_path / "run.h5")
    assert list(run) == [1, 50]
    same_distribution(run[1], first)
    same_distribution(hm.convert.read_rbms(tmp_path / "run.h5"), second)
    same_distribution(hm.convert.read_rbms(tmp_path / "run.h5", update=1), first)


def test_files_of_rbms_have_the_layout_of_that_package(tmp_path: Path) -> None:
    rbm = machine(hm.units.Potts((3, 4)), hm.units.Bernoulli(2))
    hm.convert.write_rbms(rbm, tmp_path / "rbm.h5")
    with h5py.File(tmp_path / "rbm.h5") as file:
        assert file["model_type"][()] == b"PBRBM"
        params = file["update_0/params"]
        weight, vbias, hbias = (params[name][()] for name in ("weight_matrix", "vbias", "hbias"))
        assert file["parallel_chains"].shape == (100, 3)
        assert set(file["hyperparameters"]) == {"batch_size", "gibbs_steps", "learning_rate", "L1", "L2"}
    codes, h = RNG.integers(4, size=(6, 3)), RNG.integers(2, size=(6, 2)).astype(float)
    sites = np.arange(3)
    # the energy as rbms defines it: -Σ_i vbias[i, v_i] - h·hbias - Σ_i weight_matrix[i, v_i]·h
    energy = -vbias[sites, codes].sum(1) - h @ hbias - np.einsum("nik,nk->n", weight[sites, codes], h)
    ours = rbm.energy(np.eye(4)[codes], h)
    np.testing.assert_allclose(ours.detach(), energy, rtol=1e-12)


def julia_file(path: Path, visible: str, hidden: str, par: dict[str, np.ndarray], w: np.ndarray, **more: Any) -> None:
    """Write a file as HDF5.jl does: the dimensions of every array in reverse order."""
    with h5py.File(path, "w") as file:
        file["rbm_hdf5_file_format_version"] = "1.0.0"
        file["rbm_type"] = "StandardizedRBM" if more else "RBM"
        file["visible_type"], file["hidden_type"] = visible, hidden
        for name, array in {"weights": w, "visible_par": par["v"], "hidden_par": par["h"], **more}.items():
            file[name] = np.ascontiguousarray(array.T)


def xrelu_energy(par: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The energy of an xReLU unit with parameters θ, γ, Δ, ξ, from the definitions of the Julia package."""
    theta, gamma, delta, xi = par
    eta = xi / (1 + np.abs(xi))
    plus = gamma / (1 + eta) * x**2 / 2 - (theta + delta / (1 + eta)) * x
    minus = gamma / (1 - eta) * x**2 / 2 - (theta - delta / (1 - eta)) * x
    return np.where(x >= 0, plus, minus)


@pytest.mark.parametrize("standardized", [False, True])
def test_files_of_the_julia_package(standardized: bool, tmp_path: Path) -> None:
    q, sites, units = 4, 3, 2
    w = RNG.normal(size=(q, sites, units))
    par = {"v": RNG.normal(size=(1, q, sites)), "h": np.abs(RNG.normal(size=(4, units))) + 0.5}
    par["h"][2:] -= 1.0
    more = {}
    if standardized:
        more = {"offset_v": RNG.normal(size=(q, sites)), "offset_h": RNG.normal(size=units)}
        more |= {"scale_v": RNG.uniform(0.5, 2, size=(q, sites)), "scale_h": RNG.uniform(0.5, 2, size=units)}
    julia_file(tmp_path / "rbm.h5", "Potts", "xReLU", par, w, **more)
    rbm = hm.convert.read(tmp_path / "rbm.h5")
    assert tuple(rbm.visible.shape) == (sites, q)
    v, h = np.eye(q)[RNG.integers(q, size=(8, sites))], RNG.normal(size=(8, units))
    ours = rbm.energy(v, h).detach().numpy()
    left = (v - more["offset_v"].T) / more["scale_v"].T if standardized else v
    right = (h - more["offset_h"]) / more["scale_h"] if standardized else h
    theirs = -np.einsum("niq,qi->n", v, par["v"][0]) + xrelu_energy(par["h"], h).sum(1)
    theirs -= np.einsum("niq,qij,nj->n", left, w, right)
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], rtol=1e-10, atol=1e-10)  # up to a constant


@pytest.mark.parametrize(
    ("kind", "number", "energy"),
    [
        ("Binary", 1, lambda p, x: -p[0] * x),
        ("Spin", 1, lambda p, x: -p[0] * x),
        ("Gaussian", 2, lambda p, x: np.abs(p[1]) * x**2 / 2 - p[0] * x),
        ("ReLU", 2, lambda p, x: np.abs(p[1]) * x**2 / 2 - p[0] * x),
    ],
)
def test_layers_of_the_julia_package(kind: str, number: int, energy: Any, tmp_path: Path) -> None:
    par = {"v": RNG.normal(size=(1, 3)), "h": RNG.uniform(0.5, 2, size=(number, 2))}
    w = RNG.normal(size=(3, 2))
    julia_file(tmp_path / "rbm.hdf5", "Binary", kind, par, w)
    v, h = RNG.integers(2, size=(6, 3)).astype(float), 2.0 * RNG.integers(2, size=(6, 2)) - (kind == "Spin")
    theirs = -v @ par["v"][0] + energy(par["h"], h).sum(1) - np.einsum("ni,ij,nj->n", v, w, h)
    ours = hm.convert.read_julia(tmp_path / "rbm.hdf5").energy(v, h).detach()
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("modern", [False, True])
def test_matlab_variables_of_hinton_and_salakhutdinov(modern: bool, tmp_path: Path) -> None:
    sizes = {"vishid": (5, 3), "hidpen": (3, 2), "visbiases": (1, 5), "hidbiases": (1, 3), "penbiases": (1, 2)}
    arrays = {name: RNG.normal(size=size) for name, size in sizes.items()}
    path = tmp_path / "dbm.mat"
    if modern:
        with h5py.File(path, "w", userblock_size=512) as file:
            for name, array in arrays.items():
                file[name] = array.T
        with path.open("r+b") as raw:
            raw.write(b"MATLAB 7.3 MAT-file")
    else:
        savemat(path, arrays)
    deep = hm.convert.read_matlab(path)
    v, h, p = (RNG.integers(2, size=(4, n)).astype(float) for n in (5, 3, 2))
    expected = -(v @ arrays["vishid"] * h).sum(1) - (h @ arrays["hidpen"] * p).sum(1)
    expected -= v @ arrays["visbiases"][0] + h @ arrays["hidbiases"][0] + p @ arrays["penbiases"][0]
    np.testing.assert_allclose(deep.energy(v, h, p).detach(), expected, rtol=1e-12)


@pytest.mark.parametrize("compressed", [False, True])
def test_matlab_files_of_other_programs(compressed: bool, tmp_path: Path) -> None:
    """Integers, text, cells and structures beside the wanted variables; every type of stored numbers."""
    arrays: dict[str, Any] = {"hidbiases": np.ones((1, 3), np.float32), "visbiases": np.arange(4.0)[None]}
    others: dict[str, Any] = {"name": "text", "cell": np.array([1, "a"], object), "s": {"a": 1}, "z": np.array([1j])}
    for kind in ("f4", "i1", "u8"):
        weight = np.arange(12).reshape(4, 3).astype(kind)
        savemat(tmp_path / "a.mat", {**others, **arrays, "vishid": weight}, do_compression=compressed)
        rbm = hm.convert.read_matlab(tmp_path / "a.mat")
        assert torch.equal(rbm.couplings[0].weight.double(), torch.tensor(weight.astype(float)))
        assert rbm.layers[0].bias.tolist() == [0, 1, 2, 3]
    savemat(tmp_path / "four.mat", {**arrays, "vishid": np.ones((4, 3))}, format="4")
    assert hm.convert.read_matlab(tmp_path / "four.mat").couplings[0].weight.sum() == 12


def test_an_rbm_in_a_matlab_file(tmp_path: Path) -> None:
    arrays = {"vishid": RNG.normal(size=(4, 2)), "visbiases": RNG.normal(size=(1, 4)), "hidbiases": np.ones((1, 2))}
    savemat(tmp_path / "rbm.mat", arrays)
    rbm = hm.convert.read(tmp_path / "rbm.mat")
    assert isinstance(rbm, hm.RBM)
    np.testing.assert_array_equal(rbm.weight.detach(), arrays["vishid"])
    savemat(tmp_path / "labels.mat", {**arrays, "labpen": np.ones((10, 2))})
    with pytest.raises(InvalidData, match="labpen"):
        hm.convert.read(tmp_path / "labels.mat")
    savemat(tmp_path / "wrong.mat", {**arrays, "vishid": np.ones((2, 4))})
    with pytest.raises(InvalidData, match=r"vishid of shape \(4, 2\).*found \(2, 4\)"):
        hm.convert.read(tmp_path / "wrong.mat")


def potts_lines(h: np.ndarray, J: dict[tuple[int, int, int, int], float], letters: str) -> str:
    lines = [f"J {i} {j} {letters[a]} {letters[b]} {value!r}" for (i, j, a, b), value in J.items()]
    lines += [f"h {i} {letters[a]} {float(h[i, a])!r}" for i in range(len(h)) for a in range(len(letters))]
    return "\n".join(lines) + "\n"


def test_text_files_of_adabmdca(tmp_path: Path) -> None:
    letters, h = "AB-", RNG.normal(size=(3, 3))
    J = {(i, j, a, b): float(RNG.normal()) for i in range(3) for j in range(i) for a in range(3) for b in range(3)}
    (tmp_path / "params.dat").write_text(potts_lines(h, J, letters))
    model = hm.convert.read_adabmdca(tmp_path / "params.dat", letters)
    codes = np.array(np.meshgrid(*[range(3)] * 3, indexing="ij")).reshape(3, -1).T
    expected = [
        -sum(h[i, x[i]] for i in range(3)) - sum(v for (i, j, a, b), v in J.items() if x[i] == a and x[j] == b)
        for x in codes
    ]
    states = torch.eye(3, dtype=torch.float64)[torch.from_numpy(codes)]
    np.testing.assert_allclose(model.energy(states), expected, rtol=1e-12, atol=1e-12)
    free = model.to_rbm().free_energy(states).detach()
    np.testing.assert_allclose(free - free[0], np.array(expected) - expected[0], atol=1e-10)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("J 0 1 A X 0.5", "line 1: expected 'J i j a b value'"),
        ("J 0 1 A 0.5", "line 1"),
        ("h 0 A one", "line 1"),
        ("h 0 A 1.0", "expected 3 fields for each of 1 sites, found 1"),
        ("h 99999999999 A 1.0", "expected 3 fields"),
    ],
)
def test_damaged_text_files(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.dat").write_text(line + "\n")
    with pytest.raises(InvalidData, match=message):
        hm.convert.read_adabmdca(tmp_path / "p.dat", "AB-")


def test_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.neural_network")
    X = RNG.integers(2, size=(20, 6)).astype(float)
    fitted = sklearn.BernoulliRBM(n_components=3, n_iter=2, random_state=0).fit(X)
    rbm = hm.convert.from_sklearn(fitted)
    np.testing.assert_allclose(rbm.hidden_mean(X).detach(), fitted.transform(X), rtol=1e-10)
    np.testing.assert_allclose(hm.convert.to_sklearn(rbm).transform(X), fitted.transform(X), rtol=1e-10)
    with pytest.raises(InvalidData, match="expected a fitted BernoulliRBM, found BernoulliRBM without components_"):
        hm.convert.from_sklearn(sklearn.BernoulliRBM())
    with pytest.raises(InvalidOption, match="expected bernoulli units, found bernoulli and gaussian"):
        hm.convert.to_sklearn(hm.RBM(hm.units.Gaussian(3), hm.units.Bernoulli(2)))


def test_files_of_this_library_hold_any_machine(tmp_path: Path) -> None:
    suffix = ".safetensors"
    rbm = machine(hm.units.Mixed(hm.units.Gaussian(2), hm.units.Potts((2, 3))), hm.units.ReLU(2))
    hm.convert.write(rbm, tmp_path / f"rbm{suffix}")
    same_distribution(hm.convert.read(tmp_path / f"rbm{suffix}"), rbm)
    deep = hm.DeepBoltzmannMachine([4, 3, 2])
    hm.convert.write(deep, tmp_path / f"deep{suffix}")
    assert hm.convert.read(tmp_path / f"deep{suffix}").config() == deep.config()


def test_onnx_computes_the_hidden_means(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    reference = pytest.importorskip("onnx.reference", reason="onnx is not installed")
    rbm = machine(hm.units.Bernoulli(5), hm.units.Spin(3)).float()
    hm.convert.write(rbm, tmp_path / "rbm.onnx")
    v = RNG.integers(2, size=(7, 5)).astype(np.float32)
    (found,) = reference.ReferenceEvaluator(tmp_path / "rbm.onnx").run(None, {"visible": v})
    np.testing.assert_allclose(found, rbm.hidden_mean(v).detach(), atol=1e-6)


@pytest.mark.parametrize("name", ["x.h5", "x.mat", "x.dat", "x.safetensors"])
def test_other_contents_are_rejected(name: str, tmp_path: Path) -> None:
    for content in (b"", b"not such a file", bytes(range(256)) * 4):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(hm.errors.HarmoniumError, match=name):
            hm.convert.read(tmp_path / name)
    with pytest.raises(hm.errors.HarmoniumError, match="missing"):
        hm.convert.read(tmp_path / f"missing-{name}")


def test_what_a_format_cannot_hold_is_said(tmp_path: Path) -> None:
    rbm = hm.RBM(hm.units.Gaussian(3), hm.units.Bernoulli(2))
    with pytest.raises(InvalidOption, match="found gaussian and bernoulli"):
        hm.convert.write(rbm, tmp_path / "rbm.h5")
    with pytest.raises(InvalidOption, match=r"expected a file named \*\.h5"):
        hm.convert.write(rbm, tmp_path / "rbm.pickle")
    assert not list(tmp_path.iterdir())


def test_mixed_signs_of_couplings_are_rejected() -> None:
    J: Tensor = torch.zeros(2, 2, 2, 2)
    J[0, 0, 1, 0] = 1.0
    with pytest.raises(InvalidData, match="J_ij"):
        hm.interactions.PottsModel(torch.zeros(2, 2), J)
