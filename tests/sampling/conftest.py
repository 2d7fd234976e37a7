"""The cases and the oracle of the conformance suite and the hard machines of the likelihood tests serve here too."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("conformance", "likelihood")]
