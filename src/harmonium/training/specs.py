"""Parse the strings for negative phases, schedules and optimizers: ``pcd:10``, ``linear:0.3``, ``adam``.

``fit`` and the command line use the form ``NAME[:ARGUMENT][,key=value…]``.
"""

from __future__ import annotations

import ast
import inspect
import math
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from ..errors import InvalidOption, unknown
from ..machines import RBM, Machine
from ..machines.enumeration import number_of_values
from . import negative as phases
from .batches import Source
from .descent import SGD, Adam
from .negative import NegativePhase, WeightedSum
from .schedules import Constant, Growing, Linear, Schedule

NEGATIVES: dict[str, Callable[..., NegativePhase]] = {
    "cd": phases.CD,
    "pcd": phases.PCD,
    "deep-pcd": phases.DeepPCD,
    "reconstruction": phases.Reconstruction,
    "exact": phases.Exact,
    "parallel-tempering": phases.ParallelTempering,
    "trajectory-tempering": phases.TrajectoryTempering,
    "unbiased-cd": phases.UnbiasedCD,
    "langevin": phases.Langevin,
    "gibbs-langevin": phases.GibbsLangevin,
    "mean-field": phases.MeanField,
    "discriminative": phases.Discriminative,
}
#: the default negative phase of a machine with labels
HYBRID = "discriminative+0.01*cd:1"
SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "constant": Constant,
    "linear": Linear,
    "growing": Growing,
}
OPTIMIZERS: dict[str, tuple[Callable[..., Any], float | None]] = {  # with default learning rates
    "sgd": (SGD, None),
    "adam": (Adam, 1e-3),
    "adamw": (torch.optim.AdamW, 1e-3),
    "rmsprop": (torch.optim.RMSprop, 1e-3),
}
_SMALL = 2**18
_MOST_CHAINS, _CHAIN_VALUES = 1000, 8000  # of the default persistent chains of small machines
_MOMENTUM_RATE = 0.05  # default learning rate of SGD with momentum
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def negative_phase(text: str, chains: int | None = None) -> NegativePhase:
    """Parse ``cd:10``, ``pcd:1``, ``parallel-tempering:1,rungs=10``, ``mean-field:10,method=naive`` and so on.

    Terms of a weighted sum are separated by ``+`` and may have a weight: ``discriminative+0.01*pcd:1``. The number of
    ``chains`` belongs to its terms that have chains.

    >>> negative_phase("pcd:5", chains=20)
    PCD(k=5, chains=20)
    >>> [(weight, phase.kind) for weight, phase in negative_phase("discriminative+0.01*cd:1").terms]
    [(1.0, 'Discriminative'), (0.01, 'CD')]
    """
    if "+" in text or "*" in text:
        parts = [_weighted(part, text) for part in text.split("+")]
        keep = [_takes_chains(part) for _, part in parts]
        return WeightedSum(
            [
                (weight, negative_phase(part, chains if own or not any(keep) else None))
                for (weight, part), own in zip(parts, keep, strict=True)
            ]
        )
    name, argument, options = split(text)
    if chains is not None:
        options["chains"] = chains
    return _call("negative phase", text, name, NEGATIVES, argument, int, options)


def recorded_phase(table: Mapping[str, Any]) -> NegativePhase:
    """Make a negative phase again from its :meth:`NegativePhase.config`.

    >>> recorded_phase({"name": "pcd", "k": 5, "chains": 20}).chains
    20
    """
    options = dict(table)
    name = options.pop("name")
    if name == "weighted-sum":
        terms = [dict(term) for term in options["terms"]]
        return WeightedSum([(term.pop("weight"), recorded_phase(term)) for term in terms])
    return NEGATIVES[name](**options)


def _weighted(term: str, text: str) -> tuple[float, str]:
    """Parse a term of a weighted sum, ``PHASE`` or ``WEIGHT*PHASE``."""
    weight, times, phase = term.rpartition("*")
    try:
        return float(weight) if times else 1.0, phase.strip()
    except ValueError:
        raise InvalidOption(
            f"negative phase '{text}': expected terms such as 0.01*cd:1, found '{term.strip()}'"
        ) from None


def _takes_chains(text: str) -> bool:
    name = split(text)[0]
    return name in NEGATIVES and "chains" in inspect.signature(NEGATIVES[name]).parameters


