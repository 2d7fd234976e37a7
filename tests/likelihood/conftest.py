"""The likelihood tests read the golden machines of the tests of machines, and the deep ones of those of training."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("machines", "training", "likelihood")]
