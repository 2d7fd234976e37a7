"""A replacement of scikit-learn's ``BernoulliRBM``."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import _fit_context
from sklearn.utils import check_random_state, gen_even_slices
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from ..machines import RBM as Machine
from ..units import Bernoulli
from .base import Transformer
from .rows import by_row, chunks, dense


@dataclass(eq=False, repr=False)
class BernoulliRBM(Transformer):
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

    n_components: int = 256
    _: KW_ONLY
    learning_rate: float = 0.1
    batch_size: int = 10
    n_iter: int = 10
    verbose: int = 0
    random_state: int | np.random.RandomState | None = None

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
                chain.step(dense(X[batch]), rng)
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
        _Chain(self, X.shape[0]).step(dense(X), self.random_state_)
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
        rows = self._validated(v, reset=False)
        return self._sample_visibles(self._sample_hiddens(rows, self.random_state_), self.random_state_)

    def score_samples(self, X: Any) -> np.ndarray:
        """Return a random estimate of the pseudo-log-likelihood of each row, from one flipped unit: (n_samples,).

        It is not deterministic unless ``random_state`` is an integer.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        flipped = check_random_state(self.random_state).randint(0, X.shape[1], X.shape[0])
        scores, machine, done = [], self._machine(), 0
        for rows in chunks(X):
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
        return by_row(v, lambda rows: machine.hidden_mean(rows).detach())

    def _sample_hiddens(self, v: Any, rng: np.random.RandomState) -> np.ndarray:
        p = self._mean_hiddens(v)
        return rng.uniform(size=p.shape) < p

    def _sample_visibles(self, h: Any, rng: np.random.RandomState) -> np.ndarray:
        machine = self._machine()
        p = by_row(h, lambda rows: machine.visible_mean(rows.to(machine.dtype)).detach())
        return rng.uniform(size=p.shape) < p

    def _free_energy(self, v: Any) -> np.ndarray:
        machine = self._machine()
        return by_row(v, lambda rows: machine.free_energy(rows, check=False).detach())

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
