"""Do the tests find errors? Each planted error changes one function, and the tests named with it must fail.

    python tests/planted.py              # all errors; a minute or two
    python tests/planted.py onsager ais  # those whose names contain a word

Run it with any change that deletes or rewrites tests. Every error runs in a process of its own, in which the code of
one function is replaced. The status is 1 if an error is not found, or if a text to replace is not in the source.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
import textwrap
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import FunctionType

import pytest

REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True)
class Planted:
    """An error: in a function of a module, ``old`` becomes ``new``; the tests ``find`` it."""

    name: str
    place: str  # module:function, relative to harmonium
    old: str
    new: str
    find: tuple[str, ...]


ERRORS = [
    Planted(
        "bernoulli field",
        "units.bernoulli:Bernoulli._field",
        "B - A / 2",
        "B + A / 2",
        ("units/test_unit_consistency.py",),
    ),
    Planted("spin draws", "units.spin:Spin.sample", "sigmoid(2 * (", "sigmoid((", ("sampling/test_stationarity.py",)),
    Planted(
        "second moment",
        "units.quadratic:Quadratic.moments",
        "+ self.variance(B, A)",
        "",
        ("units/test_unit_consistency.py",),
    ),
    Planted(
        "gaussian in place",
        "units.gaussian:Gaussian.sample_",
        ".rsqrt()",
        ".reciprocal()",
        ("units/test_unit_inplace.py",),
    ),
    Planted("mask", "couplings.masked:Masked.correlate", ".mul_(self.mask)", "", ("couplings",)),
    Planted(
        "second chunk",
        "machines.enumeration:moments",
        "links[k].mul_(kept)",
        "links[k]",
        ("machines/test_machines.py",),
    ),
    Planted(
        "k + 1 sweeps",
        "training.negative.gibbs:PCD.step",
        "range(self.k)",
        "range(self.k + 1)",
        ("sampling/test_kernel.py",),
    ),
    Planted(
        "cd: old states",
        "training.negative.gibbs:CD._chains",
        "if sweep:",
        "if sweep > 1:",
        ("sampling/test_kernel.py",),
    ),
    Planted(
        "shared bias",
        "units.layer:UnitLayer.shared_sum",
        "value.sum(",
        "value.mean(",
        ("units/test_shared_parameters.py",),
    ),
    Planted(
        "centering",
        "training.coordinates:Coordinates.center",
        "(biases[k], self._offsets[k + 1])",
        "(self._offsets[k], biases[k + 1])",
        ("training/test_transforms.py",),
    ),
    Planted(
        "tempering: bottom rung",
        "training.negative.tempering:Exchanged.advance",
        "[0][-1]",
        "[0][0]",
        ("training/test_adapted_ladder.py::test_contract",),
    ),
    Planted(
        "annealing at the previous beta",
        "sampling.annealing:_anneal",
        "half_sweep(now, state, 0",
        "half_sweep(before, state, 0",
        ("likelihood/test_three_steps.py",),
    ),
    Planted(
        "mean weight",
        "likelihood.weights:Weights.log_mean",
        "- math.log(len(self))",
        "",
        ("likelihood/test_three_steps.py",),
    ),
    Planted(
        "exchange: global generator",
        "sampling.ladder:exchange",
        "noise.uniform(probability, generator)",
        "noise.uniform(probability)",
        ("sampling/test_tempering.py::test_same_seed_same_samples",),
    ),
    Planted(
        "two annealings with one seed",
        "likelihood.estimate:Streams.take",
        "self._left.pop(name)",
        'self._left["forward"]',
        ("likelihood/test_ais.py::test_every_annealing_has_its_own_random_numbers",),
    ),
    Planted(
        "observed units without weight",
        "likelihood.rows:_anneal",
        "+ several.log_weight(visible)",
        "",
        ("likelihood/test_three_steps.py",),
    ),
    Planted(
        "documents: weights of other lengths",
        "likelihood.documents:_directions",
        "forward.view(-1, runs).T",
        "forward.view(runs, -1)",
        ("likelihood/test_three_steps.py",),
    ),
    Planted("tap: half", "meanfield.layers:Link.energy", ".sum(1) / 2", ".sum(1)", ("meanfield/test_golden.py",)),
]


def main(words: list[str]) -> int:
    """Try the errors whose names contain one of the words; return the status of the process."""
    chosen = [error for error in ERRORS if not words or any(word in error.name for word in words)]
    missed = [error.name for error in chosen if not found(error)]
    print(
        f"{len(chosen) - len(missed)} of {len(chosen)} errors found",
        *(f"not found: {name}" for name in missed),
        sep="\n",
    )
    return 1 if missed else 0


def found(error: Planted) -> bool:
    """Whether a test fails, in a process of its own."""
    child = os.fork()
    if child == 0:
        output = os.open(os.devnull, os.O_WRONLY)
        os.dup2(output, 1)
        try:
            plant(error)
            tests = [str(REPOSITORY / "tests" / name) for name in error.find]
            marks = [] if "::" in tests[0] else ["-m", "not slow"]
            status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *marks, *tests]))
        except Exception as problem:
            print(f"{error.name}: {problem}", file=sys.stderr)
            status = 99
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"{'found' if status == 1 else f'NOT FOUND (status {status})':24}{error.name}", flush=True)
    return status == 1


def plant(error: Planted) -> None:
    """Replace the code of the function in this process."""
    module, _, path = error.place.partition(":")
    target: FunctionType = inspect.unwrap(
        reduce(inspect.getattr_static, path.split("."), importlib.import_module(f"harmonium.{module}"))
    )
    target = getattr(target, "fget", target)
    source = textwrap.dedent(inspect.getsource(target))
    if error.old not in source:
        raise ValueError(f"{error.old!r} is not in the source of {error.place}")
    tree = ast.parse(source.replace(error.old, error.new))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list, function.returns = [], None
    names = ", ".join(target.__code__.co_freevars)
    wrapper = ast.parse(f"def wrapper({names}):\n    pass")
    wrapper.body[0].body = [function, ast.parse(f"def last():\n return {function.name}").body[0].body[0]]  # type: ignore[attr-defined]
    space = dict(target.__globals__)
    exec(compile(ast.fix_missing_locations(wrapper), error.place, "exec"), space)
    changed = space["wrapper"](*(None for _ in target.__code__.co_freevars))
    target.__code__ = changed.__code__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
