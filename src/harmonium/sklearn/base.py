"""Common to the estimators: validated input, and visible units chosen from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data
from torch import Tensor

from ..errors import InvalidOption
from ..machines import RBM as Machine
from ..machines import layout
from ..training import Redrawn
from ..units import Bernoulli, Gaussian, Unit
from .rows import FLOATS, SparseRows, chunks


class Estimator(BaseEstimator):
    """Validated input: dense or sparse rows of floating-point numbers."""

    def _validated(self, X: Any, *, reset: bool) -> Any:
        return validate_data(self, X, accept_sparse="csr", reset=reset, dtype=FLOATS)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """An estimator that returns the means of hidden units, with names of the output features."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(eq=False, repr=False)
class TrainedMachine(Estimator):
    """An estimator with a machine that ``harmonium.fit`` trains; its visible units are chosen from the data.

    The fields are the parameters of the estimators, which :class:`RBM` explains. A subclass may add fields and change
    defaults.
    """

    n_components: int = 100
    _: KW_ONLY
    visible: str | Unit = "auto"
    hidden: str | Unit = "bernoulli"
    negative: Any = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    optimizer: Any = None
    fit_options: Mapping[str, Any] | None = None
    dtype: str = "float32"
    device: str = "cpu"
    verbose: int = 0
    random_state: int | np.random.RandomState | None = None

    machine_: Machine = field(init=False)
    mean_: np.ndarray | None = field(init=False)
    scale_: np.ndarray | None = field(init=False)
    _redrawn: bool = field(init=False)

    _parameter_constraints = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "dtype": [StrOptions({"float32", "float64"})],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def _feature_units(self, X: Any) -> Unit:
        """Choose the units of the features, and the standardization of the columns."""
        self.mean_, self.scale_, self._redrawn = None, None, False
        layer = self._visible_units(X)
        if layer.size != X.shape[1]:
            raise InvalidOption(f"visible: expected {X.shape[1]} entries, as X has features, found {layer}")
        return layer

    def _visible_units(self, X: Any) -> Unit:
        if not (isinstance(self.visible, str) and self.visible == "auto"):
            return units("visible", self.visible, X.shape[1])
        values = X.data if sparse.issparse(X) else X
        if bool(((values >= 0) & (values <= 1)).all()):
            self._redrawn = not bool(((values == 0) | (values == 1)).all())
            return Bernoulli(X.shape[1])
        parts = [(len(rows), rows.mean(0, dtype=np.float64), rows.var(0, dtype=np.float64)) for rows in chunks(X)]
        counts, means, variances = (np.array(part) for part in zip(*parts, strict=True))
        mean = np.average(means, axis=0, weights=counts)
        variance = np.average(variances + (means - mean) ** 2, axis=0, weights=counts)
        constant = variance <= (1e-7 * np.abs(mean)) ** 2  # up to rounding
        self.mean_, self.scale_ = mean, np.where(constant, 1.0, np.sqrt(variance))
        return Gaussian(X.shape[1], learn=("bias", "precision"))

    def _training_arguments(self, seed: int) -> dict[str, Any]:
        return {
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "optimizer": self.optimizer,
            "seed": seed,
            "progress": bool(self.verbose),
            **(self.fit_options or {}),
        }

    @property
    def _shape(self) -> torch.Size:
        """The shape of the features in the visible layer."""
        return self.machine_.visible.shape

    def _place(self, machine: Machine) -> Machine:
        """Move a machine to the chosen device and data type."""
        return machine.to(device=layout.device(self.device), dtype=layout.dtype(self.dtype))

    def _source(self, X: Any) -> Any:
        """Return the rows in a form that ``fit`` takes: in memory, or a sparse matrix that is read batch by batch."""
        if sparse.issparse(X):
            return SparseRows(X, tuple(self._shape), self._states, redrawn=self._redrawn)
        states = self._states(X)
        return Redrawn(states) if self._redrawn else states

    def _states(self, rows: np.ndarray) -> Tensor:
        """Return rows (n, n_features) as states of the visible layer."""
        if self.mean_ is not None:
            rows = (rows - self.mean_) / self.scale_
        states = torch.from_numpy(np.ascontiguousarray(rows)).to(self.machine_.dtype)
        return states.view(len(rows), *self._shape)

    def _restored(self, states: Tensor) -> np.ndarray:
        """Return states of the visible layer as rows (n, n_features) in the units of the data."""
        rows = states.detach().flatten(1).cpu().numpy()
        return rows if self.mean_ is None else rows * self.scale_ + self.mean_


def units(what: str, given: str | Unit, size: int) -> Unit:
    """Return a layer of ``size`` units from a name with options, or the given layer."""
    if isinstance(given, Unit):
        return given
    if not isinstance(given, str):
        raise InvalidOption(f"{what}: expected the name of a unit or a layer of units, found {given!r}")
    (spec,) = parsed = layout.parse_layer(given)
    if spec.shape is None:
        name, _, options = given.partition(",")
        parsed = layout.parse_layer(f"{name}:{size}" + (f",{options}" if options else ""))
    return layout.layer(parsed)
