"""Make the helpers of these tests and the conformance cases importable under the importlib mode."""

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parent.parent / "conformance"):
    sys.path.insert(0, str(folder))
