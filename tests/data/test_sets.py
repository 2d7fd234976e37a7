"""Every available data set is loaded as described by info()."""

import numpy as np
import pytest
import torch

from harmonium import data
from harmonium.data.loading import _entry, _fetcher
from harmonium.errors import InvalidOption

FOUND = {name: data.status(name) != "missing" for name in data.names()}


@pytest.fixture(params=data.names())
def name(request):
    return need(request.param)


def need(name):
    if not FOUND[name]:
        pytest.skip(f"data set {name} not found (set HARMONIUM_DATA)")
    return name


@pytest.mark.slow
def test_every_split_is_as_described_and_all_is_the_splits_in_order(name):
    info = data.info(name)
    parts = []
    for split, size in info.splits.items():
        if info.has_labels:
            values, labels = data.load(name, split=split, labels=True)
            assert labels.shape == (size,) and labels.dtype == torch.int64 and labels.min() >= 0
        else:
            values = data.load(name, split=split)
        shape = (int(np.prod(info.shape)),) if info.is_image else info.shape
        assert values.shape == (size, *shape)
        assert values.dtype == torch.float32
        assert values.isfinite().all()
        assert values.is_contiguous()
        check_support(info, values)
        parts.append(values)
    assert torch.equal(data.load(name, split="all"), torch.cat(parts))


def check_support(info, values):
    if info.kind == "image":
        assert values.min() >= 0 and values.max() <= 1
        assert len(values[0].unique()) > 2
    elif info.kind == "binary":
        assert set(values.unique().tolist()) == {0, 1}
    elif info.kind == "counts":
        assert values.min() == 0 and values.max() > 1 and torch.equal(values, values.round())
    elif info.kind == "one-hot":
        assert set(values.unique().tolist()) == {0, 1} and (values.sum(-1) == 1).all()
        assert len(info.alphabet) == info.shape[-1] and info.alphabet[-1] == "-"
    else:
        assert values.min() < 0 < values.max()


@pytest.mark.slow
def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    images, targets = load_digits(return_X_y=True)
    values, labels = data.load("digits", split="all", labels=True)
    stored = sorted(map(tuple, np.c_[images / 16, targets].tolist()))
    assert sorted(map(tuple, np.c_[values.double(), labels].tolist())) == stored


def test_the_split_of_digits_is_stratified():
    _, train = data.load("digits", labels=True)
    _, test = data.load("digits", split="test", labels=True)
    share = test.bincount() / (test.bincount() + train.bincount())
    assert (share - 0.2).abs().max() < 0.01


def test_flatten_is_row_major():
    flat = data.load("digits")
    images = data.load("digits", flatten=False)
    assert images.shape == (1442, 1, 8, 8)
    assert torch.equal(images.flatten(1), flat)
    assert torch.equal(images[0, 0, 1], flat[0, 8:16])


def test_flatten_leaves_other_data_alone():
    need("spikes-15")
    assert data.load("spikes-15", flatten=False).shape == (32000, 15)


def test_threshold_is_above_half_of_the_range():
    values = data.load("digits")
    assert torch.equal(data.load("digits", binarize="threshold"), (values > 0.5).float())
    assert (values == 0.5).any()  # 8 of 16 is not above half


@pytest.mark.slow
def test_threshold_of_bytes_is_above_127():
    need("mnist")
    levels = (data.load("mnist", split="test") * 255).round()
    binary = data.load("mnist", split="test", binarize="threshold")
    assert torch.equal(binary, (levels > 127).float())
    assert ((levels == 127) & (binary == 0)).any() and ((levels == 128) & (binary == 1)).any()


@pytest.mark.slow
def test_sampled_pixels_have_the_levels_as_probabilities():
    levels = data.load("digits", split="all")
    draws = torch.stack([data.load("digits", split="all", binarize="sample", seed=seed) for seed in range(12)])
    assert set(draws.unique().tolist()) == {0, 1}
    assert (draws.mean(0)[levels == 0] == 0).all() and (draws.mean(0)[levels == 1] == 1).all()
    for level in range(1, 16):
        here = levels == level / 16
        number = int(here.sum()) * len(draws)
        error = (level / 16 * (1 - level / 16) / number) ** 0.5
        assert abs(draws[:, here].mean() - level / 16) < 5 * error


def test_sampling_follows_the_seed():
    first = data.load("digits", binarize="sample", seed=3)
    assert torch.equal(first, data.load("digits", binarize="sample", seed=3))
    assert not torch.equal(first, data.load("digits", binarize="sample", seed=4))


