"""Loaders of images: values (n, channels, height, width) in uint8, rows from top to bottom."""

from __future__ import annotations

import numpy as np

from harmonium.data.dataset import Fetch, Samples
from harmonium.data.formats import idx
from harmonium.data.splits import every_fifth, every_fifth_of_class, last_fifth, take
from harmonium.extras import require


def digits(fetch: Fetch, split: str) -> Samples:
    """The 8 × 8 digits of scikit-learn, gray levels 0..16."""
    datasets = require("sklearn.datasets", "the data set digits needs")
    images, labels = datasets.load_digits(return_X_y=True)
    pixels = images.astype(np.uint8).reshape(-1, 1, 8, 8)
    return take(split, every_fifth_of_class(labels), pixels, labels, maximum=16)


def mnist(fetch: Fetch, split: str) -> Samples:
    """MNIST, and Fashion-MNIST, which has files of the same format."""
    prefix = {"train": "train", "test": "t10k"}[split]
    images = idx(fetch(f"{prefix}-images-idx3-ubyte.gz"))
    return Samples(images[:, None], idx(fetch(f"{prefix}-labels-idx1-ubyte.gz")), maximum=255)


def cifar10(fetch: Fetch, split: str) -> Samples:
    """CIFAR-10, stored with one image per row of a PNG file: its 32 × 32 RGB pixels."""
    stem = {"train": "data_batch_1", "test": "test_first2000"}[split]
    pixels = fetch(f"{stem}.png")["pixels"].reshape(-1, 32, 32, 3)
    return Samples(pixels.transpose(0, 3, 1, 2), fetch(f"{stem}_labels.json")["labels"], maximum=255)


def caltech(fetch: Fetch, split: str) -> Samples:
    """Caltech silhouettes, stored in column order; labels start from 1 in the file and from 0 here."""
    arrays = fetch("caltech101_silhouettes_28_split1.mat")
    key = {"train": "train", "validation": "val", "test": "test"}[split]
    silhouettes = arrays[f"{key}_data"].reshape(-1, 1, 28, 28).swapaxes(2, 3)
    return Samples(silhouettes, arrays[f"{key}_labels"].ravel().astype(np.int64) - 1)


def cbcl(fetch: Fetch, split: str) -> Samples:
    """MIT CBCL faces."""
    return Samples(fetch("cbcl_faces.npz")[f"{split}_faces"][:, None], maximum=255)


def olivetti(fetch: Fetch, split: str) -> Samples:
    """Olivetti faces: 40 people with 10 consecutive images each, stored in column order."""
    faces = fetch("olivettifaces.mat")["faces"].T.reshape(400, 1, 64, 64).swapaxes(2, 3)
    people = np.arange(400) // 10
    return take(split, last_fifth(*[10] * 40), faces, people, maximum=255)


def frey(fetch: Fetch, split: str) -> Samples:
    """Frey faces: frames of one video, stored in row order."""
    frames = fetch("frey_rawface.mat")["ff"].T.reshape(-1, 1, 28, 20)
    return take(split, last_fifth(len(frames)), frames, None, maximum=255)


def lfw(fetch: Fetch, split: str) -> Samples:
    """Labeled Faces in the Wild, with names "PERSON_NUMBER"."""
    arrays = fetch("lfw_crop64_rgb_5000.npz")
    person = np.array([name.rpartition("_")[0] for name in arrays["names"]])
    _, labels = np.unique(person, return_inverse=True)
    return take(split, every_fifth(person), arrays["images"].transpose(0, 3, 1, 2), labels, maximum=255)
