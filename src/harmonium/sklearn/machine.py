"""RBMs with any units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import _fit_context
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ..errors import InvalidData, NotEnumerable
from ..likelihood import ais
from ..machines import RBM as Machine
from ..training import Plan, Training, fit
from ..training.learner import Learner
from ..training.negative.base import cycled
from .base import TrainedMachine, Transformer, units
from .rows import FLOATS, chunks


class RBM(Transformer, TrainedMachine):
    """RBM with any hidden units and automatically chosen visible units, trained by ``harmonium.fit``.

    Args:
        n_components: number of hidden units.
        visible: visible units: "auto", the name of a unit with options, such as "gaussian" or "binomial,trials=4", or
            a layer of units. "auto" chooses Bernoulli units for values 0 and 1, Bernoulli units with stochastic
            binarization in every epoch for values between 0 and 1, and else Gaussian units with learned variances
            for standardized columns.
        hidden: hidden units, as a name with options, or a layer of units.
        negative, epochs, batch_size, learning_rate, optimizer: as in ``harmonium.fit``, which chooses those of None.
        fit_options: other arguments of ``harmonium.fit``, such as ``{"penalties": ["l2:1e-4"]}``.
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

    _chains: dict[str, Any]
    _known_log_partition: float | None

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
        plan, others = Plan.split({**self._fit_arguments(), "epochs": 1})
        training = Training(self.machine_, self._source(X), plan, **others)
        (learner,) = training.learners
        _continue(learner, self._chains)
        training.one_epoch()
        self._chains, self._known_log_partition = _tensors(learner.state), None
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the means of the hidden units given X: (n_samples, n_components)."""
        check_is_fitted(self)
        return self._by_row(X, lambda v: self.machine_.hidden_mean(v).flatten(1))

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return the means of the visible units given hidden states ``X``: (n_samples, n_features)."""
        check_is_fitted(self)
        h = check_array(X, dtype=FLOATS)
        if h.shape[1] != self._n_features_out:
            raise InvalidData(f"X has {h.shape[1]} features, but inverse_transform expects {self._n_features_out}")
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
        self.machine_ = self._place(Machine(self._feature_units(X), units("hidden", self.hidden, self.n_components)))
        self._n_features_out = self.machine_.hidden.size
        self._chains, self._known_log_partition = {}, None

    def _fit_arguments(self) -> dict[str, Any]:
        return {"negative": self.negative, **self._training_arguments(int(self._seeds.randint(2**31)))}

    def _by_row(self, X: Any, function: Any) -> np.ndarray:
        X = self._validated(X, reset=False)
        with torch.no_grad():
            results = [function(self._states(rows)).cpu().numpy() for rows in chunks(X)]
        found = np.concatenate(results)
        return found.astype(X.dtype, copy=False) if found.ndim > 1 else found

    def _log_z(self) -> float:
        if self._known_log_partition is None:
            try:
                self._known_log_partition = self.machine_.log_partition()
            except NotEnumerable:
                self._known_log_partition = ais(self.machine_, betas=1000, check=False, seed=0).value
        return self._known_log_partition


def _continue(learner: Learner, chains: Mapping[str, Any]) -> None:
    """Restore the chains of an earlier call, repeated or cut to their present number."""
    now = _tensors(learner.state)
    if set(now) == set(chains):
        learner.state |= {name: cycled(chains[name], len(x)) for name, x in now.items()}


def _tensors(state: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}
