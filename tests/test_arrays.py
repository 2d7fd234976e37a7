"""Data as people have it: the right result or one clear sentence, the same in every function."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import scipy.sparse
import torch

import harmonium as hm
from harmonium import likelihood, meanfield, quality, spectra, tasks
from harmonium.arrays import as_tensor
from harmonium.errors import InvalidData

BITS = (np.random.default_rng(0).random((60, 6)) < 0.4).astype(np.uint8)
EXPECTED = torch.from_numpy(BITS).float()


@pytest.fixture(scope="module")
def rbm():
    machine = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(3))
    machine.initialize(EXPECTED, seed=0)
    return machine


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def inferred() -> torch.Tensor:
    with torch.inference_mode():
        return EXPECTED.clone()


KINDS = {
    "big-endian": lambda: BITS.astype(">f4"),
    "big-endian integers": lambda: BITS.astype(">i2"),
    "negative strides": lambda: BITS[::-1][::-1, ::-1][:, ::-1].astype(np.float64)[::-1][::-1],
    "column-major": lambda: np.asfortranarray(BITS),
    "half": lambda: BITS.astype(np.float16),
    "bfloat16": lambda: EXPECTED.bfloat16(),
    "boolean": lambda: BITS.astype(bool),
    "unsigned": lambda: BITS.astype(np.uint16),
    "long double": lambda: BITS.astype(np.longdouble),
    "read-only": lambda: read_only(BITS),
    "list": lambda: BITS.tolist(),
    "list of tensors": lambda: list(EXPECTED),
    "masked, nothing missing": lambda: np.ma.masked_array(BITS, mask=np.zeros_like(BITS)),
    "table": lambda: pandas.DataFrame(BITS),
    "Int64": lambda: pandas.DataFrame(BITS).astype("Int64"),
    "boolean table": lambda: pandas.DataFrame(BITS.astype(bool)).astype("boolean"),
    "Float32": lambda: pandas.DataFrame(BITS).astype("Float32"),
    "mixed table": lambda: pandas.DataFrame(BITS).astype({0: "Int8", 1: "float16", 2: "boolean"}),
    "Arrow": lambda: pandas.DataFrame(BITS).astype("int64[pyarrow]"),
    "Arrow booleans": lambda: pandas.DataFrame(BITS.astype(bool)).astype("bool[pyarrow]"),
    "csr": lambda: scipy.sparse.csr_matrix(BITS),
    "coo array": lambda: scipy.sparse.coo_array(BITS),
    "sparse tensor": lambda: EXPECTED.to_sparse(),
    "sparse csr tensor": lambda: EXPECTED.to_sparse_csr(),
    "inference tensor": inferred,
    "view of memory": lambda: memoryview(BITS),
}
BAD = {
    "complex": lambda: BITS.astype(complex),
    "complex tensor": lambda: EXPECTED.to(torch.complex64),
    "text": lambda: BITS.astype(str),
    "objects": lambda: [[object()] * 6] * 60,
    "nan": lambda: np.where(np.eye(60, 6) > 0, np.nan, BITS),
    "infinite": lambda: np.where(np.eye(60, 6) > 0, np.inf, BITS),
    "masked": lambda: np.ma.masked_array(BITS, mask=np.eye(60, 6)),
    "missing": lambda: pandas.DataFrame(BITS).astype("Int64").mask(pandas.DataFrame(np.eye(60, 6) > 0)),
    "words": lambda: pandas.DataFrame(BITS.astype(str)),
    "dates": lambda: pandas.DataFrame(BITS.astype("datetime64[s]")),
    "ragged": lambda: [[1, 0], [1]],
    "nothing": lambda: None,
    "quantized": lambda: torch.quantize_per_tensor(EXPECTED, 1.0, 0, torch.quint8),
    "meta": lambda: EXPECTED.to("meta"),
    "nested": lambda: torch.nested.nested_tensor([EXPECTED[:3], EXPECTED[:4]]),
}
FUNCTIONS = {
    "fit": lambda rbm, x: hm.fit(hm.RBM(6, 2), x, epochs=1, batch_size=20, seed=0, progress=False).machine.weight,
    "free_energy": lambda rbm, x: rbm.free_energy(x),
    "estimate": lambda rbm, x: torch.tensor(likelihood.estimate(rbm, betas=3, runs=4, seed=0).log_likelihood(x).value),
    "tap": lambda rbm, x: meanfield.tap(rbm, start=x).magnetizations[0],
    "denoise": lambda rbm, x: tasks.denoise(rbm, x, tasks.BinarySymmetric(0.1)).means,
    "compare": lambda rbm, x: torch.tensor([r.value or 0.0 for r in quality.compare(EXPECTED, x, seed=0).table()]),
    "data_modes": lambda rbm, x: spectra.data_modes(x).variances,
}


SLOW = {"estimate": 1, "compare": 3, "fit": 12}


@pytest.mark.parametrize("kind", KINDS)
def test_conversion(kind):
    assert torch.equal(as_tensor(KINDS[kind]()).float(), EXPECTED)


@pytest.mark.fast_cases(3)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_kind_gives_the_same_result_in_every_function(function, rbm):
    expected = FUNCTIONS[function](rbm, EXPECTED)
    few = SLOW.get(function, len(KINDS))  # these functions share the conversion with free_energy
    for kind, make in list(KINDS.items())[-few:]:
        found = FUNCTIONS[function](rbm, make())
        torch.testing.assert_close(found.double(), expected.double(), rtol=1e-6, atol=1e-6, msg=f"{function}, {kind}")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_refused_is_refused_in_every_function(function, rbm):
    for kind, make in BAD.items():
        if (function, kind) == ("tap", "nothing"):  # start=None is a start
            continue
        with pytest.raises(InvalidData) as caught:
            FUNCTIONS[function](rbm, make())
        assert "expected" in str(caught.value) and "\n" not in str(caught.value), f"{function}, {kind}: {caught.value}"


def test_a_sparse_matrix_becomes_dense_batch_by_batch():
    """A matrix of 10¹² entries, of which few are not zero."""
    place = np.random.default_rng(0).integers(0, 10**6, (2, 1000))
    place[0, :3] = 3, 3, 5
    matrix = scipy.sparse.csr_matrix((np.ones(1000, np.float32), tuple(place)), shape=(10**6, 10**6))
    source = hm.training.batches.SparseSource(matrix)
    assert len(source) == 10**6 and source.shape == (10**6,)
    rows = torch.tensor([3, 5, 3])
    assert torch.equal(source.take(rows, torch.empty(3, 10**6)), torch.from_numpy(matrix[rows.numpy()].toarray()))


def test_the_support_is_checked(rbm):
    outside = EXPECTED.clone()
    outside[4, 2] = 0.5
    with pytest.raises(InvalidData, match=r"v: expected binary values 0 or 1, found 0\.5 at row 4, index \(2,\)"):
        rbm.free_energy(outside)
    with pytest.raises(InvalidData):
        rbm.log_probability(outside)
    assert rbm.free_energy(outside, check=False).shape == (60,)
    assert torch.equal(rbm.free_energy(EXPECTED), rbm.free_energy(EXPECTED, check=False))


def test_masked_values_are_missing_values(rbm):
    masked = np.ma.masked_array(BITS, mask=np.eye(60, 6))
    expected = tasks.impute(rbm, np.where(np.eye(60, 6) > 0, np.nan, BITS))
    assert torch.equal(tasks.impute(rbm, masked).means, expected.means)
