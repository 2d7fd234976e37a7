"""Files and objects of other libraries: read their machines, and write machines for them. Nothing is unpickled."""

from ..guard import guard
from .dca_files import read_adabmdca
from .detected import read, write
from .estimators import from_sklearn, to_sklearn
from .feedforward import write_onnx
from .julia_files import read_julia
from .matlab_files import read_matlab
from .rbms_files import read_rbms, read_rbms_trajectory, write_rbms

__all__ = [
    "from_sklearn",
    "read",
    "read_adabmdca",
    "read_julia",
    "read_matlab",
    "read_rbms",
    "read_rbms_trajectory",
    "to_sklearn",
    "write",
    "write_onnx",
    "write_rbms",
]

guard(globals())
