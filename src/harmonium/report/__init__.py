"""Report of a run: one self-contained HTML page with samples, weights, learning curves, likelihoods, configuration."""

from .evaluation import LikelihoodRow, Subject, evaluate
from .page import some_rows, write

__all__ = ["LikelihoodRow", "Subject", "evaluate", "some_rows", "write"]