def default_negative(hidden_layers: int, by_row: bool = False, counts: bool = False) -> str:
    """Return the default negative phase of a Boltzmann machine with this number of hidden layers.

    If each row has a distribution of its own (``by_row``), with a context, a document length or rated items, chains
    start at the rows. A persistent chain would follow another distribution in every step and never reach equilibrium.

    Chains also start at the rows if hidden units are ``counts``. Their rates grow exponentially with the states of the
    visible units, and -F(v) is the sum of these rates: the mass of a mode changes by many nats in one step, and
    persistent chains are all in one mode or all in the other. Training then oscillates or diverges, even with small
    learning rates.

    >>> default_negative(1), default_negative(2), default_negative(1, by_row=True), default_negative(1, counts=True)
    ('pcd:1', 'deep-pcd:1', 'cd:1', 'cd:5')
    """
    if hidden_layers > 1:
        return "deep-pcd:1"
    if by_row:
        return "cd:1"
    return "cd:5" if counts else "pcd:1"


def is_small(machine: Machine) -> bool:
    """Return whether exact gradients cost little: an RBM with at most 2^18 values of units in a sum over its states.

    >>> import harmonium as hm
    >>> is_small(hm.RBM(784, 7)), is_small(hm.RBM(784, 9)), is_small(hm.RBM(8, 100))
    (True, False, True)
    """
    if not isinstance(machine, RBM) or machine.context is not None or machine.visible.conserves:
        return False
    return number_of_values(machine) <= _SMALL


def default_phase(machine: Machine, source: Source, batch_size: int, *, exact: bool = True) -> tuple[str, int | None]:
    """Return the default negative phase as a string, and its number of chains; None means the batch size.

    Small machines have exact gradients, except for rows with missing values, or if options that belong to sampled
    gradients are given (``exact=False``).

    >>> import harmonium as hm
    >>> from harmonium.training.batches import as_rows
    >>> rows = as_rows(torch.zeros(50, 6))
    >>> default_phase(hm.RBM(6, 2), rows, 100), default_phase(hm.RBM(6, 2), rows, 100, exact=False)
    (('exact', None), ('pcd:1', 1000))
    """
    if exact and source.complete and is_small(machine):
        return "exact", None
    text = negative_for(machine)
    return text, default_chains(text, machine, len(source), batch_size)


def negative_for(machine: Machine) -> str:
    """Return the default sampled negative phase of a machine, or of the machines of a stack.

    >>> import harmonium as hm
    >>> negative_for(hm.RBM(4, hm.units.Bernoulli(2))), negative_for(hm.RBM(4, hm.units.Poisson(2)))
    ('pcd:1', 'cd:5')
    """
    first = machine.machines[0]  # the machines of a stack are RBMs
    hidden = [unit for one in machine.machines for unit in one.layers[1:]]
    counts = any(bool(unit.tail().factorial.any()) for unit in hidden)
    return default_negative(len(first.couplings), first.context is not None or first.visible.conserves, counts)


