"""Training data: arrays, tensors, torch data sets, and NumPy memory maps larger than memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)
from torch.utils.data.distributed import DistributedSampler

from .. import noise
from ..arrays import as_tensor, is_sparse
from ..errors import InvalidData
from ..machines import DeepBeliefNetwork, Machine
from ..units.support import Interval

#: rows of the visible layer and of the context, for a machine with a context
Pair = tuple[Tensor, Tensor]
_CHECK_ELEMENTS = 2**20  # elements per chunk; chunks that fit into the cache are checked fastest
_PLAIN = (list, tuple, str, bytes, np.ndarray, Tensor)


class Source:
    """Dataset with random access by row index. Rows keep their data type and are converted batch by batch.

    If each row has a context (:class:`Conditional`), then rows, buffers for them and their means are pairs: the visible
    part (n, *shape) and the context (n, *context).
    """

    #: largest number of rows that are used to initialize a machine
    initial_rows = 50_000
    #: whether the rows have valid values by construction, so that they need no check
    valid = False
    #: number of Gibbs sweeps of missing values before each update
    sweeps = 1
    #: the shape of the context of a row; ``None`` for rows without one
    context: tuple[int, ...] | None = None

    def __init__(self, rows: Any, shape: tuple[int, ...]) -> None:
        self._rows, self.shape = rows, tuple(shape)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, index: Tensor, out: Any, generator: Generator | None = None) -> Any:
        """Write the rows ``index`` into ``out`` (len(index), *shape); ``generator`` is used for random rows."""
        raise NotImplementedError

    def rows(self, index: Tensor, machine: Machine) -> Any:
        """Return the rows ``index`` as visible states of the machine."""
        shapes = [self.shape] if self.context is None else [self.shape, self.context]
        out = tuple(torch.empty(len(index), *shape, dtype=machine.dtype, device=machine.device) for shape in shapes)
        return self.take(index, out[0] if self.context is None else out)

    def missing(self, index: Tensor) -> Tensor | None:
        """Return a mask (len(index), *shape) of the missing values of the rows; None if there are none."""
        return None

    def keep(self, index: Tensor, rows: Tensor) -> None:
        """Store new values of the missing entries of the rows ``index``."""

    def check(self, machine: Machine) -> None:
        """Raise if the machine cannot be trained on these rows, apart from their values."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resume."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state returned by :meth:`state_dict`."""

    @torch.no_grad()
    def mean(self, machine: Machine) -> Any:
        """Return the mean of all rows, (*shape) in float64."""
        total: list[Any] = [0.0, 0.0]
        for chunk in self.chunks(machine):
            for k, part in enumerate([chunk] if self.context is None else chunk):
                total[k] = total[k] + part.sum(0, dtype=torch.float64)
        means = [part / len(self) for part in total]
        return means[0] if self.context is None else tuple(means)

    def chunks(self, machine: Machine, size: int | None = None) -> Iterator[Any]:
        """Yield all rows in order, in chunks of ``size`` rows, by default as many as fit into memory."""
        size = self.chunk_rows if size is None else size
        for start in range(0, len(self), size):
            yield self.span(start, min(start + size, len(self)), machine)

    @property
    def chunk_rows(self) -> int:
        """The number of rows of a chunk."""
        elements = math.prod(self.shape) + (0 if self.context is None else math.prod(self.context))
        return max(1, _CHECK_ELEMENTS // max(1, elements))

    def span(self, start: int, stop: int, machine: Machine) -> Any:
        """Return the rows from ``start`` to ``stop`` as visible states of the machine."""
        return self.rows(torch.arange(start, stop), machine)

    def every(self, machine: Machine) -> Iterator[Any]:
        """Yield all rows that :meth:`take` can return, in chunks, for checks of the data."""
        return self.chunks(machine)


class TensorSource(Source):
    """Rows of a tensor in memory."""

    def span(self, start: int, stop: int, machine: Machine) -> Tensor:
        return self._rows[start:stop].to(device=machine.device, dtype=machine.dtype)

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        index = index.to(self._rows.device)
        if self._rows.dtype == out.dtype and self._rows.device == out.device:
            return torch.index_select(self._rows, 0, index, out=out)
        return out.copy_(torch.index_select(self._rows, 0, index))


class Redrawn(TensorSource):
    """Binary rows that are sampled again at every access, with gray values in [0, 1] as probabilities.

    This is the stochastic binarization of the published MNIST likelihoods. During training the samples come from the
    random stream of the run, so it resumes bit-for-bit. Elsewhere (initialization, metrics) the seed is fixed.

    >>> gray = Redrawn(torch.full((1000, 4), 0.25))
    >>> rows = gray.take(torch.arange(1000), torch.empty(1000, 4))
    >>> rows.unique().tolist(), bool((rows.mean() - 0.25).abs() < 0.03)
    ([0.0, 1.0], True)
    """

    def __init__(self, probabilities: Any) -> None:
        tensor = as_tensor(probabilities, "probabilities")
        if tensor.ndim < 2 or not tensor.is_floating_point():
            raise InvalidData(
                f"probabilities: expected rows of gray values in [0, 1], found {tuple(tensor.shape)} of {tensor.dtype}"
            )
        Interval("gray values between 0 and 1", 0.0, 1.0).check(tensor)
        super().__init__(tensor.detach().contiguous(), tensor.shape[1:])

    def span(self, start: int, stop: int, machine: Machine) -> Tensor:
        return self.rows(torch.arange(start, stop), machine)

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        super().take(index, out)
        return noise.bernoulli_(out, out, noise.generator(0, out.device) if generator is None else generator)


class Weighted(Source):
    """Rows of any data, sampled in proportion to ``weights`` (n,). An epoch has n rows, as without weights.

    Use it for nearly identical sequences, unbalanced classes or rows with multiplicities. The cumulative weight is
    divided into n equal parts, and row k of an epoch is sampled from part k (stratified sampling), so the frequencies
    have less noise than with independent samples. Outside of training (initialization, metrics) the middle of each
    part is used.

    >>> rows = Weighted(torch.eye(3), [1.0, 1.0, 0.0])
    >>> rows.take(torch.arange(3), torch.empty(3, 3), torch.Generator().manual_seed(0)).sum(0)[2]
    tensor(0.)
    """

    def __init__(self, data: Any, weights: Any) -> None:
        self._inner = as_rows(data, "data")
        if self._inner.missing(torch.arange(len(self._inner))) is not None:
            raise InvalidData("data: expected complete rows with weights, found missing values")
        super().__init__(self._inner._rows, self._inner.shape)
        self.context = self._inner.context
        given = as_tensor(weights, "weights").detach().cpu()
        if given.shape != (len(self),):
            raise InvalidData(f"weights: expected shape ({len(self)},), one weight per row, found {tuple(given.shape)}")
        total = given.double().cumsum(0)
        if not bool((given >= 0).all()) or not 0 < total[-1].item() < math.inf:
            raise InvalidData("weights: expected finite non-negative numbers with a positive sum")
        self._reached = total / total[-1]
        self._last = int(given.nonzero()[-1])  # rounding must not select a later row

    def take(self, index: Tensor, out: Any, generator: Generator | None = None) -> Any:
        device = (out if self.context is None else out[0]).device
        self._reached = self._reached.to(device)
        within = torch.full((len(index),), 0.5, dtype=torch.float64, device=device)
        if generator is not None:
            within.uniform_(generator=generator)
        place = (index.to(device) + within) / len(self)
        rows = torch.searchsorted(self._reached, place, right=True).clamp_(max=self._last)
        return self._inner.take(rows, out, generator)

    def every(self, machine: Machine) -> Iterator[Any]:
        return self._inner.every(machine)


class Labeled(Source):
    """Rows of features followed by a one-hot label, for the visible layer ``Mixed(features, Potts((1, K)))``.

    Args:
        data: rows of the features, as in :func:`fit`; for example :class:`Redrawn` gray values.
        labels: the label of each row (n,), whole numbers from 0 to K-1.
        classes: the number K of classes; by default one more than the largest label.

    Attributes:
        features: the rows without labels.
        labels: the labels (n,).

    >>> rows = Labeled(torch.zeros(2, 3), [1, 0], classes=2)
    >>> rows.take(torch.arange(2), torch.empty(2, 5))
    tensor([[0., 0., 0., 0., 1.],
            [0., 0., 0., 1., 0.]])
    """

    def __init__(self, data: Any, labels: Any, classes: int | None = None) -> None:
        self.features = as_rows(data, "data")
        found = as_labels(labels, len(self.features))
        self.classes = int(found.max()) + 1 if classes is None else classes
        self.labels = as_labels(found, classes=self.classes)
        self._size = math.prod(self.features.shape)
        super().__init__(self.features._rows, (self._size + self.classes,))

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        own = torch.empty(len(index), *self.features.shape, dtype=out.dtype, device=out.device)
        out[:, : self._size] = self.features.take(index, own, generator).flatten(1)
        label = self.labels[index.to(self.labels.device)].to(out.device)
        out[:, self._size :] = torch.nn.functional.one_hot(label, self.classes)
        return out


def as_labels(labels: Any, n: int | None = None, classes: int | None = None) -> Tensor:
    """Return labels as whole numbers (n,), from 0 to ``classes`` - 1 if given; raise otherwise.

    >>> as_labels([0, 2], classes=2)
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidData: labels: expected whole numbers from 0 to 1, found 2 in row 1
    """
    found = torch.as_tensor(labels).detach().cpu()
    if found.ndim != 1 or (n is not None and len(found) != n):
        shape = "(n,)" if n is None else f"({n},)"
        raise InvalidData(f"labels: expected shape {shape}, one label for each row, found {tuple(found.shape)}")
    if found.is_floating_point() and not bool((found == found.round()).all()):
        raise InvalidData("labels: expected whole numbers, found fractions")
    wrong = (found < 0) | (found >= classes) if classes is not None else torch.zeros(0)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise InvalidData(
            f"labels: expected whole numbers from 0 to {classes - 1}, found {found[row].item():g} in row {row}"  # type: ignore[operator]
        )
    return found.long()


class ArraySource(Source):
    """Rows of a NumPy array that may be a memory map; only requested rows are read."""

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        order = torch.argsort(index)  # read in file order
        rows = np.asarray(self._rows[index[order].cpu().numpy()])
        out[order.to(out.device)] = as_tensor(rows).to(out)
        return out


class SparseSource(Source):
    """Rows of a sparse matrix of SciPy or a sparse tensor; only the rows of a batch become dense."""

    def __init__(self, matrix: Any, what: str = "data") -> None:
        from scipy.sparse import csr_matrix

        if isinstance(matrix, Tensor):
            rows = matrix.detach().cpu().to_sparse_csr()
            parts = (rows.values().numpy(), rows.col_indices().numpy(), rows.crow_indices().numpy())
            self._matrix: Any = csr_matrix(parts, shape=tuple(rows.shape))
        else:
            self._matrix = matrix.tocsr()
        if self._matrix.dtype.kind not in "biuf":
            raise InvalidData(f"{what}: expected real numbers, found the type {self._matrix.dtype}")
        super().__init__(self._matrix, self._matrix.shape[1:])

    def __len__(self) -> int:
        return int(self._matrix.shape[0])

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        return out.copy_(as_tensor(self._matrix[index.cpu().numpy()]))


class DatasetSource(Source):
    """Rows of a torch data set; only the features of (features, label) pairs are used."""

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        for row, number in zip(out, index.tolist(), strict=True):
            features = _features(self._rows[number])
            if features.shape != self.shape:
                raise InvalidData(
                    f"data: expected rows of shape {self.shape}, found {tuple(features.shape)} in row {number}"
                )
            row.copy_(features)
        return out


class HiddenStates(Source):
    """The hidden states of a layer of a deep belief network given rows of data: the input of the machine above it.

    The rows are passed up when they are asked for, in parts that fit into memory; the states of the whole data set are
    never stored. They are samples or means, as ``inputs`` of the network, which is used with its current parameters.
    During training the samples come from the random stream of the run, so every epoch has new ones and the run resumes
    bit-for-bit. Elsewhere (initialization, metrics) the seed is fixed. Values are not checked: samples are always in
    the support of the units above, and means are accepted although they are not.

    Args:
        network: a deep belief network.
        data: rows of its visible layer, as in :func:`fit`.
        layer: number of the hidden layer, from 1 to that below the top machine.

    >>> import harmonium as hm
    >>> network = hm.DeepBeliefNetwork.of([4, 3, 2])
    >>> HiddenStates(network, torch.zeros(10, 4), 1).take(torch.arange(5), torch.empty(5, 3)).unique()
    tensor([0., 1.])
    """

    initial_rows = 10_000
    valid = True

    def __init__(self, network: DeepBeliefNetwork, data: Any, layer: int) -> None:
        if not 1 <= layer < len(network.machines):
            raise InvalidData(f"layer: expected a number from 1 to {len(network.machines) - 1}, found {layer}")
        self._network, self._inner, self._layer = network, as_source(data, network), layer
        super().__init__(self._inner, tuple(network.machines[layer].visible.shape))

    @property
    def chunk_rows(self) -> int:
        widest = max(unit.size for unit in self._network.layers[: self._layer + 1])
        return max(1, _CHECK_ELEMENTS // widest)

    @torch.no_grad()
    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        random = noise.generator(0, out.device) if generator is None else generator
        for rows, part in zip(index.split(self.chunk_rows), out.split(self.chunk_rows), strict=True):
            x = torch.empty(len(rows), *self._inner.shape, dtype=out.dtype, device=out.device)
            x = self._inner.take(rows, x, generator)
            for k in range(self._layer):
                x = self._network.pass_up(k, x, generator=random)
            part.copy_(x)
        return out


def as_source(data: Any, machine: Machine, *, what: str = "data", validate: bool = True) -> Source:
    """Wrap any kind of data as a :class:`Source`; check the shape and support of all rows, in chunks."""
    source = as_rows(data, what)
    if len(source) == 0:
        raise InvalidData(f"{what}: expected at least one row, found an empty data set")
    visible = machine.visible
    if source.shape != tuple(visible.shape):
        raise InvalidData(
            f"{what}: expected rows of shape {tuple(visible.shape)} for the {visible.name()} units, "
            f"found {source.shape}"
        )
    source.check(machine)
    _check_context(source, machine, what)
    if validate and not source.valid:
        done = 0
        for chunk in source.every(machine):
            v, context = (chunk, None) if source.context is None else chunk
            where = what if done == 0 else f"{what}, counted from row {done}"
            visible.check(v, where)
            if context is not None and not bool(torch.isfinite(context).all()):
                raise InvalidData(f"context of {where}: expected finite numbers, found NaN or infinity")
            done += len(v)
    return source


def _check_context(source: Source, machine: Machine, what: str) -> None:
    """Raise :class:`InvalidData` unless the rows have a context of the shape that the machine expects."""
    expected = None if machine.context is None else tuple(machine.context)
    if source.context == expected:
        return
    found = "rows without a context" if source.context is None else f"a context of shape {tuple(source.context)}"
    if expected is None:
        raise InvalidData(f"{what}: expected rows without a context for {type(machine).__name__}, found {found}")
    hint = ", as in hm.Conditional(rows, context)" if source.context is None else ""
    raise InvalidData(f"{what}: expected rows with a context of shape {expected}{hint}, found {found}")


def as_rows(data: Any, what: str = "data") -> Source:
    """Wrap any kind of data as a :class:`Source`, without checks of its rows."""
    if isinstance(data, Source):
        return data
    if is_sparse(data):
        return SparseSource(data, what)
    if isinstance(data, Tensor) and data.ndim > 0:
        return TensorSource(as_tensor(data, what).detach().contiguous(), data.shape[1:])
    if isinstance(data, np.memmap):
        return ArraySource(data, data.shape[1:])
    if isinstance(data, DataLoader):
        return as_rows(_loaded(data, what), what)
    if isinstance(data, IterableDataset):
        raise InvalidData(f"{what}: expected rows with random access by index, found an iterable-only data set")
    if isinstance(data, TensorDataset):  # row-by-row access would be slow
        return as_rows(data.tensors[0], what)
    random_access = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    if random_access and not hasattr(data, "to_numpy") and not isinstance(data, _PLAIN):
        if len(data) == 0:
            raise InvalidData(f"{what}: expected at least one row, found an empty data set")
        try:
            first = data[0]
        except LookupError as error:
            raise InvalidData(f"{what}: expected rows of numbers, found {type(data).__name__} ({error})") from None
        return DatasetSource(data, tuple(_features(first).shape))
    tensor = as_tensor(data, what)
    if tensor.ndim == 0:
        raise InvalidData(f"{what}: expected rows of numbers, found {type(data).__name__} without dimensions")
    return TensorSource(tensor, tensor.shape[1:])


def loader_batch_size(loader: DataLoader[Any]) -> dict[str, int]:
    """Return the batch size of a DataLoader as a keyword argument of ``fit``; empty if it has none.

    >>> loader_batch_size(DataLoader(TensorDataset(torch.zeros(100, 3)), batch_size=20))
    {'batch_size': 20}
    """
    size = getattr(loader.batch_sampler, "batch_size", None)
    return {} if size is None else {"batch_size": size}


def _loaded(loader: DataLoader[Any], what: str) -> Any:
    """Return the data set of a DataLoader; raise if the loader selects or changes rows in a way ``fit`` would not."""
    if isinstance(loader.dataset, IterableDataset):
        raise InvalidData(
            f"{what}: expected a DataLoader with random access by index, found an iterable-only data set; "
            "read its rows into a tensor first"
        )
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    own = (isinstance(sampler, RandomSampler) and not sampler.replacement) or isinstance(
        sampler, (SequentialSampler, DistributedSampler)
    )
    if not own:
        raise InvalidData(
            f"{what}: expected a DataLoader of all rows of its data set, found a {type(sampler).__name__}; "
            "use torch.utils.data.Subset for some of the rows, or harmonium.Weighted for weights"
        )
    if loader.batch_sampler is not None and loader.collate_fn is not default_collate:
        raise InvalidData(
            f"{what}: expected a DataLoader without a collate_fn, because training does not call it; "
            "transform the rows in the data set instead"
        )
    return loader.dataset


def _features(item: Any) -> Tensor:
    return as_tensor(item[0] if isinstance(item, (tuple, list)) else item)
