"""Estimators for scikit-learn: ``BernoulliRBM``, a replacement of scikit-learn's class, ``RBM`` and ``RBMClassifier``.

All can be used in pipelines, searches over parameters, ``clone``, ``set_output`` and joblib.
"""

from __future__ import annotations

from ..extras import require
from ..guard import guard

require("sklearn", "harmonium.sklearn needs")

from .bernoulli import BernoulliRBM
from .classifier import RBMClassifier
from .machine import RBM

__all__ = ["RBM", "BernoulliRBM", "RBMClassifier"]

guard(globals())
