"""Define the order of the packages, and generate the graph of their imports from the code.

    python tools/architecture.py          # rewrite the generated parts of docs/architecture.md and CONTRIBUTING.md
    python tools/architecture.py --check  # exit with status 1 if one of them is out of date

``ORDER`` is the only definition of the order. ``tests/test_layout.py`` checks that the imports follow it. Everything
else on the pages is read from the source: which packages there are, what they import, and the first line of their
docstrings.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "src" / "harmonium"

#: a module imports only from packages earlier in this list, and from its own
ORDER = [
    *("__version__", "errors", "guard", "shown", "locking", "paths", "checks", "arrays", "allocation"),
    *("extras", "signatures", "presets", "registry", "kernels", "noise", "estimates"),
    *("units", "couplings", "machines", "files", "data"),
    *("sampling", "quality", "meanfield", "likelihood"),
    *("training", "testing", "runs", "interactions", "spectra", "landscape", "replicas", "tasks", "convert"),
    *("plots", "report", "sklearn", "cli"),
]
#: these modules import everything, and no module imports them
TOP = {"__init__", "__main__"}
#: where generated text goes, between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``
PAGES = {
    "docs/architecture.md": ("order", "graph", "packages"),
    "CONTRIBUTING.md": ("order",),
}


# -- reading the code -----------------------------------------------------------------------------------------------


def modules() -> list[Path]:
    """Return every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def package_of(path: Path) -> str:
    """Return the package or top-level module that a file belongs to, such as ``units``."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Return (line, package of harmonium) of every import in a file, including those inside functions."""
    here = ["harmonium", *path.relative_to(PACKAGE).with_suffix("").parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            targets = [f"{prefix}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            parts = target.split(".")
            if parts[0] == "harmonium":
                yield node.lineno, parts[1] if len(parts) > 1 else "__init__"


@cache
def graph() -> dict[str, frozenset[str]]:
    """Return the packages that each package imports, in the order of ``ORDER``."""
    found: dict[str, set[str]] = {}
    for path in modules():
        package = package_of(path)
        if package not in TOP:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found.setdefault(package, set()).update(other for _, other in imports(path, tree))
    names = [name for name in ORDER if name in found] + sorted(set(found) - set(ORDER))
    return {name: frozenset(found[name] & set(found) - {name}) for name in names}


def purpose(package: str) -> str:
    """Return the first line of the docstring of a package or top-level module."""
    folder = PACKAGE / package
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ").replace("|", r"\|")


# -- the graph ------------------------------------------------------------------------------------------------------


def reachable(package: str) -> frozenset[str]:
    """Return all packages that a package imports, directly or indirectly. (``ORDER`` excludes cycles.)"""
    direct = graph()[package]
    return direct.union(*(reachable(other) for other in direct))


def reduced(package: str) -> list[str]:
    """Return the direct imports of a package that are not implied by its other imports."""
    direct = graph()[package]
    implied = frozenset[str]().union(*(reachable(other) for other in direct))
    return [name for name in graph() if name in direct - implied]


def groups() -> list[list[str]]:
    """Return the packages in order, in groups of consecutive packages that do not import each other."""
    found: list[list[str]] = []
    for package, imported in graph().items():
        if found and not imported & set(found[-1]):
            found[-1].append(package)
        else:
            found.append([package])
    return found


# -- the pages ------------------------------------------------------------------------------------------------------


def order_text() -> str:
    """Return the order as a code block: groups of packages, separated by arrows."""
    lines = [""]
    for number, group in enumerate(groups()):
        word = ("" if number == 0 else "→ ") + ", ".join(group) + " "
        if len(lines[-1] + word) > 110:
            lines.append("")
        lines[-1] += word
    return "\n".join(["```text", *(line.rstrip() for line in lines), "```"])


def graph_text() -> str:
    """Return the reduced graph in Mermaid, which GitHub renders; an arrow points to the importing package."""
    arrows = [f"    {other} --> {package}" for package in graph() for other in reduced(package)]
    return "\n".join(["```mermaid", "flowchart TD", *arrows, "```"])


def packages_text() -> str:
    """Return a table of all packages with their purposes and direct imports."""
    rows = ["| package | contents | imports |", "|---|---|---|"]
    for package, imported in graph().items():
        names = ", ".join(f"`{name}`" for name in graph() if name in imported)
        rows.append(f"| `{package}` | {purpose(package)} | {names or '(nothing)'} |")
    return "\n".join(rows)


def updated(text: str, parts: tuple[str, ...]) -> str:
    """Return a page with its generated parts updated."""
    for part in parts:
        begin, end = f"<!-- begin {part} -->", f"<!-- end {part} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"expected one pair of markers {begin} … {end}")
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        text = f"{before}{begin}\n{WRITERS[part]()}\n{end}{after}"
    return text


WRITERS = {"order": order_text, "graph": graph_text, "packages": packages_text}


def outdated() -> dict[Path, str]:
    """Return the pages that are out of date, with their updated text."""
    pages = {}
    for name, parts in PAGES.items():
        path = REPOSITORY / name
        text = path.read_text(encoding="utf-8")
        new = updated(text, parts)
        if new != text:
            pages[path] = new
    return pages


def main() -> int:
    """Write the pages, or with ``--check`` only report which are out of date."""
    pages = outdated()
    if "--check" in sys.argv[1:]:
        for path in pages:
            print(f"{path.relative_to(REPOSITORY)} is out of date: run python tools/architecture.py")
        return int(bool(pages))
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
        print(f"updated {path.relative_to(REPOSITORY)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
