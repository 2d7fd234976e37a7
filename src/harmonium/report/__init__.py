"""Report of a run: one self-contained HTML page with samples, weights, learning curves, likelihoods, configuration."""

from ..guard import guard
from .evaluation import LikelihoodRow, Subject, evaluate
from .page import some_rows, write
from .sequences import Sequences, evaluate_frames
from .side_by_side import write as write_comparison

__all__ = [
    "LikelihoodRow",
    "Sequences",
    "Subject",
    "evaluate",
    "evaluate_frames",
    "some_rows",
    "write",
    "write_comparison",
]

guard(globals())
