"""The rows of a run: a named data set or a file, binarized, encoded and split according to the configuration."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from .. import data, paths
from ..data.documents import holds_documents
from ..data.rating_files import holds_ratings
from ..data.ratings import RatingTable, parse_scale
from ..data.sequence_files import extension, holds_sequences, text_lines
from ..errors import DataNotFound, InvalidData, InvalidOption, RunError, unknown
from ..noise import Purpose
from ..options import DataOptions, TrainingOptions
from ..training.batches import (
    ArraySource,
    DatasetSource,
    Labeled,
    Redrawn,
    Source,
    TensorSource,
    Weighted,
    as_labels,
)
from ..training.incomplete import Incomplete
from ..training.specs import HYBRID, default_negative
from ..training.state import stream
from ..units.support import OneHot
from . import config as schema
from . import specs, tables
from .specs import UnitSpec

_CHUNK = 2**24  # values processed at once


@dataclass
class Rows:
    """Training rows, held-out rows, the visible layer that fits them, and the image shape of a row.

    With labels, the last part of the visible layer is the label, and the image is that of the other parts. Sequences
    also have letters, documents have words; both have names (of the training rows, if known) and notes on what was
    changed while reading. Ratings also have the table of the training ratings, and a table of those that are held out.
    Tables of columns of several kinds have their encoder.
    """

    train: Source
    held_out: Source | None
    visible: list[UnitSpec]
    image: tuple[int, int, int] | None
    title: str
    config: DataOptions
    letters: str | None = None
    names: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    table: data.TableEncoder | None = None
    ratings: RatingTable | None = None
    held_out_ratings: RatingTable | None = None
    read_words: Sequence[str] | None = None

    @cached_property
    def words(self) -> Sequence[str] | None:
        """The word of each visible unit if the rows are documents."""
        named = not schema.is_path(self.config.source) and self.config.binarize in (None, "none")
        if self.read_words is None and named and data.info(self.config.source).kind == "counts":
            return data.vocabulary(self.config.source)
        return self.read_words

    @cached_property
    def weights(self) -> Tensor | None:
        """Similarity weights of the training rows, (n,), if the configuration asks for them."""
        share = self.config.similarity
        return None if share is None else data.similarity_weights(self.one_hot(), share)

    @property
    def weighted(self) -> Source:
        """The training rows, drawn in proportion to their weights if they have weights."""
        return self.train if self.weights is None else Weighted(self.train, self.weights)

    @property
    def weighted_held_out(self) -> Source | None:
        """The held-out rows, weighted like the training rows, so that the two can be compared.

        Their weights count similar sequences in both sets: the held-out set alone is smaller and has fewer.
        """
        share = self.config.similarity
        if share is None or self.held_out is None:
            return self.held_out
        both = torch.cat([self.one_hot(), _one_hot_rows(self.held_out)])
        return Weighted(self.held_out, data.similarity_weights(both, share)[len(self.train) :])

    def one_hot(self) -> Tensor:
        """All training rows of one-hot units, (n, sites, letters) in uint8."""
        return _one_hot_rows(self.train)

    def name(self, row: int) -> str:
        """The name of a training row; its number, counted from 1, if it has none."""
        return str(row + 1) if self.names is None else self.names[row]


def _one_hot_rows(rows: Source) -> Tensor:
    out = torch.empty(len(rows), *rows.shape, dtype=torch.uint8)
    return rows.take(torch.arange(len(rows)), out)


class Subset(Source):
    """Some rows of a source, selected by index."""

    def __init__(self, whole: Source, index: Tensor) -> None:
        super().__init__(index, whole.shape)
        self._whole, self.index = whole, index

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        return self._whole.take(self.index[index.to(self.index.device)], out, generator)


def load(config: schema.Config) -> Rows:
    """Load the rows that the configuration describes, and fill in the data options that it leaves open."""
    if not config.data.source:
        raise InvalidOption(
            "data: expected the name of a data set (see 'harmonium data list') or a file, found no data"
        )
    rows = _from_file(config) if schema.is_path(config.data.source) else _by_name(config)
    _check_similarity(rows)
    return rows


def load_test(config: schema.Config, rows: Rows) -> tuple[str, Source | None]:
    """Load rows not used in training, and their name: the test split of the data set, or the held-out rows."""
    if schema.is_path(config.data.source):
        return "held out", rows.held_out
    splits = data.info(config.data.source).splits
    if "test" in splits and config.data.split not in ("test", "all"):
        features, classes = _without_label(rows.visible, config)
        return "test", _named_rows(config, "test", config.data.binarize, features, classes)
    return "held out", rows.held_out


# -- data sets by name ------------------------------------------------------------------------------------------


def _by_name(config: schema.Config) -> Rows:
    chosen = config.data
    info = data.info(chosen.source)
    for name in ("alphabet", "vocabulary", "stop_words"):
        if getattr(chosen, name) is not None:
            raise InvalidOption(
                f"{name}: expected none for the data set '{info.name}', found '{getattr(chosen, name)}'"
            )
    split = chosen.split or "train"
    image = info.shape if info.is_image else None
    visible, classes = _without_label(specs.parse_layer(config.machine.visible or info.suggested_visible), config)
    visible = _as_image(visible, image, config)
    binary = all(spec.name == "bernoulli" for spec in visible)
    binarize = _how(chosen.binarize)
    if chosen.binarize is None and binary and info.kind == "image":
        binarize = "threshold"
    train = whole = _named_rows(config, split, binarize, visible, classes, training=True)
    held_out: Source | None = None
    validation = chosen.validation
    if validation is None:
        others = [s for s in ("validation", "test") if s in info.splits]
        validation = others[0] if split == "train" and others else "none"
    share = _share(validation)
    if share is not None:
        train, held_out = _hold_out(train, share, config.training.seed)
    elif validation != "none":
        if validation not in info.splits:
            raise unknown(f"validation split of data set '{info.name}'", str(validation), [*info.splits, "none"])
        classes = whole.classes if isinstance(whole, Labeled) else None
        held_out = _named_rows(config, str(validation), binarize, visible, classes)
    if chosen.rows is not None and chosen.rows != len(train):
        raise RunError(f"data: expected the {chosen.rows} rows of the run, found {len(train)} in '{info.name}'")
    resolved = replace(chosen, binarize=binarize or "none", split=split, validation=validation, rows=len(train))
    return Rows(train, held_out, _shaped(visible, whole), image, info.title, resolved, info.alphabet)  # type: ignore[arg-type]


def _named_rows(
    config: schema.Config,
    split: str,
    binarize: str | None,
    visible: list[UnitSpec],
    classes: int | None = None,
    *,
    training: bool = False,
) -> Source:
    """Load the rows of a split. Only training redraws binary values each epoch; elsewhere they are drawn once."""
    kind = specs.dtype(config.machine.dtype)
    how: Any = _how(binarize)
    redrawn = how == "redraw" and training
    if how == "redraw":
        how = None if training else "sample"
    options: dict[str, Any] = {"split": split, "binarize": how, "seed": config.training.seed, "dtype": kind}
    labels: Tensor | None = None
    if config.data.labels:
        values, labels = data.load(config.data.source, labels=True, **options)
    else:
        values = data.load(config.data.source, **options)
    if data.info(config.data.source).is_image:
        values = _with_levels(values, visible)
    values = _reshaped(values, visible)
    found = Redrawn(values) if redrawn else TensorSource(values.contiguous(), tuple(values.shape[1:]))
    return found if labels is None else Labeled(found, labels, classes)


def _with_levels(values: Tensor, visible: list[UnitSpec]) -> Tensor:
    """Gray values from 0 to 1 as the integers 0 … N of units with N levels; unchanged for other units."""
    levels = visible[0].options.get("levels", visible[0].options.get("trials")) if len(visible) == 1 else None
    return values if levels is None else (values * levels).round()


def _how(binarize: str | None) -> str | None:
    return None if binarize in (None, "none") else binarize


# -- files ------------------------------------------------------------------------------------------------------


def _from_file(config: schema.Config) -> Rows:
    chosen = config.data
    path = paths.resolved(chosen.source)
    if chosen.split is not None:
        raise InvalidOption(
            f"split: expected none for the file {path.name}; splits belong to data sets by name. "
            "Use --validation 0.1 to hold out rows."
        )
    if holds_ratings(path):
        return _rated(config, path)
    if chosen.ratings is not None:
        raise InvalidOption(f"ratings: expected none for {path.name}, which has no ratings, found '{chosen.ratings}'")
    frame = tables.frame_of(path, config)
    if frame is not None:
        return _from_table(frame, path, config)
    sequences, documents = _sequences(path, chosen), _documents(path, config)
    if documents is not None:
        array: Tensor | np.ndarray = documents.counts
    else:
        array = data.read(path) if sequences is None else sequences.rows
    size, digest = _identity(path, chosen)
    if array.ndim == 1:
        array = array[:, None]
    _check_finite(array, path)
    labels: Tensor | None = None
    if chosen.labels:
        array, labels = _labels_of(array, path)
    binarize = _how(chosen.binarize)
    if binarize is not None:
        array = _binarized(array, binarize, config.training.seed, path)
    redrawn = binarize == "redraw"
    classes: int | None = None
    if config.machine.visible or redrawn or sequences is not None or documents is not None:
        usual = "bernoulli" if redrawn else "multinomial" if sequences is None else "potts"
        visible, classes = _without_label(specs.parse_layer(config.machine.visible or usual), config)
    else:
        visible = _inferred(array, path)
    picture = _picture(tuple(array.shape[1:]), chosen.image) if sequences is None else None
    visible = _as_image(visible, picture, config)
    whole: Source = Redrawn(_reshaped(array, visible)) if redrawn else _fitted(array, visible, path)
    whole = whole if labels is None else Labeled(whole, labels, classes)
    train: Source = whole
    held_out = None
    validation = "none" if chosen.validation is None else chosen.validation
    share = _share(validation)
    if share is not None:
        train, held_out = _hold_out(whole, share, config.training.seed)
    elif validation != "none":
        raise _no_split(validation)
    resolved = replace(
        chosen,
        source=str(path),
        binarize=binarize or "none",
        validation=validation,
        rows=len(whole),
        bytes=size,
        sha256=digest,
        alphabet=None if sequences is None else sequences.alphabet,
    )
    rows = Rows(train, held_out, _shaped(visible, whole), picture, path.name, resolved)
    if sequences is not None:
        kept = train.index.tolist() if isinstance(train, Subset) else range(len(train))
        rows.names = [sequences.names[k] for k in kept]
        rows.letters, rows.notes = sequences.alphabet, sequences.notes
    if documents is not None:
        kept = train.index.tolist() if isinstance(train, Subset) else range(len(train))
        rows.names = [documents.names[k] for k in kept]
        rows.read_words, rows.notes = documents.words, documents.notes
    return rows


def _from_table(frame: Any, path: Path, config: schema.Config) -> Rows:
    """Return the rows of a table. Means and standard deviations of its columns are those of the training rows."""
    chosen = config.data
    _identity(path, chosen)  # another file than that of the run is reported before its contents
    validation = "none" if chosen.validation is None else chosen.validation
    share = _share(validation)
    if share is None and validation != "none":
        raise _no_split(validation)
    whole = torch.arange(len(frame))
    train, held_out = (whole, None) if share is None else _halves(len(frame), share, config.training.seed)
    encoder = data.TableEncoder.fit(frame, kinds=tables.kinds_of(chosen.columns), rows=train.numpy())
    visible = specs.of_layer(encoder.layer())
    written = "+".join(map(str, visible))
    if config.machine.visible not in (None, written):
        raise InvalidOption(f"visible: expected none for the table {path.name}, found '{config.machine.visible}'")
    encoded = encoder.encode(frame).to(specs.dtype(config.machine.dtype))
    columns = [f"{name}={kind}" for name, kind in encoder.kinds.items()]
    resolved = _resolved(path, chosen, validation, len(frame), columns=columns)
    rows, held = (None if index is None else _cells(encoded[index]) for index in (train, held_out))
    assert rows is not None
    return Rows(rows, held, visible, None, path.name, resolved, table=encoder)


def _cells(encoded: Tensor) -> Source:
    return Incomplete(encoded) if bool(torch.isnan(encoded).any()) else TensorSource(encoded, tuple(encoded.shape[1:]))


def _labels_of(array: Tensor | np.ndarray, path: Path) -> tuple[Tensor | np.ndarray, Tensor]:
    """Split the rows of a file into features and the label, which is the last column."""
    if array.ndim != 2 or array.shape[1] < 2:
        raise InvalidOption(
            f"labels: expected rows of features with the label in the last column of {path.name}, "
            f"found rows of shape {tuple(array.shape[1:])}"
        )
    try:
        labels = as_labels(_tensor(array[:, -1]))
        as_labels(labels, classes=max(1, int(labels.max()) + 1))  # none is negative
    except InvalidData as error:
        raise InvalidData(f"{path}, last column: {error}") from None
    return array[:, :-1], labels


def _no_split(validation: str | float | None) -> InvalidOption:
    return InvalidOption(
        f"validation: expected a fraction of the file's rows such as 0.1, or none, found '{validation}'"
    )


def _identity(path: Path, chosen: DataOptions) -> tuple[int, str]:
    """Return the size and the checksum of a file; raise if it is not the file of the run."""
    digest = _sha256(path)
    if chosen.sha256 is not None and chosen.sha256 != digest:
        raise RunError(
            f"{path}: expected the training file of the run (sha256 {chosen.sha256[:12]}…), found {digest[:12]}…"
        )
    return _size(path), digest


def _resolved(path: Path, chosen: DataOptions, validation: str | float, rows: int, **others: Any) -> DataOptions:
    """Return the options of a file with columns of its own meaning, complete with what is recorded about it."""
    size, digest = _identity(path, chosen)
    recorded = {"source": str(path), "validation": validation, "rows": rows, "bytes": size, "sha256": digest}
    return replace(chosen, binarize="none", **recorded, **others)  # type: ignore[arg-type]


def _rated(config: schema.Config, path: Path) -> Rows:
    """Rows of a file of ratings, one for each user; a share of the ratings may be held out."""
    chosen = config.data
    visible = config.machine.visible if not str(config.machine.visible).startswith("ratings") else None
    unused = {"binarize": _how(chosen.binarize), "visible": visible, "labels": chosen.labels or None}
    names = ("image", "alphabet", "vocabulary", "stop_words")
    for name, value in (*unused.items(), *((name, getattr(chosen, name)) for name in names)):
        if value is not None:
            raise InvalidOption(f"{name}: expected none for the ratings in {path.name}, found '{value}'")
    table = data.read_ratings(path, None if chosen.ratings is None else parse_scale(chosen.ratings))
    validation = "none" if chosen.validation is None else chosen.validation
    share, held_out = _share(validation), None
    if share is not None:
        number = len(table.user)
        chosen_ones = torch.randperm(number, generator=stream(config.training.seed, Purpose.HELD_OUT))
        cut = round(share * number)
        if not 0 < cut < number:
            raise InvalidData(f"validation: expected ratings on both sides, found {share:g} of {number} ratings")
        table, held_out = table.subset(chosen_ones[cut:]), table.subset(chosen_ones[:cut])
    elif validation != "none":
        raise InvalidOption(
            f"validation: expected a fraction of the ratings such as 0.1, or none, found '{validation}'"
        )
    resolved = _resolved(path, chosen, validation, len(table))
    source, units = DatasetSource(table, table.shape), [UnitSpec("ratings", table.shape)]
    title = f"{path.name}: {len(table.user):,} ratings of {len(table.items):,} items"
    return Rows(source, None, units, None, title, resolved, ratings=table, held_out_ratings=held_out)


def training_defaults(config: schema.Config) -> TrainingOptions:
    """Return the training options, with those for ratings or labels filled in if the data have them.

    The settings were chosen on held-out ratings of MovieLens 100k (``docs/recommendation.md``) and on validation images
    of MNIST (``docs/classification.md``).
    """
    chosen = config.training
    if config.data.labels:
        if chosen.optimizer is None and chosen.learning_rate is None and chosen.momentum is None:
            chosen = replace(chosen, optimizer="adam", learning_rate=0.005, schedule=chosen.schedule or "linear:0.3")
        return replace(chosen, negative=chosen.negative or HYBRID)
    if not (schema.is_path(config.data.source) and holds_ratings(Path(config.data.source).expanduser())):
        return chosen
    if chosen.optimizer is None and chosen.momentum is None:
        rate, schedule = chosen.learning_rate or 0.003, chosen.schedule or "linear:0.5"
        chosen = replace(chosen, optimizer="adam", learning_rate=rate, schedule=schedule)
    penalized = any(value is not None for value in (chosen.l1, chosen.l2, chosen.l1_squared, chosen.l2_to_mean))
    return replace(
        chosen,
        negative=chosen.negative or default_negative(1, by_row=True),
        l2_to_mean=chosen.l2_to_mean if penalized else 0.01,
    )


def _sequences(path: Path, chosen: DataOptions) -> data.Alignment | None:
    """Read a file of sequences; ``None`` if it has numbers."""
    if not (holds_sequences(path) or (chosen.alphabet is not None and path.suffix.lower() == ".csv")):
        if chosen.alphabet is not None:
            raise InvalidOption(f"alphabet: expected none for the numbers in {path.name}, found '{chosen.alphabet}'")
        return None
    wrong = (("binarize", _how(chosen.binarize)), ("image", chosen.image), ("labels", chosen.labels or None))
    for name, value in wrong:
        if value is not None:
            raise InvalidOption(f"{name}: expected none for the sequences in {path.name}, found '{value}'")
    return data.read_alignment(path, chosen.alphabet)


def _documents(path: Path, config: schema.Config) -> data.Documents | None:
    """Read documents; ``None`` if the path has numbers or sequences. A table of counts needs --visible multinomial."""
    chosen, kind = config.data, str(config.machine.visible or "").partition(":")[0]
    table = kind == "multinomial" and extension(path) in (".csv", ".tsv") and _has_words(path)
    if not (holds_documents(path) or table):
        for name in ("vocabulary", "stop_words"):
            if getattr(chosen, name) is not None:
                raise InvalidOption(f"{name}: expected none for {path.name}, which has no documents")
        return None
    for name, value in (("binarize", _how(chosen.binarize)), ("image", chosen.image)):
        if value is not None:
            raise InvalidOption(f"{name}: expected none for the documents in {path.name}, found '{value}'")
    return data.read_documents(path, vocabulary=chosen.vocabulary, stop_words=_stop_words(chosen.stop_words))


def _has_words(path: Path) -> bool:
    """Return whether the first line of a table has a cell that is not a number."""
    first = next((line for line in text_lines(path) if line.strip()), "")
    return any(character.isalpha() for character in first)


def _stop_words(given: str | None) -> str | list[str]:
    if given in (None, "none"):
        return []
    assert given is not None
    return " ".join(text_lines(Path(given).expanduser())).split() if Path(given).expanduser().is_file() else given


def _fitted(array: Tensor | np.ndarray, visible: list[UnitSpec], path: Path) -> Source:
    """Return the rows in the shape of the visible layer: unchanged, one-hot encoded, or reshaped if the sizes agree."""
    row = tuple(array.shape[1:])
    if len(visible) == 1:
        spec = visible[0]
        if isinstance(spec.kind.support, OneHot):
            states = _states(spec, row)
            if states is not None:
                return _source(_one_hot(array, states, path))
    elif len(row) > 1:
        return _source(array.reshape(len(array), -1))
    return _source(_reshaped(array, visible))


def _states(spec: UnitSpec, row: tuple[int, ...]) -> int | None:
    """Return the number of states if rows are labels of one-hot units; ``None`` if they are one-hot vectors."""
    if spec.shape is None:
        if len(row) < 2:
            raise InvalidOption(
                f"{spec.name}: expected how many states the labels have, as in --visible {spec.name}:21"
            )
        return None
    if len(spec.shape) == 1:
        return spec.shape[0] if len(row) < 2 else None
    return spec.shape[-1] if row == spec.shape[:-1] else None


def _one_hot(array: Tensor | np.ndarray, states: int, path: Path) -> Tensor:
    labels = _tensor(array)
    wrong = (labels < 0) | (labels >= states) | (labels != labels.floor() if labels.is_floating_point() else False)
    if bool(wrong.any()):
        where = tuple(torch.nonzero(wrong)[0].tolist())
        raise InvalidData(
            f"{path}: expected labels from 0 to {states - 1} for potts units of {states} states, "
            f"found {labels[where].item():g} at row {where[0]}, index {where[1:]}"
        )
    out = torch.zeros(*labels.shape, states, dtype=torch.uint8)
    return out.scatter_(-1, labels.long().unsqueeze(-1), 1)


def _inferred(array: Tensor | np.ndarray, path: Path) -> list[UnitSpec]:
    for chunk in _chunks(array):
        if not bool(((chunk == 0) | (chunk == 1)).all()):
            raise InvalidOption(
                f"{path}: expected only 0 and 1 (bernoulli units) or the option --visible, found values from "
                f"{float(array.min()):g} to {float(array.max()):g}. For gray pixels also use --binarize threshold."
            )
    return [UnitSpec("bernoulli")]


def _binarized(array: Tensor | np.ndarray, how: str, seed: int, path: Path) -> Tensor:
    """Binarize gray values.

    ``threshold``: 1 above half of the file's largest value. ``sample``: 1 with probability value / largest value.
    ``redraw``: returns these probabilities.
    """
    low, high = float(array.min()), float(array.max())
    if low < 0 or high <= 0:
        raise InvalidData(
            f"{path}: expected non-negative gray values to binarize, found values from {low:g} to {high:g}"
        )
    if how not in ("threshold", "sample", "redraw"):
        raise unknown("way to binarize", how, ["threshold", "sample", "redraw", "none"])
    if how == "redraw":
        return _tensor(np.asarray(array)).float() / high
    generator = stream(seed, Purpose.BINARIZE)
    out = torch.empty(tuple(array.shape), dtype=torch.uint8)
    start = 0
    for chunk in _chunks(array):
        values = _tensor(chunk).double()
        threshold = high / 2 if how == "threshold" else torch.rand(values.shape, generator=generator).double() * high
        out[start : start + len(values)] = values > threshold
        start += len(values)
    return out


def _check_finite(array: Tensor | np.ndarray, path: Path) -> None:
    start = 0
    for chunk in _chunks(array):
        finite = np.isfinite(np.asarray(chunk))
        if not finite.all():
            where = tuple(int(i) for i in np.argwhere(~finite)[0])
            found = float(np.asarray(chunk)[where])
            raise InvalidData(
                f"{path}: expected finite numbers, found {found} at row {start + where[0]}, index {where[1:]}"
            )
        start += len(chunk)


def _chunks(array: Any) -> Iterator[Any]:
    size = max(1, _CHUNK // max(1, math.prod(array.shape[1:])))
    for start in range(0, len(array), size):
        yield array[start : start + size]


def _source(array: Tensor | np.ndarray) -> Source:
    if isinstance(array, np.memmap):
        return ArraySource(array, array.shape[1:])
    tensor = _tensor(array).contiguous()
    return TensorSource(tensor, tuple(tensor.shape[1:]))


def _tensor(array: Tensor | np.ndarray) -> Tensor:
    """Return a tensor in memory; a memory map is copied."""
    return array if isinstance(array, Tensor) else torch.from_numpy(np.array(array))


def _size(path: Path) -> int:
    """The size of a file, or of all files of a folder."""
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
    )


def _sha256(path: Path) -> str:
    """The checksum of a file; of a folder, that of the names and checksums of its files."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        listed = "".join(f"{file.relative_to(path)}\n{_sha256(file)}\n" for file in files)
        return hashlib.sha256(listed.encode()).hexdigest()
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataNotFound(f"{path}: cannot be read ({error.strerror})") from None


