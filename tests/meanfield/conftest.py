"""Make the helpers in this folder and the conformance cases importable under importlib mode."""

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parent.parent / "conformance"):
    sys.path.insert(0, str(folder))
