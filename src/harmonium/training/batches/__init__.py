"""Training data: arrays, tensors, torch data sets, and NumPy memory maps larger than memory."""

from .arrays import ArraySource, DatasetSource, Redrawn, SparseSource, TensorSource
from .conversion import as_rows, as_source
from .hidden import HiddenStates
from .labeled import Labeled, as_labels
from .source import Pair, Source, visible_part
from .weighted import Weighted

__all__ = [
    "ArraySource",
    "DatasetSource",
    "HiddenStates",
    "Labeled",
    "Pair",
    "Redrawn",
    "Source",
    "SparseSource",
    "TensorSource",
    "Weighted",
    "as_labels",
    "as_rows",
    "as_source",
    "visible_part",
]