# -- both ---------------------------------------------------------------------------------------------------------


def _shaped(visible: list[UnitSpec], rows: Source) -> list[UnitSpec]:
    """Return the visible layer, with the shape of the rows if it has none, and with their label."""
    if isinstance(rows, Labeled):
        return [*_shaped(visible, rows.features), UnitSpec("potts", (1, rows.classes))]
    if len(visible) > 1:
        return visible
    spec = visible[0]
    open_shape = spec.shape is None or (
        isinstance(spec.kind.support, OneHot) and len(spec.shape) == 1 and rows.shape[-1:] == spec.shape
    )
    return [replace(spec, shape=rows.shape) if open_shape else spec]


def _without_label(visible: list[UnitSpec], config: schema.Config) -> tuple[list[UnitSpec], int | None]:
    """Return the layer of the features and the number of classes; the latter is None if the layer has no label."""
    shape = visible[-1].shape
    if not config.data.labels or len(visible) < 2 or visible[-1].name != "potts" or shape is None or len(shape) != 2:
        return visible, None
    return visible[:-1], shape[1]


def _as_image(visible: list[UnitSpec], image: tuple[int, ...] | None, config: schema.Config) -> list[UnitSpec]:
    """Return the visible layer in the shape of an image if the first hidden layer has feature maps."""
    hidden = config.machine.hidden
    first = hidden[0] if isinstance(hidden, list) else hidden
    if not specs.is_convolutional(specs.parse_hidden(str(first))):
        return visible
    if len(visible) > 1 or config.data.labels:
        found = f"{len(visible)}" if len(visible) > 1 else "features and labels"
        raise InvalidOption(f"hidden: '{first}' expects one type of visible units, found {found}")
    if visible[0].shape is not None and len(visible[0].shape) == 3:
        return visible
    if image is None:
        raise InvalidOption(f"hidden: '{first}' expects rows that are images; give their shape, as in --image 1x28x28")
    return [replace(visible[0], shape=tuple(image))]


