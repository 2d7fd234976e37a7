"""Effective interactions between the visible units of an RBM (Bulso & Roudi 2021).

The formula for an interaction of any order is in :mod:`harmonium.interactions.n_body`.

>>> import harmonium as hm
>>> rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(3))
>>> rbm.initialize(weights="normal", scale=1.0, seed=0)
>>> n_body(rbm, order=2).shape
torch.Size([6, 6])
>>> InteractionModel.from_rbm(rbm, max_order=6)
InteractionModel(6 binary variables: 6 of order 1, 15 of order 2, 20 of order 3, 15 of order 4, 6 of order 5,
1 of order 6)
"""

from ..guard import guard
from .comparison import InteractionComparison
from .contact_scores import ContactRanking, average_product_correction, contacts, coupling_norms
from .model import InteractionModel
from .n_body_formula import n_body
from .potts_model import PottsModel
from .ranking import strongest
from .reliability import Halves, SplitHalf, largest_order, relative_error, split_half
from .selection import NestedMachines, OrderSelection, degree_limited, maximal_order, order_selection
from .statistics import Decay, Strength, agreement, compare, exact_versus_small, scaling, strength
from .tuples import all_tuples, random_tuples

__all__ = [
    "ContactRanking",
    "Decay",
    "Halves",
    "InteractionComparison",
    "InteractionModel",
    "NestedMachines",
    "OrderSelection",
    "PottsModel",
    "SplitHalf",
    "Strength",
    "agreement",
    "all_tuples",
    "average_product_correction",
    "compare",
    "contacts",
    "coupling_norms",
    "degree_limited",
    "exact_versus_small",
    "largest_order",
    "maximal_order",
    "n_body",
    "order_selection",
    "random_tuples",
    "relative_error",
    "scaling",
    "split_half",
    "strength",
    "strongest",
]

guard(globals())
