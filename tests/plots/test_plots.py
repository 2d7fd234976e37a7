"""Each plot shows its data, for images, sequences, counts and plain numbers."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import harmonium as hm
from harmonium import plots
from harmonium.plots import style
from harmonium.plots.kernel_images import kernel_tiles
from harmonium.plots.machine import ordered_weights, paired, value_range

HISTORY = [
    {
        "epoch": e,
        "seconds": 0.1 * e,
        "samples_per_second": 9.0,
        "pseudo_likelihood": -1 / e,
        "reconstruction": 1 / e,
        "mine": e,
    }
    for e in range(1, 101)
]


def machine(visible: hm.units.Unit, hidden: int = 5) -> hm.RBM:
    rbm = hm.RBM(visible, hm.units.Bernoulli(hidden))
    rbm.initialize(weights="normal", scale=1.0, seed=0)
    return rbm


CASES = {
    "picture": (hm.units.Bernoulli(12), (1, 3, 4)),
    "color": (hm.units.TruncatedGaussian(27), (3, 3, 3)),
    "binary": (hm.units.Bernoulli(6), None),
    "gaussian": (hm.units.Gaussian(6), None),
    "sequence": (hm.units.Potts((4, 3)), None),
    "counts": (hm.units.Multinomial(6, total=8), None),
    "mixed": (hm.units.Mixed(hm.units.Bernoulli(3), hm.units.Potts((1, 3))), None),
}


@pytest.fixture(params=CASES)
def case(request):
    visible, image = CASES[request.param]
    rbm = machine(visible)
    return rbm, rbm.sample(30, sweeps=3, seed=0), image


@pytest.mark.fast_cases(1)
def test_every_picture_of_every_kind(case, tmp_path):
    rbm, rows, image = case
    before = {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}
    pictures = [
        plots.samples(rbm, rows, image=image, title="samples"),
        plots.receptive_fields(rbm, image=image, title="fields"),
        plots.reconstructions(rbm, rows, image=image, title="round trip"),
        plots.hidden_activity(rbm, rows),
        plots.weight_histogram(rbm),
    ]
    for k, figure in enumerate(pictures):
        assert isinstance(figure, Figure)
        figure.savefig(tmp_path / f"{k}.png")
    assert pictures[0].axes[0].get_title(loc="left") == "samples"
    assert {name: matplotlib.rcParams[name] for name in before} == before, "a picture changed global settings"


@pytest.mark.parametrize(
    "name", ["samples", "receptive_fields", "reconstructions", "hidden_activity", "weight_histogram"]
)
def test_pictures_go_where_they_are_asked_to(name):
    rbm = machine(hm.units.Bernoulli(6))
    rows = rbm.sample(4, sweeps=1, seed=0)
    arguments = (rbm,) if name in ("receptive_fields", "weight_histogram") else (rbm, rows)
    figure = Figure()
    ax = figure.subplots(1, 2)[1]
    assert getattr(plots, name)(*arguments, ax=ax) is figure
    assert ax.has_data() and not figure.axes[0].has_data()


def test_mosaic_has_a_tile_for_each_picture_and_gaps_between():
    images = np.arange(1, 8).reshape(7, 1, 1) * np.ones((7, 4, 4))
    picture = plots.mosaic(images, columns=3, tile=4, gap=2, limits=(0, 7))
    assert picture.shape == (3 * 4 + 2 * 2, 3 * 4 + 2 * 2, 4)
    opaque = picture[..., 3] == 255
    assert opaque.sum() == 7 * 16
    for k in range(7):
        tile = picture[(k // 3) * 6 : (k // 3) * 6 + 4, (k % 3) * 6 : (k % 3) * 6 + 4]
        assert (tile[..., :3] == round(255 * (1 - (k + 1) / 7))).all() and (tile[..., 3] == 255).all()


def test_ink_is_dark_and_light_is_bright():
    black, white = (plots.mosaic(np.ones((1, 2, 2)), limits=(0, 1), ink=ink)[0, 0, 0] for ink in (True, False))
    assert (black, white) == (0, 255)


def test_color_pictures_keep_their_channels():
    red = np.zeros((1, 3, 2, 2))
    red[:, 0] = 1
    assert plots.mosaic(red, limits=(0, 1))[0, 0].tolist() == [255, 0, 0, 255]


def test_zero_is_white_and_signs_are_opposite_colors():
    picture = plots.diverging(np.array([[[-1.0]], [[0.0]], [[1.0]]]), columns=3, tile=1, gap=0)[0]
    blue, white, red = picture[:, :3].astype(int)
    assert white.min() > 240
    assert blue[2] > blue[0] and red[0] > red[2]


@pytest.mark.parametrize("shape", [(3, 4), (2, 2, 3, 3), (0, 3, 3)])
def test_what_is_no_picture_is_refused(shape):
    with pytest.raises(hm.errors.InvalidData, match="expected shape"):
        plots.tiles(np.zeros(shape))


def test_receptive_fields_come_in_order_of_their_norm():
    rbm = machine(hm.units.Bernoulli(4), hidden=3)
    with torch.no_grad():
        rbm.coupling.weight.copy_(torch.tensor([1.0, 3.0, 2.0]).expand(4, 3))
    weights, limit = ordered_weights(rbm, 2)
    assert weights.tolist() == [[3.0] * 4, [2.0] * 4] and limit == pytest.approx(3.0)


def test_receptive_fields_are_symmetric_about_zero():
    figure = plots.receptive_fields(machine(hm.units.Gaussian(5)))
    low, high = figure.axes[0].images[0].get_clim()
    assert low == -high


def test_pairs_alternate_line_by_line():
    above, below = np.arange(7), -np.arange(7)
    assert paired(above, below, 3).tolist() == [0, 1, 2, 0, -1, -2, 3, 4, 5, -3, -4, -5]
    assert paired(above[:2], below[:2], 3).tolist() == [0, 1, 0, -1]


def test_value_ranges_come_from_the_units():
    wild = np.array([-50.0, 50.0])
    assert value_range(hm.units.Bernoulli(2), wild) == (0, 1)
    assert value_range(hm.units.Spin(2), wild) == (-1, 1)
    assert value_range(hm.units.TruncatedGaussian(2, low=-2.0, high=3.0), wild) == (-2, 3)
    low, high = value_range(hm.units.Gaussian(2), wild)
    assert low < -49 and high > 49


def test_sequences_show_frequencies():
    rows = torch.eye(3)[torch.tensor([[0, 1], [0, 2], [0, 1], [0, 1]])]
    figure = plots.samples(machine(hm.units.Potts((2, 3))), rows, letters="ABC")
    shown = figure.axes[0].images[0].get_array()
    assert np.allclose(shown, [[1, 0], [0, 0.75], [0, 0.25]])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["A", "B", "C"]


def test_learning_curves_have_a_labeled_chart_for_each_metric():
    figure = plots.learning_curves(HISTORY)
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title(loc="left") for ax in shown] == ["Pseudo-log-likelihood", "Reconstruction error", "mine"]
    assert shown[0].get_ylabel() == "nats per unit" and shown[0].get_xlabel() == "epoch"
    x, y = shown[1].lines[0].get_data()
    assert np.allclose(y, 1 / x) and len(x) == 100


def test_learning_curves_of_one_epoch_and_of_none():
    assert plots.learning_curves(HISTORY[:1]).axes[0].lines[0].get_marker() == "o"
    with pytest.raises(hm.errors.InvalidData, match="at least one epoch"):
        plots.learning_curves([])


def test_metrics_that_were_measured_now_and_then():
    history = [{"epoch": e} | ({"reconstruction": 1.0} if e % 5 == 0 else {}) for e in range(1, 11)]
    x, _ = plots.learning_curve(history, "reconstruction").axes[0].lines[0].get_data()
    assert list(x) == [5, 10]


def test_hidden_activity_is_sorted():
    rbm = machine(hm.units.Bernoulli(6))
    rows = rbm.sample(50, sweeps=2, seed=0)
    _, y = plots.hidden_activity(rbm, rows).axes[0].lines[0].get_data()
    assert np.allclose(y, sorted(style.as_array(rbm.hidden_mean(rows).mean(0)), reverse=True))


@pytest.mark.slow
def test_weight_histogram_counts_every_weight_of_every_coupling():
    deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(n) for n in (5, 4, 3)])
    deep.initialize(seed=0)
    ax = plots.weight_histogram(deep).axes[0]
    assert sum(bar.get_height() for bar in ax.patches) == 5 * 4 + 4 * 3
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["coupling 1", "coupling 2"]


@pytest.mark.parametrize(("channels", "tiles"), [(1, 6), (3, 6), (4, 24)])
def test_kernels_of_a_convolutional_machine(channels, tiles):
    rbm = hm.machines.convolutional((channels, 6, 6), channels=6, kernel=3)
    rbm.initialize(scale=1.0, seed=0)
    found = kernel_tiles(rbm.coupling)
    assert found.images.shape == (tiles, 3 if channels == 3 else 1, 3, 3)
    norms = rbm.weight.detach().flatten(1).norm(dim=1)
    strongest = rbm.weight.detach()[norms.argmax()].reshape(-1, *found.images.shape[1:]).numpy()
    np.testing.assert_array_equal(found.images[: len(strongest)], strongest)
    figure = plots.receptive_fields(rbm, image=(channels, 6, 6))
    assert isinstance(figure, Figure)
    assert figure.axes[0].images[0].get_array().shape == found.picture().shape


def test_kernels_expect_a_convolution():
    with pytest.raises(hm.errors.InvalidOption, match="expected a convolutional coupling, found Dense"):
        plots.kernels(hm.RBM(3, 2).coupling)
