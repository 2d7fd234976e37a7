"""Make the golden machines of tests/machines and the deep machines of tests/training importable."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("machines", "training", "likelihood")]
