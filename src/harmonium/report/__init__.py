"""One self-contained HTML page for a run: what was trained, how it went, and what the machine has learned."""

from .evaluation import LikelihoodRow, Subject, evaluate
from .page import some_rows, write

__all__ = ["LikelihoodRow", "Subject", "evaluate", "some_rows", "write"]
