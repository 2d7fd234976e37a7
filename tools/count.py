"""Count the lines of code of each package: lines that are neither blank, nor comments, nor docstrings.

python tools/count.py
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "harmonium"
WITHOUT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}


def code_lines(path: Path) -> int:
    """Return the number of lines of code of a file."""
    source = path.read_text(encoding="utf-8")
    words: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            words |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in WITHOUT_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - words)


def main() -> None:
    """Print the table, the largest modules and the sum."""
    counted = {path: code_lines(path) for path in sorted(PACKAGE.rglob("*.py"))}
    packages = Counter[str]()
    for path, lines in counted.items():
        parts = path.relative_to(PACKAGE).parts
        packages[parts[0] if len(parts) > 1 else "(top level)"] += lines
    for name, lines in sorted(packages.items()):
        print(f"{lines:7,}  {name}")
    print(f"{sum(packages.values()):7,}  in {len(counted)} modules; the largest:")
    for path, lines in sorted(counted.items(), key=lambda item: -item[1])[:5]:
        print(f"{lines:7,}  {path.relative_to(PACKAGE)}")


if __name__ == "__main__":
    main()