def default_chains(negative: str, machine: Machine, rows: int, batch_size: int) -> int | None:
    """Return the number of chains of the default negative phase; None means the batch size.

    Few persistent chains lose modes. A small RBM has up to 1000 chains, with at most 8000 values in all, because they
    cost little. A batch has no more rows than the data; chains are not limited in this way.

    >>> from harmonium import RBM
    >>> [default_chains("pcd:1", RBM(*sizes), 500, 100) for sizes in ((6, 2), (30, 10), (784, 500))]
    [1000, 200, None]
    >>> default_chains("pcd:1", RBM(784, 500), 30, 100), default_chains("cd:1", RBM(6, 2), 30, 100)
    (100, None)
    """
    first = machine.machines[0]
    if not _takes_chains(negative) or len(first.couplings) > 1:
        return None
    values = sum(unit.size for unit in first.layers)
    chains = max(min(batch_size, max(rows, _MOST_CHAINS)), min(_MOST_CHAINS, _CHAIN_VALUES // values))
    return chains if chains > min(rows, batch_size) else None


def default_optimizer(
    conserves: bool, rate: float | None = None, momentum: float | None = None, *, exact: bool = False
) -> str:
    """Return the default optimizer: sgd, or adam for documents and ratings (``Unit.conserves``) and exact gradients.

    The counts of frequent and of rare words differ by orders of magnitude in their variance, and so do documents in
    their length. One learning rate that is small enough for the frequent words is too small for all others. A learning
    rate or momentum that is given is one of sgd.

    The gradients of strong couplings are many times smaller than those of weak ones. Exact gradients have little noise,
    so that adam can enlarge them.

    >>> default_optimizer(False), default_optimizer(True), default_optimizer(True, rate=0.1)
    ('sgd', 'adam', 'sgd')
    >>> default_optimizer(False, exact=True)
    'adam'
    """
    return "adam" if (conserves or exact) and rate is None and momentum is None else "sgd"


def schedule(text: str) -> Schedule:
    """Parse ``constant``, ``linear:0.3`` or ``growing:10``.

    >>> schedule("linear:0.5")
    Linear(constant=0.5)
    """
    name, argument, options = split(text)
    number = float if name == "linear" else int
    return _call("schedule", text, name, SCHEDULES, argument, number, options)


def optimizer(
    name: str, rate: float | None = None, momentum: float | None = None, *, exact: bool = False
) -> Callable[[Any], Any] | None:
    """Return a function from parameters to an optimizer; None for learning rates that are chosen from the data."""
    kind, _ = _optimizer(name)
    rate = default_rate(name, momentum, exact=exact) if rate is None else rate
    if rate is None:
        return None
    if not 0 < rate < math.inf:
        raise InvalidOption(f"learning_rate: expected a positive number, found {rate}")
    options: dict[str, Any] = {"lr": rate}
    if momentum is not None:
        if "momentum" not in inspect.signature(kind).parameters:
            raise InvalidOption(f"momentum: expected optimizer sgd or rmsprop, found '{name}', which has no momentum")
        options["momentum"] = momentum
    return partial(kind, **options)


def default_rate(name: str, momentum: float | None, *, exact: bool = False) -> float | None:
    """Return the default learning rate of an optimizer; None if ``fit`` chooses it from the data.

    >>> default_rate("sgd", None), default_rate("adam", None), default_rate("adam", None, exact=True)
    (None, 0.001, None)
    """
    rate = None if exact and name == "adam" else _optimizer(name)[1]
    return _MOMENTUM_RATE if rate is None and momentum is not None else rate


def _optimizer(name: str) -> tuple[Callable[..., Any], float | None]:
    if name not in OPTIMIZERS:
        raise unknown("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name]


def _call(
    kind: str,
    text: str,
    name: str,
    known: Mapping[str, Callable[..., Any]],
    argument: str | None,
    number: type[int] | type[float],
    options: dict[str, Any],
) -> Any:
    if name not in known:
        raise unknown(kind, name, known)
    allowed = inspect.signature(known[name], eval_str=True).parameters
    for option, value in options.items():
        if option not in allowed:
            if not allowed:
                raise InvalidOption(f"{kind} '{name}' has no options, found {option}")
            raise unknown(f"option of {name}", option, allowed)
        check_type(text, option, value, allowed[option].annotation)
    values = []
    if argument is not None:
        if not allowed:
            raise InvalidOption(f"{kind} '{text}': expected no number after {name}, found '{argument}'")
        first = next(iter(allowed))
        if first in options:
            raise InvalidOption(f"{kind} '{text}': {first} is given twice, after the colon and as an option")
        try:
            values = [number(argument)]
        except ValueError:
            raise InvalidOption(
                f"{kind} '{text}': expected {_WORDS[number]} after the colon, found '{argument}'"
            ) from None
    return known[name](*values, **options)


def check_type(text: str, option: str, value: Any, annotation: Any) -> None:
    """Raise if a value does not have one of the plain types in a parameter's annotation; int is accepted for float."""
    if annotation is inspect.Parameter.empty:
        return
    kinds = [kind for kind in (typing.get_args(annotation) or (annotation,)) if kind in _WORDS]
    if not kinds:
        raise InvalidOption(f"'{text}': {option} cannot be set in a string")
    finite = not isinstance(value, float) or math.isfinite(value)
    if not finite or not any(type(value) is kind or (kind is float and type(value) is int) for kind in kinds):
        raise InvalidOption(f"'{text}': {option}: expected {' or '.join(_WORDS[k] for k in kinds)}, found {value!r}")


def split(text: str) -> tuple[str, str | None, dict[str, Any]]:
    """Split ``NAME[:ARGUMENT][,key=value…]`` into name, argument and options.

    >>> split("mean-field:3,method=naive")
    ('mean-field', '3', {'method': 'naive'})
    """
    head, *rest = [part.strip() for part in text.split(",")]
    name, colon, argument = head.partition(":")
    options = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise InvalidOption(f"'{text}': expected key=value after a comma, found '{part}'")
        options[key.strip().replace("-", "_")] = _literal(value.strip())
    return name.strip().lower().replace("_", "-"), argument.strip() if colon else None, options


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text.lower(), text)
    return value if isinstance(value, (int, float, bool, str)) else text
