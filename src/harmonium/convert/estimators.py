"""Fitted estimators of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..couplings import Dense
from ..errors import InvalidData, InvalidOption
from ..extras import require
from ..machines import RBM
from ..units import Bernoulli

_FITTED = ("components_", "intercept_visible_", "intercept_hidden_")


def from_sklearn(estimator: Any) -> RBM:
    """The machine of a fitted ``sklearn.neural_network.BernoulliRBM``, with the dtype of its parameters.

    >>> import numpy as np
    >>> from sklearn.neural_network import BernoulliRBM
    >>> fitted = BernoulliRBM(n_components=2, n_iter=1, random_state=0).fit(np.eye(4))
    >>> rbm = from_sklearn(fitted)
    >>> bool(np.allclose(rbm.hidden_mean(np.eye(4)).detach(), fitted.transform(np.eye(4))))
    True
    """
    missing = [name for name in _FITTED if not hasattr(estimator, name)]
    if missing:
        raise InvalidData(
            f"estimator: expected a fitted BernoulliRBM, found {type(estimator).__name__} without {missing[0]}"
        )
    weight, visible, hidden = (torch.from_numpy(np.array(getattr(estimator, name))) for name in _FITTED)
    if weight.ndim != 2 or (hidden.numel(), visible.numel()) != tuple(weight.shape):
        raise InvalidData(
            f"estimator: expected components_ of shape {(hidden.numel(), visible.numel())}, found {tuple(weight.shape)}"
        )
    coupling = Dense(visible.numel(), hidden.numel(), weight.T.contiguous())
    return RBM(Bernoulli(visible.numel(), bias=visible), Bernoulli(hidden.numel(), bias=hidden), coupling)


def to_sklearn(rbm: RBM) -> Any:
    """A fitted ``sklearn.neural_network.BernoulliRBM`` with the parameters of a machine with Bernoulli units.

    >>> to_sklearn(RBM(4, 2)).components_.shape
    (2, 4)
    """
    names = {unit.name() for unit in rbm.layers}
    if names != {Bernoulli.name()}:
        raise InvalidOption(f"to_sklearn: expected bernoulli units, found {' and '.join(sorted(names))}")
    estimator = require("sklearn.neural_network", "conversion to scikit-learn needs").BernoulliRBM(
        n_components=rbm.hidden.size
    )
    visible, hidden = (unit.full(unit.bias).detach().cpu().numpy().ravel().copy() for unit in rbm.layers)
    estimator.components_ = rbm.coupling.matrix().detach().cpu().numpy().T.copy()
    estimator.intercept_visible_, estimator.intercept_hidden_ = visible, hidden
    estimator.n_features_in_, estimator._n_features_out = rbm.visible.size, rbm.hidden.size
    return estimator
