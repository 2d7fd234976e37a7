"""``python -m experiments NAME …`` is ``harmonium reproduce NAME …``."""

from __future__ import annotations

import sys

from harmonium.cli import main

if __name__ == "__main__":
    main(["reproduce", *sys.argv[1:]])
