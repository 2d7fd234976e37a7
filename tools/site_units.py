"""Pages of the documentation for each unit type, made from the unit itself.

The text is the docstring, which says what the unit is good for; the tables come from the class and from an example of
it. A new unit type in ``harmonium.units`` gets its page automatically.
"""

from __future__ import annotations

import importlib
import inspect
import re

from site_docstrings import as_markdown

import harmonium as hm
from harmonium.units import Unit

#: units that need more than a shape to show their functions
EXAMPLES = {
    "Binomial": "Binomial(1, trials=4)",
    "Categories": "Categories([3, 2])",
    "Mixed": "Mixed(Bernoulli(3), Potts((1, 4)))",
    "Multinary": "Multinary(1, levels=8, scale=0.5)",
    "Multinomial": "Multinomial(3, total=6)",
    "Ratings": "Ratings((1, 5), complete=True)",
    "TruncatedGaussian": "TruncatedGaussian(1, precision=4.0)",
}
_SHAPES = ("1", "(1, 4)")


def unit_types() -> list[type[Unit]]:
    """Return the public unit types, by name."""
    found = [getattr(hm.units, name) for name in hm.units.__all__]
    return sorted(
        (kind for kind in found if issubclass(kind, Unit) and kind is not Unit), key=lambda kind: kind.__name__
    )


def path_of(kind: type[Unit]) -> str:
    """Return the path of the page of a unit type."""
    return f"units/{kind.name()}.md"


def example(kind: type[Unit]) -> str:
    """Return an expression for a small layer, ``Bernoulli(1)``; the first one of ``_SHAPES`` that has a mean.

    >>> example(hm.units.Spin), example(hm.units.Potts)
    ('Spin(1)', 'Potts((1, 4))')
    """
    name = kind.__name__
    tried = [EXAMPLES[name]] if name in EXAMPLES else [f"{name}({shape})" for shape in _SHAPES]
    for expression in tried:
        try:
            hm.plots.unit_curves(built(expression))
        except (TypeError, hm.errors.HarmoniumError):
            continue
        return expression
    raise ValueError(f"{name}: none of {', '.join(tried)} shows its functions; add an expression to EXAMPLES")


def built(expression: str) -> Unit:
    """Return the layer of an expression such as ``Bernoulli(1)``."""
    return eval(expression, vars(importlib.import_module("harmonium.units")).copy())


def page(kind: type[Unit]) -> str:
    """Return the page of a unit type."""
    expression = example(kind)
    unit = built(expression)
    qualified = re.sub(r"\b([A-Z]\w+)\(", r"hm.units.\1(", expression)
    rows = {
        "values": unit.support.description,
        "name in files and commands": f"`{kind.name()}`",
        "number of states of one unit": _states(unit),
        "activation as a torch module": f"`{type(unit.to_module()).__name__}`",
    }
    table = "\n".join(["| | |", "|---|---|", *(f"| {key} | {text} |" for key, text in rows.items())])
    prose = _prose(kind)
    return "\n\n".join(
        [
            f"# {kind.__name__}",
            prose,
            f"For `{expression}`:",
            table,
            "## Parameters",
            _parameters(unit),
            "## Functions",
            "In a field B the unit has the log-partition function ln Z(B) = ln ∫ dx e^{-U(x) + Bx}; the mean is its "
            "first derivative by B, the variance its second, and the mode is the most probable value.",
            f"```python\nimport harmonium as hm\n\nunit = {qualified}\nhm.plots.unit_curves(unit)\n```",
            f"[All methods](../reference/units.md#harmonium.units.{kind.__name__}) are in the reference, and the "
            "papers in the [references](../references.md).",
        ]
    )


def index() -> str:
    """Return the page with a table of all unit types."""
    rows = [
        f"| [{kind.__name__}]({kind.name()}.md) | {built(example(kind)).support.description} | {_summary(kind)} |"
        for kind in unit_types()
    ]
    return "\n".join(
        [
            "# Units",
            "",
            "Any unit can be visible or hidden. Choose the visible units by the values of the data, and Bernoulli or "
            "ReLU units for the hidden layer if nothing speaks against it. A pair whose partition function diverges, "
            "such as Poisson with Gaussian units, raises an error. "
            "[Your own unit](../tutorials/pytorch.md) needs two methods.",
            "",
            "| unit | values of one unit | use it for |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _prose(kind: type[Unit]) -> str:
    """The docstring without examples and arguments."""
    text = inspect.getdoc(kind) or ""
    text = re.split(r"^(?:>>> |Args:|Example:)", text, maxsplit=1, flags=re.MULTILINE)[0]
    return as_markdown(text).strip()


def _summary(kind: type[Unit]) -> str:
    """What the unit is used for: the sentence of the docstring that begins with "Used for"."""
    match = re.search(r"Used for (.*?)(?<!et al)\.(?:\s|$)", " ".join((inspect.getdoc(kind) or "").split()))
    return re.sub(r" \([^)]*(?:\d{4}|\.md)\)", "", match[1]) if match else ""


def _states(unit: Unit) -> str:
    number = unit.support.number if unit.support.event_dim == 0 or unit.cardinality else None
    return "infinite" if number is None else str(number)


def _parameters(unit: Unit) -> str:
    rows = ["| natural parameter | shape | learned by default | default |", "|---|---|---|---|"]
    for member in unit.members:
        prefix = f"{type(member).__name__}: " if len(unit.members) > 1 else ""
        signature = inspect.signature(type(member)).parameters
        for name in member.naturals:
            default = signature[name].default if name in signature else ""
            learned = "yes" if name in member.learn or name in member.learn_as_visible else "no"
            rows.append(f"| {prefix}`{name}` | {tuple(getattr(member, name).shape)} | {learned} | {default} |")
    return "\n".join(rows)
