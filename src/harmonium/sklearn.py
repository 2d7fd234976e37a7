"""Estimators for scikit-learn: ``BernoulliRBM``, a replacement of scikit-learn's class, and ``RBM`` for any units.

Both can be used in pipelines, searches over parameters, ``clone``, ``set_output`` and joblib.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from .errors import InvalidData, InvalidOption, NotEnumerable
from .extras import require
from .likelihood import ais
from .machines import RBM as Machine
from .runs import specs
from .training import Redrawn, fit
from .training.arguments import Arguments
from .training.batches import Source
from .training.loop import Training
from .units import Bernoulli, Gaussian, Unit

require("sklearn", "harmonium.sklearn needs")

from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils import Tags, check_array, check_random_state, gen_even_slices
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["RBM", "BernoulliRBM"]

_FLOATS = (np.float64, np.float32)
_CHUNK = 1000  # rows of a sparse matrix that are converted to a dense array at a time


class _Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Common to both estimators: validated input, chunks of rows, names of output features."""

    def _validated(self, X: Any, *, reset: bool) -> Any:
        return validate_data(self, X, accept_sparse="csr", reset=reset, dtype=_FLOATS)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class BernoulliRBM(_Transformer):
    """Replacement of ``sklearn.neural_network.BernoulliRBM`` with the same parameters, attributes and random numbers.

    For the same ``random_state`` the learned parameters agree with those of scikit-learn up to rounding. Training is
    persistent contrastive divergence (Tieleman 2008). ``X`` may be a sparse matrix; batches are converted to dense
    arrays one at a time. :class:`RBM` usually learns better features in less time.

    Args:
        n_components: number of hidden units.
        learning_rate: learning rate.
        batch_size: number of rows per update, and number of chains.
        n_iter: number of passes over the data.
        verbose: whether to print the pseudo-likelihood after each pass.
        random_state: seed or ``numpy.random.RandomState``.

    Attributes:
        components_: weights (n_components, n_features).
        intercept_hidden_: biases of the hidden units (n_components,).
        intercept_visible_: biases of the visible units (n_features,).
        h_samples_: hidden states of the chains (batch_size, n_components).

    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> BernoulliRBM(n_components=2, random_state=0).fit(X).transform(X).shape
    (4, 2)
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_iter": [Interval(Integral, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int = 256,
        *,
        learning_rate: float = 0.1,
        batch_size: int = 10,
        n_iter: int = 10,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train a new machine on ``X`` (n_samples, n_features), an array or sparse matrix; ``y`` is ignored."""
        X = self._validated(X, reset=True)
        rng = check_random_state(self.random_state)
        self._initialize(X.shape[1], X.dtype, rng)
        n_batches = -(-X.shape[0] // self.batch_size)
        batches = list(gen_even_slices(n_batches * self.batch_size, n_batches, n_samples=X.shape[0]))
        chain = _Chain(self, min(self.batch_size, X.shape[0]))
        began = time.perf_counter()
        for iteration in range(1, self.n_iter + 1):
            for batch in batches:
                chain.step(_dense(X[batch]), rng)
            if self.verbose:
                now = time.perf_counter()
                score = self.score_samples(X).mean()
                print(
                    f"[{type(self).__name__}] Iteration {iteration}, pseudo-likelihood = {score:.2f}, "
                    f"time = {now - began:.2f}s"
                )
                began = now
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take one step with the rows of ``X`` (n_samples, n_features) as a single batch; ``y`` is ignored."""
        first = not hasattr(self, "components_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=first)
        if not hasattr(self, "random_state_"):
            self.random_state_ = check_random_state(self.random_state)
        if first:
            self._initialize(X.shape[1], X.dtype, self.random_state_)
        _Chain(self, X.shape[0]).step(_dense(X), self.random_state_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the probabilities P(h = 1 | v = X): (n_samples, n_components)."""
        check_is_fitted(self)
        return self._mean_hiddens(self._validated(X, reset=False))

    def gibbs(self, v: Any) -> np.ndarray:
        """Return the visible states after one Gibbs sweep from ``v``: (n_samples, n_features), boolean."""
        check_is_fitted(self)
        if not hasattr(self, "random_state_"):
            self.random_state_ = check_random_state(self.random_state)
        return self._sample_visibles(self._sample_hiddens(v, self.random_state_), self.random_state_)

    def score_samples(self, X: Any) -> np.ndarray:
        """Return a random estimate of the pseudo-log-likelihood of each row, from one flipped unit: (n_samples,).

        It is not deterministic unless ``random_state`` is an integer.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        flipped = check_random_state(self.random_state).randint(0, X.shape[1], X.shape[0])
        scores, machine, done = [], self._machine(), 0
        for rows in _chunks(X):
            v = torch.from_numpy(rows.copy())
            at = torch.arange(len(v)), torch.from_numpy(flipped[done : done + len(v)].astype(np.int64))
            before = machine.free_energy(v, check=False)
            v[at] = 1 - v[at]
            scores.append(X.shape[1] * torch.nn.functional.logsigmoid(machine.free_energy(v, check=False) - before))
            done += len(v)
        return torch.cat(scores).detach().numpy()

    # -- private names that scikit-learn's class has too ----------------------------------------------------------

    def _mean_hiddens(self, v: Any) -> np.ndarray:
        machine = self._machine()
        return _by_row(v, lambda rows: machine.hidden_mean(rows).detach())

    def _sample_hiddens(self, v: Any, rng: np.random.RandomState) -> np.ndarray:
        p = self._mean_hiddens(v)
        return rng.uniform(size=p.shape) < p

    def _sample_visibles(self, h: Any, rng: np.random.RandomState) -> np.ndarray:
        machine = self._machine()
        p = _by_row(h, lambda rows: machine.visible_mean(rows.to(machine.dtype)).detach())
        return rng.uniform(size=p.shape) < p

    def _free_energy(self, v: Any) -> np.ndarray:
        machine = self._machine()
        return _by_row(v, lambda rows: machine.free_energy(rows, check=False).detach())

    # -- parameters -----------------------------------------------------------------------------------------------

    def _initialize(self, n_features: int, dtype: np.dtype, rng: np.random.RandomState) -> None:
        weights = rng.normal(0, 0.01, (self.n_components, n_features))
        self.components_ = np.asarray(weights, order="F", dtype=dtype)
        self.intercept_hidden_ = np.zeros(self.n_components, dtype=dtype)
        self.intercept_visible_ = np.zeros(n_features, dtype=dtype)
        self.h_samples_ = np.zeros((self.batch_size, self.n_components), dtype=dtype)
        self._n_features_out = self.n_components

    def _machine(self) -> Machine:
        """Return a machine whose parameters share memory with the attributes."""
        n_components, n_features = self.components_.shape
        machine = Machine(Bernoulli(n_features), Bernoulli(n_components))
        machine.to(dtype=torch.from_numpy(self.components_).dtype).requires_grad_(False)
        machine.coupling.weight.data = torch.from_numpy(self.components_).T
        machine.visible.bias.data = torch.from_numpy(self.intercept_visible_)
        machine.hidden.bias.data = torch.from_numpy(self.intercept_hidden_)
        return machine


class _Chain:
    """The update of scikit-learn's ``BernoulliRBM``, in place: PCD-1 with *sums* over batch and chains.

    It uses NumPy's random numbers in the order of scikit-learn. If the last batch is smaller than the number of
    chains, scikit-learn compares sums over different numbers of rows; so does this, for equal results. Batch and chains
    are the first and last rows of one buffer, so that one product gives the fields of both.
    """

    def __init__(self, estimator: BernoulliRBM, rows: int) -> None:
        machine, self.rate = estimator._machine(), float(estimator.learning_rate)
        self.parts = machine.visible, machine.hidden, machine.coupling
        self.parameters = machine.visible.bias.data, machine.hidden.bias.data, machine.coupling.weight.data
        self.h = torch.from_numpy(estimator.h_samples_)
        n, dtype = rows + len(self.h), self.h.dtype
        self.v = torch.empty(n, estimator.components_.shape[1], dtype=dtype)
        self.mean, self.signed = (torch.empty(n, self.h.shape[1], dtype=dtype) for _ in range(2))

    @torch.no_grad()
    def step(self, batch: np.ndarray, rng: np.random.RandomState) -> None:
        """Update the parameters and the chains with one batch (n, n_features)."""
        (visible, hidden, coupling), n, rate = self.parts, len(batch), self.rate / len(batch)
        visible_bias, hidden_bias, weight = self.parameters
        v, mean, signed = (buffer[: n + len(self.h)] for buffer in (self.v, self.mean, self.signed))
        data, chains = v[:n], v[n:]
        data.copy_(torch.from_numpy(batch))
        visible.mean_(coupling.down_(self.h, chains), chains)
        torch.gt(chains, torch.from_numpy(rng.uniform(size=chains.shape)), out=chains)
        hidden.mean_(coupling.up_(v, mean), mean)
        torch.mul(mean, rate, out=signed)
        signed[n:].neg_()
        coupling.correlate(v, signed, out=weight, add=True)
        # sums over rows in float64, as scikit-learn adds counts of states
        hidden_bias.add_(signed.sum(0, dtype=torch.float64))
        visible_bias.add_(data.sum(0, dtype=torch.float64).sub_(chains.sum(0, dtype=torch.float64)).mul_(rate))
        torch.gt(mean[n:], torch.from_numpy(rng.uniform(size=self.h.shape)), out=self.h)


class RBM(_Transformer):
    """RBM with any hidden units and automatically chosen visible units, trained by ``harmonium.fit``.

    Args:
        n_components: number of hidden units.
        visible: visible units: "auto", the name of a unit with options, such as "gaussian" or "binomial,trials=4", or
            a layer of units. "auto" chooses Bernoulli units for values 0 and 1, Bernoulli units with stochastic
            binarization in every epoch for values between 0 and 1, and else Gaussian units with learned variances
            for standardized columns.
        hidden: hidden units, as a name with options, or a layer of units.
        negative: negative phase, as in ``harmonium.fit``.
        epochs: number of passes over the data; None: at least 10, and at least 2000 updates.
        batch_size: number of rows per update.
        learning_rate: learning rate; None: chosen from the data.
        optimizer: optimizer, as in ``harmonium.fit``.
        fit_options: other arguments of ``harmonium.fit``, such as ``{"transforms": [harmonium.L2(1e-4)]}``.
        dtype: "float32" or "float64".
        device: PyTorch device.
        verbose: whether to show progress.
        random_state: seed or ``numpy.random.RandomState``.

    Attributes:
        machine_: the trained ``harmonium.RBM``.
        mean_, scale_: mean and standard deviation of the columns if they are standardized, else None.
        components_: weights (n_components, n_features).

    >>> X = np.random.default_rng(0).integers(0, 2, (200, 6))
    >>> model = RBM(n_components=3, epochs=5, random_state=0).fit(X)
    >>> model.transform(X).shape, model.sample(4).shape, model.score(X) < 0
    ((200, 3), (4, 6), True)
    """

    mean_: np.ndarray | None
    scale_: np.ndarray | None
    _redrawn: bool
    _chains: dict[str, Any]
    _known_log_partition: float | None

    _parameter_constraints = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "dtype": [StrOptions({"float32", "float64"})],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        visible: str | Unit = "auto",
        hidden: str | Unit = "bernoulli",
        negative: Any = "pcd:1",
        epochs: int | None = None,
        batch_size: int = 100,
        learning_rate: float | None = None,
        optimizer: Any = "sgd",
        fit_options: Mapping[str, Any] | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.visible = visible
        self.hidden = hidden
        self.negative = negative
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.fit_options = fit_options
        self.dtype = dtype
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train a new machine on ``X`` (n_samples, n_features), an array or sparse matrix; ``y`` is ignored."""
        X = self._validated(X, reset=True)
        self._build(X)
        fit(self.machine_, self._source(X), epochs=self.epochs, **self._fit_arguments())
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Train for one pass over the rows of ``X``; chains continue from call to call, ``y`` is ignored.

        The first call chooses the units and the standardization. Momentum and other states of the optimizer are not
        kept between calls.
        """
        first = not hasattr(self, "machine_")
        X = self._validated(X, reset=first)
        if first:
            self._build(X)
        arguments = Arguments.of(self.machine_, self._source(X), epochs=1, **self._fit_arguments())
        training = Training(arguments)
        _continue(training, self._chains)
        training.one_epoch()
        self._chains, self._known_log_partition = training.negative.state_dict(), None
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the means of the hidden units given X: (n_samples, n_components)."""
        check_is_fitted(self)
        return self._by_row(X, lambda v: self.machine_.hidden_mean(v).flatten(1))

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return the means of the visible units given hidden states ``X``: (n_samples, n_features)."""
        check_is_fitted(self)
        h = check_array(X, dtype=_FLOATS)
        if h.shape[1] != self._n_features_out:
            raise ValueError(f"X has {h.shape[1]} features, but inverse_transform expects {self._n_features_out}")
        machine = self.machine_
        states = torch.from_numpy(h).view(-1, *machine.hidden.shape)
        with torch.no_grad():
            return self._restored(machine.visible_mean(states)).astype(h.dtype, copy=False)

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log-likelihood of each row, in nats: (n_samples,).

        ln Z is exact for small machines and otherwise estimated by annealed importance sampling, which overestimates
        likelihoods on average; ``harmonium.likelihood.estimate(model.machine_, …)`` also computes a lower bound.
        """
        check_is_fitted(self)
        log_scale = 0.0 if self.scale_ is None else np.log(self.scale_).sum()
        scores = self._by_row(X, lambda v: -self.machine_.free_energy(v, check=False).double())
        return scores - self._log_z() - log_scale

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-likelihood of the rows, in nats; ``y`` is ignored."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, *, sweeps: int = 1000) -> np.ndarray:
        """Draw rows from the model by Gibbs sampling: (n_samples, n_features)."""
        check_is_fitted(self)
        seed = int(check_random_state(self.random_state).randint(2**31))
        return self._restored(self.machine_.sample(n_samples, sweeps=sweeps, seed=seed))

    @property
    def components_(self) -> np.ndarray:
        """The weights (n_components, n_features)."""
        return self.machine_.coupling.matrix().detach().T.cpu().numpy()

    # -- private --------------------------------------------------------------------------------------------------

    def _build(self, X: Any) -> None:
        rng = check_random_state(self.random_state)
        self._seeds = np.random.RandomState(rng.randint(2**31))
        self.mean_, self.scale_, self._redrawn = None, None, False
        machine = Machine(self._visible_units(X), _units("hidden", self.hidden, self.n_components))
        if machine.visible.size != X.shape[1]:
            raise InvalidOption(f"visible: expected {X.shape[1]} entries, as X has features, found {machine.visible}")
        machine.to(device=specs.device(self.device), dtype=specs.dtype(self.dtype))
        self.machine_, self._n_features_out = machine, machine.hidden.size
        self._chains, self._known_log_partition = {}, None

    def _visible_units(self, X: Any) -> Unit:
        if not (isinstance(self.visible, str) and self.visible == "auto"):
            return _units("visible", self.visible, X.shape[1])
        values = X.data if sparse.issparse(X) else X
        if bool(((values >= 0) & (values <= 1)).all()):
            self._redrawn = not bool(((values == 0) | (values == 1)).all())
            return Bernoulli(X.shape[1])
        parts = [(len(rows), rows.mean(0, dtype=np.float64), rows.var(0, dtype=np.float64)) for rows in _chunks(X)]
        counts, means, variances = (np.array(part) for part in zip(*parts, strict=True))
        mean = np.average(means, axis=0, weights=counts)
        variance = np.average(variances + (means - mean) ** 2, axis=0, weights=counts)
        constant = variance <= (1e-7 * np.abs(mean)) ** 2  # up to rounding
        self.mean_, self.scale_ = mean, np.where(constant, 1.0, np.sqrt(variance))
        return Gaussian(X.shape[1], learn=("bias", "precision"))

    def _fit_arguments(self) -> dict[str, Any]:
        return {
            "negative": self.negative,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "optimizer": self.optimizer,
            "seed": int(self._seeds.randint(2**31)),
            "progress": bool(self.verbose),
            **(self.fit_options or {}),
        }

    def _source(self, X: Any) -> Any:
        """Return the rows in a form that ``fit`` takes: in memory, or a sparse matrix that is read batch by batch."""
        if sparse.issparse(X):
            return _SparseRows(X, tuple(self.machine_.visible.shape), self._states, redrawn=self._redrawn)
        states = self._states(X)
        return Redrawn(states) if self._redrawn else states

    def _states(self, rows: np.ndarray) -> Tensor:
        """Return rows (n, n_features) as states of the visible layer."""
        if self.mean_ is not None:
            rows = (rows - self.mean_) / self.scale_
        states = torch.from_numpy(np.ascontiguousarray(rows)).to(self.machine_.dtype)
        return states.view(len(rows), *self.machine_.visible.shape)

    def _restored(self, states: Tensor) -> np.ndarray:
        """Return states of the visible layer as rows (n, n_features) in the units of the data."""
        rows = states.detach().flatten(1).cpu().numpy()
        return rows if self.mean_ is None else rows * self.scale_ + self.mean_

    def _by_row(self, X: Any, function: Any) -> np.ndarray:
        X = self._validated(X, reset=False)
        with torch.no_grad():
            results = [function(self._states(rows)).cpu().numpy() for rows in _chunks(X)]
        found = np.concatenate(results)
        return found.astype(X.dtype, copy=False) if found.ndim > 1 else found

    def _log_z(self) -> float:
        if self._known_log_partition is None:
            try:
                self._known_log_partition = self.machine_.log_partition()
            except NotEnumerable:
                self._known_log_partition = ais(self.machine_, betas=1000).log_partition
        return self._known_log_partition


class _SparseRows(Source):
    """Rows of a sparse matrix, converted to dense states one batch at a time."""

    def __init__(self, matrix: Any, shape: tuple[int, ...], states: Any, *, redrawn: bool) -> None:
        self._matrix, self._states, self._redrawn = matrix, states, redrawn
        super().__init__(range(matrix.shape[0]), shape)

    def take(self, index: Tensor, out: Tensor, generator: torch.Generator | None = None) -> Tensor:
        states = self._states(_dense(self._matrix[index.cpu().numpy()])).to(out)
        if not self._redrawn:
            return out.copy_(states)
        return Redrawn(states).take(torch.arange(len(states)), out, generator)


def _units(what: str, given: str | Unit, size: int) -> Unit:
    """Return a layer of ``size`` units from a name with options, or the given layer."""
    if isinstance(given, Unit):
        return given
    if not isinstance(given, str):
        raise InvalidOption(f"{what}: expected the name of a unit or a layer of units, found {given!r}")
    (spec,) = parsed = specs.parse_layer(given)
    if spec.shape is None:
        name, _, options = given.partition(",")
        parsed = specs.parse_layer(f"{name}:{size}" + (f",{options}" if options else ""))
    return specs.layer(parsed)


def _continue(training: Training, chains: Mapping[str, Any]) -> None:
    """Restore the chains of an earlier call, repeated or cut to their present number."""
    now = training.negative.state_dict()
    if not chains or set(now) != set(chains) or not all(isinstance(x, Tensor) for x in now.values()):
        return
    fitted = {name: chains[name][torch.arange(len(x)) % len(chains[name])] for name, x in now.items()}
    training.negative.load_state_dict(fitted, training.machine)


def _dense(rows: Any) -> np.ndarray:
    return np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows)


def _chunks(X: Any) -> Iterator[np.ndarray]:
    """Yield dense rows, a thousand at a time."""
    for first in range(0, X.shape[0], _CHUNK):
        yield _dense(X[first : first + _CHUNK])


def _by_row(X: Any, function: Any) -> np.ndarray:
    """Apply a function of tensors to dense chunks of rows; a single row (n_features,) gives a single result."""
    if not sparse.issparse(X) and np.ndim(X) == 1:
        return _by_row(np.asarray(X)[None], function)[0]
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if X.ndim != 2:
        raise InvalidData(f"X: expected rows (n_samples, n_features), found shape {X.shape}")
    X = X.tocsr() if sparse.issparse(X) else X
    return torch.cat([function(torch.from_numpy(rows)) for rows in _chunks(X)]).numpy()
