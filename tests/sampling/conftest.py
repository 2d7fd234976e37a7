"""Make the cases of the conformance suite and the machines of the likelihood tests importable."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("conformance", "likelihood")]