def _reshaped(array: Any, visible: list[UnitSpec]) -> Any:
    """Return rows in the shape of the visible layer if the sizes agree."""
    shape, row = visible[0].shape, tuple(array.shape[1:])
    if len(visible) > 1 or shape is None or shape == row or math.prod(shape) != math.prod(row):
        return array
    return array.reshape(len(array), *shape)


def _check_similarity(rows: Rows) -> None:
    share = rows.config.similarity
    if share is None:
        return
    if share > 1:
        raise InvalidOption(f"similarity: expected a fraction above 0 and at most 1, found {share:g}")
    if len(rows.visible) > 1 or not isinstance(rows.visible[0].kind.support, OneHot) or len(rows.train.shape) != 2:
        raise InvalidOption(
            "similarity: expected sequences, which have potts units, found "
            + "+".join(spec.name for spec in rows.visible)
        )


def _picture(row: tuple[int, ...], text: str | None) -> tuple[int, int, int] | None:
    """Return (channels, height, width) of a row that is an image, or ``None``."""
    if text is not None:
        shape = specs.parse_shape(text)
        shape = (1, *shape) if len(shape) == 2 else shape
        if len(shape) != 3 or math.prod(shape) != math.prod(row):
            raise InvalidOption(f"image: expected HxW or CxHxW with {math.prod(row)} values in total, found '{text}'")
        return shape
    if len(row) == 2:
        return (1, *row)
    return row if len(row) == 3 and row[0] in (1, 3) else None


def _share(validation: str | float | None) -> float | None:
    """Return the fraction of rows to hold out, or ``None`` if ``validation`` is not a number."""
    try:
        share = float(validation)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if not 0 < share < 1:
        raise InvalidOption(f"validation: expected a fraction of the rows between 0 and 1, found {share:g}")
    return share


def _hold_out(rows: Source, share: float, seed: int) -> tuple[Source, Source]:
    """Split the rows at random; both parts keep the order of the file."""
    train, held_out = _halves(len(rows), share, seed)
    return Subset(rows, train), Subset(rows, held_out)


def _halves(n: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Split row numbers at random, with a separate random stream: those for training and those held out, in order."""
    order = torch.randperm(n, generator=stream(seed, Purpose.HELD_OUT))
    cut = round(share * n)
    if not 0 < cut < n:
        raise InvalidData(f"validation: expected rows on both sides of the split, found {share:g} of {n} rows")
    return order[cut:].sort().values, order[:cut].sort().values
