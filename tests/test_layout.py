"""The shape of the package: who may import whom, no ladders of unit types, a docstring on all that is public."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from architecture import ORDER, PACKAGE, TOP, imports, package_of

import experiments
import harmonium
from harmonium import units

ROOT = PACKAGE
EXPERIMENTS = Path(experiments.__file__).parent
RANK = {name: rank for rank, name in enumerate(ORDER)}
MODULES = sorted(ROOT.rglob("*.py"))
EXPERIMENT_MODULES = sorted(EXPERIMENTS.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in [*MODULES, *EXPERIMENT_MODULES]}


def name_of(path: Path) -> str:
    root = ROOT if path.is_relative_to(ROOT) else EXPERIMENTS.parent
    return path.relative_to(root).with_suffix("").as_posix()


def wrong_imports(path: Path) -> Iterator[str]:
    """What is wrong with the imports of a module of the package."""
    package = package_of(path)
    if package in TOP:
        return
    if package not in RANK:
        yield f"{package} has no place in the order of packages"
        return
    for line, other in imports(path, TREES[path]):
        where = f"{name_of(path)}.py, line {line}: {package} imports {other}"
        if other not in RANK:
            yield f"{where}, which has no place in the order of packages"
        elif RANK[other] > RANK[package]:
            yield f"{where}, which is not to its left"


@pytest.mark.slow
def test_imports_only_from_the_left():
    assert [problem for path in MODULES for problem in wrong_imports(path)] == []


def test_the_order_is_checked():
    """The checker sees relative and absolute imports, at any depth."""
    source = "from ..training import fit\nimport harmonium.cli\ndef f():\n    from ... import likelihood\n"
    path = ROOT / "machines" / "deep" / "x.py"
    found = list(imports(path, ast.parse(source)))
    assert found == [(1, "machines"), (2, "cli"), (4, "likelihood")]


def experiment_imports(name: str, tree: ast.AST, *, package: bool = False) -> Iterator[tuple[int, str]]:
    """(line, module) of every import of ``experiments``, also those inside functions; names may be of a module."""
    here = name.split(".") if package else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            targets = [prefix, *(f"{prefix}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from ((node.lineno, target) for target in targets if target.split(".")[0] == "experiments")


def test_figures_do_not_import_figures():
    """What two figures share has a module of its own, so that each figure can be read and changed alone."""
    figures = {f"experiments.{module}" for module in experiments.EXPERIMENTS.values()}
    assert [
        f"{name_of(path)}.py, line {line}: imports {target}"
        for path in EXPERIMENT_MODULES
        for line, target in experiment_imports(
            name_of(path).removesuffix("/__init__").replace("/", "."), TREES[path], package=path.stem == "__init__"
        )
        if target in figures
    ] == []


def test_imports_of_figures_are_found():
    source = "from . import fig3\nfrom .fig5 import COLORS\nfrom ..judging import every\nimport experiments.tap.fig6\n"
    found = {target for _, target in experiment_imports("experiments.tap.fig4", ast.parse(source))}
    assert {"experiments.tap.fig3", "experiments.tap.fig5", "experiments.judging", "experiments.tap.fig6"} <= found


@pytest.mark.slow
def test_the_package_does_not_need_the_experiments():
    names = {path: f"harmonium.{name_of(path).replace('/', '.')}" for path in MODULES}
    assert [names[path] for path in MODULES if list(experiment_imports(names[path], TREES[path]))] == []


UNIT_TYPES = set(units.__all__) - {"Tail", "Unit"}


def unit_tests(tree: ast.AST) -> Iterator[int]:
    """Lines with an ``isinstance``, ``issubclass`` or ``type(x) is`` on a kind of unit."""
    for node in ast.walk(tree):
        suspects: list[ast.AST] = []
        if isinstance(node, ast.Call) and _names([node.func]) & {"isinstance", "issubclass"}:
            suspects = list(node.args[1:])
        elif isinstance(node, ast.Compare) and "type" in _names([node.left, *node.comparators]):
            suspects = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchClass):
            suspects = [node.cls]
        if _names(suspects) & UNIT_TYPES:
            yield node.lineno


def _names(trees: list[ast.AST]) -> set[str]:
    parts = [part for tree in trees for part in ast.walk(tree)]
    plain = {part.id for part in parts if isinstance(part, ast.Name)}
    return plain | {part.attr for part in parts if isinstance(part, ast.Attribute)}


@pytest.mark.slow
def test_no_question_of_type():
    assert {name_of(path): lines for path, tree in TREES.items() if (lines := list(unit_tests(tree)))} == {}


def test_questions_of_type_are_found():
    source = "isinstance(x, Potts)\nisinstance(x, (int, units.Spin))\ntype(x) is Gaussian\nisinstance(x, Unit)\n"
    assert list(unit_tests(ast.parse(source))) == [1, 2, 3]


def modules() -> list[str]:
    found = [
        module
        for package in (harmonium, experiments)
        for module in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")
    ]
    return ["harmonium", "experiments", *(module.name for module in found if not module.name.endswith("__main__"))]


def without_docstring(name: str) -> Iterator[str]:
    """The public names of a module that have no docstring, with the module itself."""
    module = importlib.import_module(name)
    if not module.__doc__:
        yield name
    for key, value in vars(module).items():
        if key.startswith("_") or getattr(value, "__module__", None) != name:
            continue
        if (inspect.isfunction(value) or inspect.isclass(value)) and not value.__doc__:
            yield f"{name}.{key}"
        if inspect.isclass(value):
            yield from (
                f"{name}.{key}.{part}"
                for part, method in vars(value).items()
                if not part.startswith("_")
                and (inspect.isfunction(method) or isinstance(method, (property, staticmethod, classmethod)))
                and not inspect.getdoc(getattr(value, part))  # a method may inherit its docstring
            )


def test_docstrings():
    assert [missing for name in modules() for missing in without_docstring(name)] == []


@pytest.mark.slow
def test_pictures_are_loaded_when_they_are_asked_for():
    code = (
        "import sys, harmonium as hm; assert 'matplotlib' not in sys.modules; "
        "assert callable(hm.plots.tiles) and hasattr(hm, 'report') and not hasattr(hm, 'pictures')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
