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


def name_of(path: Path) -> str:
    root = ROOT if path.is_relative_to(ROOT) else EXPERIMENTS.parent
    return path.relative_to(root).with_suffix("").as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_only_from_the_left(path):
    package = package_of(path)
    if package in TOP:
        return
    assert package in RANK, f"{package} has no place in the order of packages"
    for line, other in imports(path, ast.parse(path.read_text(encoding="utf-8"))):
        where = f"{name_of(path)}.py, line {line}: {package} imports {other}"
        if other == package:
            continue
        assert other in RANK, f"{where}, which has no place in the order of packages"
        assert RANK[other] < RANK[package], f"{where}, which is not to its left"


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


@pytest.mark.parametrize("path", EXPERIMENT_MODULES, ids=name_of)
def test_figures_do_not_import_figures(path):
    """What two figures share has a module of its own, so that each figure can be read and changed alone."""
    figures = {f"experiments.{module}" for module in experiments.EXPERIMENTS.values()}
    name = name_of(path).removesuffix("/__init__").replace("/", ".")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for line, target in experiment_imports(name, tree, package=path.stem == "__init__"):
        assert target not in figures, f"{name_of(path)}.py, line {line}: imports {target}"


def test_imports_of_figures_are_found():
    source = "from . import fig3\nfrom .fig5 import COLORS\nfrom ..judging import every\nimport experiments.tap.fig6\n"
    found = {target for _, target in experiment_imports("experiments.tap.fig4", ast.parse(source))}
    assert {"experiments.tap.fig3", "experiments.tap.fig5", "experiments.judging", "experiments.tap.fig6"} <= found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_package_does_not_need_the_experiments(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = f"harmonium.{name_of(path).replace('/', '.')}"
    assert not list(experiment_imports(name, tree))


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


@pytest.mark.parametrize("path", [*MODULES, *EXPERIMENT_MODULES], ids=name_of)
def test_no_question_of_type(path):
    lines = list(unit_tests(ast.parse(path.read_text(encoding="utf-8"))))
    assert not lines, f"{name_of(path)}.py asks for a kind of unit in lines {lines}"


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


@pytest.mark.parametrize("name", modules())
def test_docstrings(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    missing = []
    for key, value in vars(module).items():
        if key.startswith("_") or getattr(value, "__module__", None) != name:
            continue
        if inspect.isfunction(value) and not value.__doc__:
            missing.append(key)
        if inspect.isclass(value):
            if not value.__doc__:
                missing.append(key)
            missing += [
                f"{key}.{part}"
                for part, method in vars(value).items()
                if not part.startswith("_")
                and (inspect.isfunction(method) or isinstance(method, (property, staticmethod, classmethod)))
                and not inspect.getdoc(getattr(value, part))  # a method may inherit its docstring
            ]
    assert not missing, f"{name}: no docstring on {', '.join(missing)}"


@pytest.mark.slow
def test_pictures_are_loaded_when_they_are_asked_for():
    code = (
        "import sys, harmonium as hm; assert 'matplotlib' not in sys.modules; "
        "assert callable(hm.plots.tiles) and hasattr(hm, 'report') and not hasattr(hm, 'pictures')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