def test_binarize_leaves_binary_data_as_they_are():
    need("spikes-15")
    plain = data.load("spikes-15")
    for how in ("threshold", "sample"):
        assert torch.equal(data.load("spikes-15", binarize=how), plain)


@pytest.mark.slow
def test_threshold_of_counts_is_presence():
    need("kos")
    counts = data.load("kos", split="test")
    assert torch.equal(data.load("kos", split="test", binarize="threshold"), (counts > 0).float())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.float32])
def test_floating_types(dtype):
    values = data.load("digits", dtype=dtype)
    assert values.dtype == dtype
    assert torch.equal(values * 16, (values * 16).round())


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64])
def test_integer_types_for_binary_values(dtype):
    values = data.load("digits", binarize="threshold", dtype=dtype)
    assert values.dtype == dtype
    assert torch.equal(values.float(), data.load("digits", binarize="threshold"))
    values.zero_()  # the caller owns the memory


@pytest.mark.slow
def test_full_precision_levels():
    need("mnist")
    levels = data.load("mnist", split="test", dtype=torch.float64) * 255
    assert (levels - levels.round()).abs().max() < 1e-12


@pytest.mark.slow
def test_a_type_too_small_for_the_counts_is_refused():
    need("kos")
    with pytest.raises(InvalidOption, match=r"values up to \d+, but torch.bool holds at most 1"):
        data.load("kos", dtype=torch.bool)


@pytest.mark.slow
def test_published_facts_of_mnist():
    need("mnist")
    images, labels = data.load("mnist", labels=True)
    assert labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert images.mean().item() == pytest.approx(0.1307, abs=1e-4)


@pytest.mark.slow
def test_published_facts_of_kos():
    need("kos")
    counts = data.load("kos", split="all")
    assert len(counts) == 3430 and (counts > 0).sum() == 353160 and counts.sum() == 467714
    words = data.vocabulary("kos")
    assert len(words) == len(set(words)) == 6906


@pytest.mark.slow
def test_the_newsgroups_vocabulary():
    need("20newsgroups")
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    words = data.vocabulary("20newsgroups")
    totals = data.load("20newsgroups").sum(0).tolist()
    assert len(set(words)) == 2000
    assert not set(words) & ENGLISH_STOP_WORDS and min(map(len, words)) >= 3
    order = sorted(zip(words, totals, strict=True), key=lambda pair: (-pair[1], pair[0]))
    assert [word for word, _ in order] == list(words)
    fetch = _fetcher(_entry("20newsgroups").info)
    text = f" {fetch('20newsgroups-train.tab.gz').decode()} ".replace("\t", " ").replace("\n", " ")
    for i in (0, 1999):
        assert totals[i] == text.replace(" ", "  ").count(f" {words[i]} ")


@pytest.mark.slow
def test_no_sequence_of_the_test_split_was_seen():
    need("protein-ww")
    train, test = (data.load("protein-ww", split=split).argmax(-1) for split in ("train", "test"))
    assert not set(map(tuple, train.tolist())) & set(map(tuple, test.tolist()))


@pytest.mark.slow
def test_the_first_protein_can_be_read_back():
    need("protein-ww")
    info = data.info("protein-ww")
    (fasta,) = (_fetcher(info)(file.name) for file in info.files)
    letters = data.load("protein-ww")[0].argmax(-1)
    assert "".join(info.alphabet[i] for i in letters) == fasta.split(b"\n")[1].decode()


@pytest.mark.slow
def test_people_are_not_divided():
    need("lfw")
    _, train = data.load("lfw", labels=True)
    _, test = data.load("lfw", split="test", labels=True)
    assert not set(train.tolist()) & set(test.tolist())


def test_motion_is_standardized():
    need("mocap")
    values, sequence = data.load("mocap", split="all", labels=True, dtype=torch.float64)
    assert values.mean(0).abs().max() < 1e-10
    assert (values.std(0) - 1).abs().max() < 1e-10
    assert sequence.bincount().tolist() == [438, 260, 3128]


@pytest.mark.parametrize("name", ["cbcl-faces", "olivetti", "frey", "lfw"])
@pytest.mark.fast_cases(1)
def test_faces_stand_upright(name):
    """Left and right halves of a face mirror each other more than its top and bottom do."""
    face = data.load(need(name), flatten=False).mean((0, 1))
    assert (face - face.flip(1)).abs().mean() < 0.7 * (face - face.flip(0)).abs().mean()
