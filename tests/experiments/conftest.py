"""Makes the helpers beside these tests, and those for deep machines, importable under pytest's importlib mode."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "training")]
