"""What a machine has learned: interactions between its visible units, its landscape of states, its spectrum.

>>> import harmonium as hm
>>> rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(3))
>>> rbm.initialize(weights="normal", scale=1.0, seed=0)
>>> n_body(rbm, order=2).shape
torch.Size([6, 6])
>>> InteractionModel.from_rbm(rbm, max_order=6)
InteractionModel(6 binary variables: 6 of order 1, 15 of order 2, 20 of order 3, 15 of order 4, 6 of order 5,
1 of order 6)
"""

from ..interactions.comparison import Comparison
from ..spectra.dynamics import Kinematics, LinearTheory, drive, empirical_term, kinematics, mean_slope
from ..replicas.ensemble import Ensemble
from ..interactions.n_body import n_body
from ..landscape.solutions import Growth, Landscape, growth, find_solutions
from ..interactions.model import InteractionModel
from ..spectra.marchenko_pastur import MarchenkoPastur
from ..replicas.phases import PhaseDiagram, phase_diagram
from ..interactions.reliability import Halves, SplitHalf, largest_order, relative_error, split_half
from ..interactions.selection import OrderResult, OrderSelection, degree_limited, maximal_order, order_selection
from ..spectra.singular_values import DataModes, SpectralHistory, Spectrum, data_modes, spectral_history, spectrum
from ..interactions.statistics import Decay, Strength, agreement, compare, exact_versus_small, scaling, strength
from ..interactions.ranking import strongest
from ..replicas.thermodynamics import SaddlePoint, response, saddle_point, saddle_points
from ..interactions.tuples import all_tuples, random_tuples

__all__ = [
    "Comparison",
    "DataModes",
    "Decay",
    "Ensemble",
    "Growth",
    "Halves",
    "InteractionModel",
    "Kinematics",
    "Landscape",
    "LinearTheory",
    "MarchenkoPastur",
    "OrderResult",
    "OrderSelection",
    "PhaseDiagram",
    "SaddlePoint",
    "SpectralHistory",
    "Spectrum",
    "SplitHalf",
    "Strength",
    "agreement",
    "all_tuples",
    "compare",
    "data_modes",
    "degree_limited",
    "drive",
    "empirical_term",
    "exact_versus_small",
    "growth",
    "interactions",
    "kinematics",
    "landscape",
    "largest_order",
    "maximal_order",
    "mean_slope",
    "order_selection",
    "phase_diagram",
    "random_tuples",
    "relative_error",
    "response",
    "saddle_point",
    "saddle_points",
    "scaling",
    "spectral_history",
    "spectrum",
    "split_half",
    "strength",
    "strongest",
]
