"""The registry of data sets, and errors of load() for invalid options."""

import dataclasses
import re

import data_page
import pytest
import torch

from harmonium import data, errors

UNITS = {"bernoulli", "gaussian", "truncated-gaussian", "potts", "multinomial"}


def test_names_are_sorted_and_known():
    assert data.names() == sorted(data.names())
    assert {"digits", "mnist", "protein-ww", "mocap"} <= set(data.names())


@pytest.mark.parametrize("name", data.names())
def test_every_description_is_complete(name):
    info = data.info(name)
    assert info.name == name
    assert info.suggested_visible in UNITS
    assert all((info.title, info.license, info.citation, info.source, info.obtain, info.split_rule))
    assert bool(info.files) == bool(info.folder)
    assert {"train", "test"} <= set(info.splits) <= {"train", "validation", "test"}
    for file in info.files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256) and file.size > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.name = "other"


def test_the_documentation_is_up_to_date():
    """``python tools/data_page.py`` writes the page."""
    assert data_page.PAGE.read_text(encoding="utf-8") == data_page.page()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mnsit", {}, "unknown data set 'mnsit': did you mean 'mnist'"),
        ("digits", {"split": "tset"}, "unknown split of data set 'digits' 'tset': did you mean 'test'"),
        ("digits", {"split": "validation"}, "unknown split of data set 'digits' 'validation'"),
        ("digits", {"binarize": "treshold"}, "unknown way to binarize 'treshold': did you mean 'threshold'"),
        ("protein-ww", {"binarize": "threshold"}, "'protein-ww' is one-hot and cannot be binarized"),
        ("mocap", {"binarize": "sample"}, "'mocap' is real and cannot be binarized"),
        ("kos", {"binarize": "sample"}, "'kos' has counts, which are not probabilities"),
        ("kos", {"labels": True}, "data set 'kos' has no labels"),
        (
            "digits",
            {"dtype": torch.int64},
            "dtype: expected a floating-point type for data set 'digits', found torch.int64",
        ),
        ("digits", {"dtype": torch.complex64}, "dtype: expected a real torch.dtype"),
        ("digits", {"dtype": "float32"}, "dtype: expected a real torch.dtype, found 'float32'"),
        ("digits", {"seed": 0.5}, "seed: expected an int, found 0.5"),
    ],
)
def test_options_without_meaning(name, options, message):
    with pytest.raises(errors.InvalidOption, match=re.escape(message)):
        data.load(name, **options)


def test_no_vocabulary():
    with pytest.raises(errors.InvalidOption, match=r"'digits' has no vocabulary.*20newsgroups, kos"):
        data.vocabulary("digits")
