"""``python -m harmonium.options [FILE]``: print the option tables, or update those in FILE."""

import sys
from pathlib import Path

from .markdown import TABLES, rewritten, table


def main(arguments: list[str]) -> None:
    """Print all tables, or rewrite the tables in the file ``arguments[0]``."""
    if not arguments:
        print("\n\n".join(f"[{name}]\n\n{table(name)}" for name in (*TABLES, "presets")))
        return
    path = Path(arguments[0])
    path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
