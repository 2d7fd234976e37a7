"""Load a data set by name, and find its description and location."""

from __future__ import annotations

import functools
import os
from typing import Literal, overload

import numpy as np
import torch
from torch import Tensor

from harmonium import noise
from harmonium.data import locate
from harmonium.data.dataset import DatasetInfo, Fetch, Samples
from harmonium.data.registry import REGISTRY, Entry
from harmonium.errors import InvalidOption, unknown
from harmonium.noise import Seed

Binarize = Literal["threshold", "sample"]


@overload
def load(
    name: str,
    *,
    split: str = ...,
    binarize: Binarize | None = ...,
    labels: Literal[False] = ...,
    seed: Seed = ...,
    dtype: torch.dtype = ...,
    flatten: bool = ...,
) -> Tensor: ...


@overload
def load(
    name: str,
    *,
    split: str = ...,
    binarize: Binarize | None = ...,
    labels: Literal[True],
    seed: Seed = ...,
    dtype: torch.dtype = ...,
    flatten: bool = ...,
) -> tuple[Tensor, Tensor]: ...


@overload
def load(
    name: str,
    *,
    split: str = ...,
    binarize: Binarize | None = ...,
    labels: bool,
    seed: Seed = ...,
    dtype: torch.dtype = ...,
    flatten: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...


def load(
    name: str,
    *,
    split: str = "train",
    binarize: Binarize | None = None,
    labels: bool = False,
    seed: Seed = 0,
    dtype: torch.dtype = torch.float32,
    flatten: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """Load a data set by name.

    Args:
        name: name of the data set; see :func:`names`.
        split: "train", "test", "validation" (if the data set has one), or "all" for all splits in this order: train,
            validation, test.
        binarize: "threshold" gives 1 for values above half of the range, and for counts above 0. "sample" draws each
            pixel of an image with its gray level as probability. Binary data are unchanged.
        labels: whether to return the labels as well.
        seed: seed of ``binarize="sample"``.
        dtype: type of the samples.
        flatten: return images as rows of pixels (n, channels·height·width), not as (n, channels, height, width).

    Returns:
        The samples (n, *info(name).shape), images with gray levels in [0, 1]; with ``labels`` also the labels, (n,)
        int64.

    >>> images, digits = load("digits", binarize="threshold", labels=True)
    >>> images.shape, digits.dtype, images.unique().tolist()
    (torch.Size([1442, 64]), torch.int64, [0.0, 1.0])
    """
    entry = _entry(name)
    _check_options(entry.info, split, binarize, labels, seed, dtype)
    samples = _read(entry, split)
    values = _values(entry.info, samples, binarize, seed, dtype)
    if entry.info.is_image and flatten:
        values = values.flatten(1)
    result = _cast(values, dtype, entry.info)
    if samples.labels is None or not labels:
        return result
    return result, torch.from_numpy(samples.labels.astype(np.int64))


def info(name: str) -> DatasetInfo:
    """Description of a data set: kind, shape, splits, license, files and checksums.

    >>> info("mnist").splits
    {'train': 60000, 'test': 10000}
    """
    return _entry(name).info


def names() -> list[str]:
    """Names of all data sets.

    >>> "digits" in names()
    True
    """
    return sorted(REGISTRY)


def status(name: str) -> str:
    """Location of a data set: "embedded", "missing", or the folder of its files (several if they differ).

    >>> status("digits")
    'embedded'
    """
    description = info(name)
    if not description.files:
        return "embedded"
    paths = [locate.find(description, file) for file in description.files]
    found = [str(path.parent) for path in paths if path is not None]
    return os.pathsep.join(dict.fromkeys(found)) if len(found) == len(paths) else "missing"


def vocabulary(name: str) -> tuple[str, ...]:
    """Words of the columns of a data set of word counts."""
    entry = _entry(name)
    if entry.vocabulary is None:
        known = ", ".join(sorted(n for n, e in REGISTRY.items() if e.vocabulary is not None))
        raise InvalidOption(f"data set '{name}' has no vocabulary: expected a data set of word counts ({known})")
    return entry.vocabulary(_fetcher(entry.info))


def _entry(name: str) -> Entry:
    if name not in REGISTRY:
        raise unknown("data set", str(name), REGISTRY)
    return REGISTRY[name]


def _fetcher(info: DatasetInfo) -> Fetch:
    """Function that returns the content of a file by name; each file is read and verified once."""
    files = {file.name: file for file in info.files}
    return functools.cache(lambda name: locate.fetch(info, files[name]))


def _read(entry: Entry, split: str) -> Samples:
    fetch = _fetcher(entry.info)
    parts = [entry.load(fetch, part) for part in (entry.info.splits if split == "all" else [split])]
    labels = [part.labels for part in parts if part.labels is not None]
    return Samples(
        np.concatenate([part.values for part in parts]) if len(parts) > 1 else parts[0].values,
        np.concatenate(labels) if labels else None,
        parts[0].maximum,
    )


def _check_options(
    info: DatasetInfo, split: str, binarize: str | None, labels: bool, seed: Seed, dtype: torch.dtype
) -> None:
    if split != "all" and split not in info.splits:
        raise unknown(f"split of data set '{info.name}'", str(split), [*info.splits, "all"])
    if binarize not in (None, "threshold", "sample"):
        raise unknown("way to binarize", str(binarize), ["threshold", "sample"])
    if binarize is not None and info.kind in ("one-hot", "real"):
        raise InvalidOption(
            f"data set '{info.name}' is {info.kind} and cannot be binarized: expected binarize=None, found '{binarize}'"
        )
    if binarize == "sample" and info.kind == "counts":
        raise InvalidOption(
            f"data set '{info.name}' has counts, which are not probabilities: "
            "expected binarize='threshold' (presence) or None, found 'sample'"
        )
    if labels and not info.has_labels:
        raise InvalidOption(f"data set '{info.name}' has no labels: expected labels=False")
    if not isinstance(dtype, torch.dtype) or dtype.is_complex:
        raise InvalidOption(f"dtype: expected a real torch.dtype, found {dtype!r}")
    if seed is not None and not isinstance(seed, int):
        raise InvalidOption(f"seed: expected an int, found {seed!r}")
    real = info.kind == "real" or (info.kind == "image" and binarize is None)
    if real and not dtype.is_floating_point:
        raise InvalidOption(f"dtype: expected a floating-point type for data set '{info.name}', found {dtype}")


def _values(info: DatasetInfo, samples: Samples, how: str | None, seed: Seed, dtype: torch.dtype) -> Tensor:
    """The values as a tensor of any type, binarized if requested; images otherwise as levels in [0, 1]."""
    values = torch.from_numpy(np.require(samples.values, requirements=["C", "W"]))
    if info.kind == "counts" and how == "threshold":
        return values > 0
    if info.kind != "image":
        return values
    if how == "threshold":
        return values > samples.maximum / 2
    levels = values.to(torch.promote_types(dtype, torch.float32)) / samples.maximum
    if how == "sample":
        return torch.rand(levels.shape, generator=noise.generator(seed)) < levels
    return levels


def _cast(values: Tensor, dtype: torch.dtype, info: DatasetInfo) -> Tensor:
    if not dtype.is_floating_point:
        greatest = int(values.max())
        limit = 1 if dtype is torch.bool else torch.iinfo(dtype).max
        if greatest > limit:
            raise InvalidOption(
                f"data set '{info.name}' has values up to {greatest}, but {dtype} holds at most {limit}"
            )
    return values.to(dtype)
