"""The likelihood tests read the same golden machines as the tests of machines."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "machines"))
