"""Couplings: up, down, correlate and squared agree with one matrix."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

import harmonium as hm
from harmonium.couplings import Conv2d, Coupling, Dense, Masked
from harmonium.errors import HarmoniumError, InvalidOption
from harmonium.testing import check_coupling

F64 = torch.float64


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(seed), dtype=F64)


def conv(lower: tuple[int, int, int], channels: int, kernel: int, stride: int, padding: int, **more: int) -> Conv2d:
    settings = {"kernel": kernel, "stride": stride, "padding": padding, **more}
    upper = Conv2d.output_shape(lower, channels, **settings)
    return Conv2d(lower, upper, **settings, weight=random(channels, lower[0], kernel, kernel))


def masked() -> Masked:
    return Masked((2, 3), (4,), random(6, 4), mask=random(6, 4, seed=1) > 0)


CASES = {
    "dense": lambda: Dense((5,), (3,), random(5, 3)),
    "dense-shaped": lambda: Dense((2, 3), (4, 2), random(6, 8)),
    "masked": masked,
    "masked-degree": lambda: Masked(6, 4, random(6, 4), degree=2, seed=3),
    "conv2d": lambda: conv((1, 4, 4), 2, 3, 1, 0),
    "conv2d-stride": lambda: conv((2, 7, 5), 3, 3, 2, 0),
    "conv2d-lost-rows": lambda: conv((1, 8, 7), 2, 3, 3, 0, skip_pixels=True),
    "conv2d-pool": lambda: conv((2, 5, 7), 3, 2, 1, 0, pool=2),
    "conv2d-pool-stride": lambda: conv((1, 13, 7), 2, 3, 2, 0, pool=3),
    "conv2d-padding": lambda: conv((2, 5, 4), 2, 3, 2, 1),
    "conv2d-padding-beyond-kernel": lambda: conv((1, 3, 5), 1, 2, 2, 2),
    "conv2d-one": lambda: conv((3, 3, 2), 2, 1, 1, 0),
    "conv2d-whole": lambda: conv((2, 3, 3), 4, 3, 1, 0),
}

every_coupling = pytest.mark.parametrize("name", CASES)


def batch(coupling: Coupling, n: int = 5) -> tuple[Tensor, Tensor]:
    return random(n, *coupling.lower, seed=10), random(n, *coupling.upper, seed=11)


def inner(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum()


@every_coupling
def test_conformance(name):
    """up, down, correlate, squared, with_weight, in-place forms, initialize, configuration and files."""
    check_coupling(CASES[name]())


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    channels=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 4),
    padding=st.integers(0, 3),
)
def test_any_convolution(channels, size, kernel, stride, padding):
    lower = (channels[0], *size)
    if min(size) + 2 * padding < kernel:
        with pytest.raises(InvalidOption, match="does not fit"):
            Conv2d.output_shape(lower, channels[1], kernel, stride, padding)
        return
    coupling = conv(lower, channels[1], kernel, stride, padding, skip_pixels=True)
    check_coupling(coupling)
    unseen = (conv(lower, channels[1], kernel, stride, padding, skip_pixels=True).squared().matrix() == 0).all(1)
    try:
        Conv2d.output_shape(lower, channels[1], kernel, stride, padding)
    except InvalidOption as error:
        assert unseen.any()
        assert "leave out" in str(error)
    else:
        assert not unseen.any()


def test_pooling_blocks() -> None:
    """Block (i, j) of a map holds the 2×2 units at (2i, 2j), row by row."""
    plain, pooled = conv((1, 5, 7), 2, 2, 1, 0), conv((1, 5, 7), 2, 2, 1, 0, pool=2)
    x = random(3, 1, 5, 7, seed=3)
    maps, blocks = plain.up(x), pooled.up(x)
    assert blocks.shape == (3, 2, 2, 3, 4)
    torch.testing.assert_close(blocks[:, :, 1, 2], maps[:, :, 2:4, 4:6].flatten(2))


def test_files_of_couplings_that_skip_pixels() -> None:
    """Earlier versions allowed them."""
    config = {"coupling": "conv2d", "lower": [1, 8, 7], "upper": [2, 2, 2], "kernel": 3, "stride": 3, "padding": 0}
    old = Coupling.from_config(config)
    assert old.config() == {**config, "skip_pixels": True}
    assert Coupling.from_config(old.config()).upper == (2, 2, 2)


@every_coupling
def test_with_weight(name):
    coupling = CASES[name]()
    before = coupling.weight.detach().clone()
    graph = (2.0 * coupling.weight).requires_grad_()
    other = coupling.with_weight(graph)
    torch.testing.assert_close(other.matrix(), 2 * coupling.matrix())
    x, y = batch(coupling)
    (found,) = torch.autograd.grad(inner(other.up(x), y), coupling.weight)
    torch.testing.assert_close(found, 2 * coupling.correlate(x, y))
    assert list(other.parameters()) == []  # a tensor of a graph is not a parameter
    assert torch.equal(coupling.weight, before)
    assert [name for name, _ in coupling.named_parameters()] == ["weight"]


@every_coupling
def test_config(name):
    coupling = CASES[name]()
    other = Coupling.from_config(json.loads(json.dumps(coupling.config()))).double()
    assert type(other) is type(coupling)
    assert other.config() == coupling.config()
    assert not other.weight.any()
    other.load_state_dict(coupling.state_dict())
    assert torch.equal(other.matrix(), coupling.matrix())
    assert torch.equal(copy.deepcopy(coupling).matrix(), coupling.matrix())


@every_coupling
def test_initialize(name):
    coupling = CASES[name]()
    allowed = coupling.matrix() != 0
    for kind in ("normal", "sign"):
        coupling.initialize(0.25, kind, Generator().manual_seed(5))
        first = coupling.weight.detach().clone()
        assert first.any()
        assert not coupling.matrix()[~allowed].any()
        coupling.initialize(0.25, kind, Generator().manual_seed(5))
        assert torch.equal(coupling.weight, first)
    used = coupling.weight[coupling.weight != 0]
    assert bool((used.abs() == 0.25).all())
    with pytest.raises(InvalidOption, match="did you mean 'normal'"):
        coupling.initialize(0.1, "norml")


def test_initial_scale():
    coupling = Dense(300, 200)
    coupling.initialize(0.3, "normal", Generator().manual_seed(0))
    n = coupling.weight.numel()
    assert abs(coupling.weight.mean().item()) < 4.5 * 0.3 / n**0.5
    assert abs(coupling.weight.std().item() / 0.3 - 1) < 4.5 / (2 * n) ** 0.5


# -- masks ------------------------------------------------------------------------------------------------------


def test_random_mask():
    first, same, other = (Masked(20, 6, degree=5, seed=seed).mask for seed in (1, 1, 2))
    assert first.sum(0).tolist() == [5.0] * 6
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_weights_outside_the_mask_are_dropped():
    coupling = masked()
    assert not coupling.weight[coupling.mask == 0].any()
    assert coupling.weight[coupling.mask == 1].all()
    torch.testing.assert_close(coupling.weight, coupling.matrix())


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, centered=True),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_masked_stays_masked_under_autograd(optimizer):
    rbm = hm.RBM(hm.units.Bernoulli((2, 3)).double(), hm.units.Bernoulli(4).double(), masked())
    data = (random(20, 2, 3) > 0).double()
    steps = OPTIMIZERS[optimizer](rbm.parameters())
    outside = rbm.coupling.mask == 0
    before = rbm.coupling.weight.detach().clone()
    for _ in range(5):
        steps.zero_grad()
        hm.losses.contrastive(rbm, data, 1 - data).backward()
        steps.step()
    assert not rbm.coupling.weight[outside].any()
    assert (rbm.coupling.weight != before)[~outside].all()


@pytest.mark.parametrize("negative", [hm.CD(1), hm.PCD(1), hm.Exact()], ids=["cd", "pcd", "exact"])
def test_masked_stays_masked_under_fit(negative):
    rbm = hm.RBM(hm.units.Bernoulli((2, 3)), hm.units.Bernoulli(4), masked().float())
    data = random(40, 2, 3) > 0
    outside = rbm.coupling.mask == 0
    before = rbm.coupling.weight.detach().clone()
    hm.fit(
        rbm,
        data,
        negative=negative,
        epochs=3,
        batch_size=10,
        penalties=[hm.L1(1e-3), hm.L2(1e-3), hm.L1Squared(1e-3)],
        progress=False,
    )
    assert not rbm.coupling.weight[outside].any()
    assert (rbm.coupling.weight != before)[~outside].all()


# -- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dense(3, 2, torch.zeros(2, 3)), r"weight: expected shape \(3, 2\), found \(2, 3\)"),
        (lambda: Dense(1, 1, torch.full((1, 1), torch.nan)), "weight: expected finite"),
        (lambda: Masked(3, 2, mask=torch.ones(2, 2)), r"mask: expected shape \(3, 2\), found \(2, 2\)"),
        (lambda: Masked(3, 2, degree=4), "degree: expected 1 to 3 .* found 4"),
        (lambda: Masked(3, 2, degree=0), "degree: expected 1 to 3 .* found 0"),
        (lambda: Conv2d((1, 4, 4), (2, 2, 2), kernel=2), r"upper layer of shape \(2, 3, 3\), found \(2, 2, 2\)"),
        (lambda: Conv2d((1, 4, 4), (2, 3, 3), kernel=2, weight=torch.zeros(2, 2)), "weight: expected shape"),
        (lambda: Conv2d((1, 4, 4), (2, 9), kernel=2), "upper layer"),
        (lambda: Conv2d((4, 4), (2, 3, 3), kernel=2), "lower layer"),
        (lambda: Conv2d((1, 4, 4), (2, 3, 3), kernel=2, stride=0), "stride"),
        (lambda: Conv2d((1, 4, 4), (2, 1, 1), kernel=2, padding=-1), "padding"),
        (lambda: Conv2d((1, 4, 4), (2, 1, 1), kernel=0), "kernel"),
        (lambda: Conv2d((1, 4, 4), (2, 1, 1), kernel=5), "does not fit"),
        (
            lambda: Conv2d((1, 28, 28), (8, 12, 12), kernel=5, stride=2),
            "28×28 pixels, found 1 rows and 1 columns that kernel=5, stride=2, padding=0 leave out; "
            "use padding=1 or kernel=6",
        ),
        (lambda: Conv2d((1, 9, 9), (8, 3, 3), kernel=2, stride=3), "leave out; use kernel=3"),
        (lambda: Conv2d.output_shape((1, 28, 28), 8, 4, 2, pool=2), "multiples of 2, found maps of 13×13"),
        (lambda: Conv2d((1, 5, 5), (2, 2, 2), kernel=2, pool=2), r"upper layer of shape \(2, 2, 2, 4\)"),
        (lambda: Conv2d((1, 5, 5), (2, 2, 2, 4), kernel=2, pool=0), "pool"),
        (lambda: Coupling.from_config({"coupling": "dens", "lower": [1], "upper": [1]}), "did you mean 'dense'"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidOption, match=message) as caught:
        make()
    assert isinstance(caught.value, HarmoniumError)


def test_whole_numbers_become_floats():
    assert Dense(2, 1, torch.tensor([[1], [2]])).weight.dtype == torch.get_default_dtype()


# -- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["normal", "sign"])
@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -1.0, -1e-9, "big", None])
def test_scale_that_is_refused(kind: str, scale: object) -> None:
    coupling = Dense(3, 2, random(3, 2))
    with pytest.raises(InvalidOption, match="scale: expected a finite number of at least 0"):
        coupling.initialize(scale, kind)  # type: ignore[arg-type]
    assert torch.equal(coupling.weight, random(3, 2))


def test_scale_of_zero_is_allowed() -> None:
    coupling = Dense(3, 2, random(3, 2))
    coupling.initialize(0.0)
    assert not coupling.weight.any()


@pytest.mark.parametrize("name", [name for name in CASES if "padding" not in name])
def test_fan_in_counts_the_connections(name: str) -> None:
    """The mean number of lower entries coupled to an upper entry (a kernel may include padding)."""
    coupling = CASES[name]()
    coupling.initialize(1.0, "sign", Generator().manual_seed(0))
    connections = (coupling.matrix() != 0).sum().item()
    assert coupling.fan_in == connections / coupling.upper.numel()


def test_fan_in_of_a_padded_kernel_and_of_an_empty_mask() -> None:
    assert conv((2, 5, 4), 2, 3, 2, 1).fan_in == 2 * 3 * 3
    assert Masked(4, 3, mask=torch.zeros(4, 3)).fan_in == 1


def test_sizes_of_numpy() -> None:
    assert Dense(np.int64(2), 3).lower == (2,)
    assert Masked(4, np.int32(3), degree=np.int64(2), seed=np.int64(1)).fan_in == 2
    three = np.int64(3)
    coupling = Conv2d((np.int64(1), 5, 5), (2, three, 3), kernel=three, stride=np.int8(1))
    assert json.loads(json.dumps(coupling.config()))["kernel"] == 3
    assert Conv2d.output_shape((1, 5, 5), channels=2, kernel=three) == (2, 3, 3)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Dense(2.0, 3),
        lambda: Dense((2, 1.5), 3),
        lambda: Dense("2", 3),
        lambda: Masked(4, 3, degree=1.5),
        lambda: Conv2d((1, 5, 5), (2, 3, 3), kernel=3.0),
        lambda: Conv2d((1, 5, 5), (2, 3, 3), kernel=3, stride=1.0),
        lambda: Conv2d((1, 5.0, 5), (2, 3, 3), kernel=3),
        lambda: Conv2d.output_shape((1, 5, 5), channels=2, kernel=3.0),
    ],
)
def test_sizes_that_are_no_whole_numbers(build) -> None:
    with pytest.raises(InvalidOption, match=r"expected a (whole number|number of units or a tuple of sizes), found"):
        build()


@pytest.mark.parametrize("shape", [0, -1, (), (2, 0)])
def test_sizes_that_are_not_positive(shape) -> None:
    with pytest.raises(InvalidOption, match="positive sizes"):
        Dense(shape, 3)


def test_seed_of_a_mask_is_checked() -> None:
    with pytest.raises(InvalidOption, match="seed"):
        Masked(4, 3, degree=2, seed=-1)
