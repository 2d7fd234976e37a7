"""Unit types, one file each, with the common interface :class:`Unit`."""

from ..guard import guard
from .at_most_one import AtMostOne
from .base import Tail, Unit
from .bernoulli import Bernoulli
from .binomial import Binomial
from .categories import Categories
from .double_relu import DoubleReLU
from .gaussian import Gaussian
from .mixed import Mixed
from .multinary import Multinary
from .multinomial import Multinomial
from .poisson import Poisson
from .potts import Potts
from .ratings import Ratings
from .relu import ReLU
from .spin import Spin
from .truncated_gauss_bernoulli import TruncatedGaussBernoulli
from .truncated_gaussian import TruncatedGaussian

__all__ = [
    "AtMostOne",
    "Bernoulli",
    "Binomial",
    "Categories",
    "DoubleReLU",
    "Gaussian",
    "Mixed",
    "Multinary",
    "Multinomial",
    "Poisson",
    "Potts",
    "Ratings",
    "ReLU",
    "Spin",
    "Tail",
    "TruncatedGaussBernoulli",
    "TruncatedGaussian",
    "Unit",
]

guard(globals(), methods=False)
