"""Make ``golden_interactions`` importable under the importlib mode of pytest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
