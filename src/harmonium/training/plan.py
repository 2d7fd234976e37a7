"""The plan of a training: one declaration of its options, and the only place that chooses a default.

:func:`harmonium.fit`, ``harmonium train`` and ``harmonium.sklearn.RBM`` make the same plan. What follows from the kind
of data is :meth:`Source.defaults`, with its rows.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import noise
from ..checks import as_table, as_text, count, from_table, parse, written
from ..errors import InvalidData, InvalidOption, unknown
from ..machines import Machine
from ..machines.enumeration import is_small
from ..presets import read_configuration
from . import distributed
from .batches import Source
from .constraints import CONSTRAINTS, Constraint
from .descent import AnyOptimizer
from .initial import INITIAL, Initial, Keep, Normal, has_weights
from .negative import CD, PCD, PHASES, DeepPCD, Exact, NegativePhase, WeightedSum
from .optimizers import OPTIMIZERS, SGD, Adam, Optimizer
from .penalties import PENALTIES, Penalty
from .precision import AUTO, BFLOAT16, FLOAT32
from .precision import resolved as resolved_precision
from .schedules import SCHEDULES, Constant, Linear

_PASSES, _UPDATES = 10, 4000  # of the default training
_MOST_CHAINS, _CHAIN_VALUES = 1000, 8000  # of the default persistent chains of small machines
_SMOOTHING = 0.01  # of the offsets of centered coordinates
_CUSTOM = "custom"  # what a configuration says about an object or a function without a name
_PRECISIONS = (FLOAT32, BFLOAT16, AUTO)
_SUM = "weighted-sum"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a machine is trained. A field of None is chosen by :meth:`resolved`.

    Negative phase, optimizer, schedule, penalties, constraints and initial weights are objects, or the text of the
    command line: ``negative="pcd:2,chains=100"`` is ``negative=PCD(2, chains=100)``.

    Args:
        negative: negative phase, which computes the moments of the model: "cd:10", "pcd:1", "exact",
            "deep-pcd:1,positive=mean-field", "parallel-tempering:1,rungs=10", "mean-field:3,method=tap",
            "discriminative+0.01*cd:1", …
        epochs: number of passes over the data; 0 for a deep machine that is only pretrained.
        pretrain: number of epochs of each layer of a deep machine or a stack, before all are trained together.
        batch_size: number of rows of an update.
        optimizer: "sgd", "sgd,momentum=0.9", "adam", "adamw", "rmsprop", a ``torch.optim`` optimizer of the parameters
            of the machine, or a function that makes one from them.
        learning_rate: a number, or "auto" to choose it from the data.
        schedule: of the learning rate: "constant", "linear:0.3", "growing:10", or a function of the clock that returns
            a ``Setting``.
        penalties: of the weights, such as ["l2:0.001"].
        constraints: of the parameters, such as ["zero-sum", "average:0.3"].
        centered: smoothing of the offsets of centered coordinates, or False for plain ones.
        initialize: "normal:0.01", "sign", "modes", or "keep" for the parameters that the machine has.
        precision: of matrix products: "float32", "bfloat16" or "auto".
        seed: seed of the random generator.

    >>> Plan(negative="pcd:2", penalties="l2:0.001")
    Plan(negative=PCD(k=2, chains=None), penalties=(L2(strength=0.001),))
    """

    negative: Any = None
    epochs: int | None = None
    pretrain: int | None = None
    batch_size: int | None = None
    optimizer: Any = None
    learning_rate: float | str | None = None
    schedule: Any = None
    penalties: Any = None
    constraints: Any = None
    centered: float | bool | None = None
    initialize: Any = None
    precision: str | None = None
    seed: int | None = None
    reasons: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        checks = {
            "negative": _phase,
            "epochs": _at_least(0 if self.pretrain else 1),
            "pretrain": _at_least(0),
            "batch_size": _at_least(1),
            "optimizer": _optimizer,
            "learning_rate": _rate,
            "schedule": _schedule,
            "penalties": _several(PENALTIES, Penalty, "penalty", "l2:0.001"),
            "constraints": _several(CONSTRAINTS, Constraint, "constraint", "zero-sum"),
            "centered": _centered,
            "initialize": _initial,
            "precision": _precision,
            "seed": lambda name, seed: noise.check_seed(seed),
        }
        for name, check in checks.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(name, value))
        own = self.optimizer is not None and not isinstance(self.optimizer, (Optimizer, type))
        if self.learning_rate is not None and own:
            raise InvalidOption(
                f"learning_rate: expected None with an optimizer object, found {self.learning_rate}. "
                "Set the learning rate in the optimizer."
            )

    def __repr__(self) -> str:
        return f"Plan({', '.join(f'{name}={value!r}' for name, value in self.given().items())})"

    @classmethod
    def of(cls, given: Plan | str | Path | None) -> Plan:
        """Return a plan, also from the table ``[training]`` of a file or of a configuration of this package.

        >>> Plan.of("best").learning_rate
        0.1
        """
        if given is None or isinstance(given, cls):
            return given or cls()
        if not isinstance(given, (str, Path)):
            raise InvalidOption(f"plan: expected a harmonium.Plan, a file or a name such as 'best', found {given!r}")
        return cls.from_table(read_configuration(given).get("training", {}))

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Plan:
        """Return the plan of a table ``[training]``; the inverse of :meth:`table`."""
        for name in table:
            if name not in FIELDS:
                raise unknown("key of [training]", name, FIELDS)
        custom = [name for name, value in table.items() if value == _CUSTOM]
        if custom:
            raise InvalidOption(
                f"{custom[0]}: expected a value with a name, found an own object; continue in Python with "
                f"hm.fit(…, {custom[0]}=…, run=…, resume=True)"
            )
        return cls(**table)

    @classmethod
    def split(cls, options: Mapping[str, Any]) -> tuple[Plan, dict[str, Any]]:
        """Return the plan of arguments of :func:`harmonium.fit`, and the other arguments.

        >>> Plan.split({"epochs": 3, "progress": False})
        (Plan(epochs=3), {'progress': False})
        """
        others = {name: value for name, value in options.items() if name not in (*FIELDS, "plan")}
        own = {name: value for name, value in options.items() if name in FIELDS}
        return cls(**own).over(cls.of(options.get("plan"))), others

    def given(self) -> dict[str, Any]:
        """Return the fields that are not None."""
        return {name: value for name in FIELDS if (value := getattr(self, name)) is not None}

    def over(self, base: Plan) -> Plan:
        """Return this plan with the values of ``base`` where it has none."""
        given = self.given()
        if "optimizer" in given and not isinstance(given["optimizer"], Optimizer):
            base = dataclasses.replace(base, learning_rate=None)  # an optimizer object has its own learning rate
        kept = {name: reason for name, reason in base.reasons.items() if name not in given}
        return dataclasses.replace(base, **given, reasons={**kept, **self.reasons})

    # -- defaults ---------------------------------------------------------------------------------------------------

    def resolved(self, machine: Machine, source: Source) -> Plan:
        """Return the complete plan for a machine and its rows, with the reason of each value that is chosen here."""
        rows = len(source) // distributed.world()[1]  # of a process
        if rows < 1:
            raise InvalidData(f"data: expected a row for each process, found {len(source)}")
        values, reasons = self.given(), dict(self.reasons)

        def default(name: str, value: Any, reason: str) -> None:
            if name not in values:
                values[name], reasons[name] = value, reason

        kind = dict(source.defaults())
        new = not all(map(has_weights, machine.machines))
        if "optimizer" in values:  # with its own learning rate and schedule
            kind = {name: value for name, value in kind.items() if name not in ("learning_rate", "schedule")}
        if not new:
            kind.pop("initialize", None)
        for name, (value, reason) in kind.items():
            default(name, value, reason)

        default("batch_size", source.batch_size or 100, "of the DataLoader" if source.batch_size else "usual")
        if values["batch_size"] > rows:
            values["batch_size"], reasons["batch_size"] = rows, "the number of rows"
        free = self.optimizer is None and self.learning_rate is None
        sampled = not free or self.precision == BFLOAT16 or not source.complete
        default("negative", *default_phase(machine, rows, values["batch_size"], exact=not sampled))
        if machine.context is not None and not values["negative"].conditional:
            raise InvalidOption(
                f"negative: expected CD, Reconstruction or Exact for a machine with a context, found "
                f"{type(values['negative']).__name__}; each row has its own distribution, so chains cannot continue "
                f"with other rows"
            )
        self._step(values, default, machine, free)
        self._duration(values, default, machine, source, rows, new)
        default("penalties", (), "none")
        default("constraints", (), "none")
        default("centered", _SMOOTHING, "usual")
        default("initialize", Normal() if new else Keep(), "new machine" if new else "the machine has weights")
        default("precision", FLOAT32, "usual")
        values["precision"] = resolved_precision(values["precision"], machine, values["negative"])
        if self.seed is None:  # otherwise nothing is drawn
            default("seed", distributed.of_first(noise.resolve_seed(None)), "a number of torch's generator")
        return Plan(**values, reasons=reasons)

    def _step(self, values: dict[str, Any], default: Any, machine: Machine, free: bool) -> None:
        """Choose optimizer, learning rate and schedule."""
        exact = isinstance(values["negative"], Exact)
        if exact and free:  # the gradients of strong couplings are many times smaller than those of weak ones
            default("optimizer", Adam(), "exact gradients have little noise")
        elif machine.machines[0].visible.conserves and free:
            default("optimizer", Adam(), "the counts of frequent and of rare entries differ by orders of magnitude")
        else:
            default("optimizer", SGD(), "usual")
        optimizer = values["optimizer"]
        if isinstance(optimizer, SGD) and optimizer.momentum:
            default("learning_rate", 0.05, "usual with a momentum")
        elif isinstance(optimizer, SGD) or (isinstance(optimizer, Adam) and exact):
            default("learning_rate", "auto", "chosen from the data")
        elif isinstance(optimizer, Optimizer):
            default("learning_rate", 0.001, "usual for this optimizer")
        if free or values.get("learning_rate") == "auto":
            # with a constant rate, the likelihood depends on the step at which training ends
            default("schedule", Linear(0.5), "ends at a learning rate of zero")
        else:
            default("schedule", Constant(), "an optimizer or a learning rate is given")

    def _duration(
        self, values: dict[str, Any], default: Any, machine: Machine, source: Source, rows: int, new: bool
    ) -> None:
        """Choose the numbers of epochs, also of the pretraining of deep machines."""
        stack, deep = machine.machines[0] is not machine, len(machine.machines[0].couplings) > 1
        if not stack and not deep:
            if values.pop("pretrain", 0):
                raise InvalidOption(f"pretrain: expected 0 for a machine with one hidden layer, found {self.pretrain}")
        elif not new:
            default("pretrain", 0, "the machine has weights")
        elif stack and self.epochs is not None:
            default("pretrain", 0, "the number of epochs of all machines together is given")
        if stack and self.epochs is None and values.get("pretrain") != 0:
            default("pretrain", *default_epochs(source, machine, values["batch_size"], rows))
            default("epochs", 0, "each machine is trained on the one below")
        elif "epochs" not in values:
            default("epochs", *default_epochs(source, machine, values["batch_size"], rows))
        if deep:
            default("pretrain", values["epochs"], "as many as of the whole machine")

    # -- words and tables -------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """Return a line for each value, with the reason for those that were chosen."""
        lines = [(name, words, self.reasons.get(name, "given")) for name, words in self.words().items()]
        wide = max((len(words) for _, words, _ in lines), default=0)
        return "\n".join(f"{name.replace('_', ' '):14} {words:{wide}}  {reason}" for name, words, reason in lines)

    def words(self) -> dict[str, str]:
        """Return each value as the text of the command line."""
        return {name: text_of(name, value) for name, value in self.table().items()}

    def table(self) -> dict[str, Any]:
        """Return ``[training]`` of ``config.toml``, of which :meth:`from_table` makes this plan again."""
        return {name: _plain(name, value) for name, value in self.given().items()}


def without_objects(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table ``[training]`` without the objects and functions that only a program knows."""
    return {name: value for name, value in table.items() if value != _CUSTOM}


FIELDS = tuple(one.name for one in dataclasses.fields(Plan) if one.name != "reasons")


# -- defaults that depend on the machine ------------------------------------------------------------------------------


def default_phase(machine: Machine, rows: int, batch_size: int, *, exact: bool = True) -> tuple[NegativePhase, str]:
    """Return the default negative phase of a machine, and the reason.

    >>> import harmonium as hm
    >>> [default_phase(machine, 500, 100)[0] for machine in (hm.RBM(8, 3), hm.RBM(784, 500))]
    [Exact(), PCD(k=1, chains=None)]
    >>> default_phase(hm.RBM(30, 10), 500, 100, exact=False)[0]
    PCD(k=1, chains=200)
    """
    first = machine.machines[0]  # the machines of a stack are RBMs
    if exact and is_small(machine):
        return Exact(), "small machine: exact gradients cost little"
    if len(first.couplings) > 1:
        return DeepPCD(1), "deep machine"
    if first.context is not None or first.visible.conserves:
        # a persistent chain would follow another distribution in every step and never reach equilibrium
        what = "context" if first.context is not None else "length or rated items"
        return CD(1), f"each row has its own {what}: chains start at the rows"
    hidden = [unit for one in machine.machines for unit in one.layers[1:]]
    if any(bool(unit.tail().factorial.any()) for unit in hidden):
        # the mass of a mode changes by many nats in one step, and persistent chains are all in one mode
        return CD(5), "with hidden counts, persistent chains oscillate between modes"
    values = sum(unit.size for unit in first.layers)
    chains = max(min(batch_size, max(rows, _MOST_CHAINS)), min(_MOST_CHAINS, _CHAIN_VALUES // values))
    if chains > min(rows, batch_size):
        return PCD(1, chains=chains), "usual; many chains of a small machine cost little"
    return PCD(1), "usual"


def default_epochs(source: Source, machine: Machine, batch_size: int, rows: int) -> tuple[int, str]:
    """Return the default number of epochs: 4000 updates, or more if 10 passes over the distinct rows need more.

    The number of updates does not depend on how often the rows are repeated. ``rows`` is the number of rows of a
    process.

    >>> import torch, harmonium as hm
    >>> from harmonium.training.batches import as_rows
    >>> rbm, few, many = hm.RBM(16, 2), torch.eye(16), torch.eye(16).repeat(1000, 1)
    >>> [default_epochs(as_rows(x), rbm, 100, len(x))[0] for x in (few, many)]
    [4000, 25]
    """
    steps, updates, reason = math.ceil(rows / batch_size), _UPDATES, "4000 updates"
    if _PASSES * steps > updates:  # only then the distinct rows are counted, which reads all rows
        passes = math.ceil(_PASSES * steps * source.distinct(machine) / len(source))
        if passes > updates:
            updates, reason = passes, "10 passes over the distinct rows"
    return math.ceil(updates / steps), reason


# -- checks of the fields -------------------------------------------------------------------------------------------


def _at_least(least: int) -> Any:
    def check(name: str, value: Any) -> int:
        if count(name, value) < least:
            raise InvalidOption(f"{name}: expected at least {least}, found {value}")
        return count(name, value)

    return check


def _rate(name: str, value: Any) -> float | str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value == "auto" or (number and 0 < value < math.inf):
        return value if value == "auto" else float(value)
    raise InvalidOption(f'{name}: expected a positive number or "auto", found {value!r}')


def _centered(name: str, value: Any) -> float | bool:
    if isinstance(value, bool):
        return _SMOOTHING if value else False
    if isinstance(value, (int, float)) and 0 < value <= 1:
        return float(value)
    raise InvalidOption(f"{name}: expected a number in (0, 1], or False for plain coordinates, found {value!r}")


def _precision(name: str, value: Any) -> str:
    if value not in _PRECISIONS:
        raise unknown(name, str(value), _PRECISIONS)
    return str(value)


def phase_of(value: Any) -> NegativePhase:
    """Return a negative phase from an object, a text or a table.

    >>> phase_of("discriminative+0.01*cd:1").terms
    ((1.0, Discriminative(part=None)), (0.01, CD(k=1)))
    """
    return _phase("negative", value)


def _phase(name: str, value: Any) -> NegativePhase:
    if isinstance(value, str):
        value = re.sub(r"^hybrid:(.+)$", r"discriminative+\1*cd:1", value.strip())
        if "+" not in value and "*" not in value:
            return parse("negative phase", PHASES, value)
        return WeightedSum([_term(term, value) for term in value.split("+")])
    if isinstance(value, Mapping):
        if value.get("name") != _SUM:
            return from_table("negative phase", PHASES, value)
        terms = [dict(term) for term in value["terms"]]
        return WeightedSum([(term.pop("weight"), _phase(name, term)) for term in terms])
    if not isinstance(value, NegativePhase):
        raise InvalidOption(
            f'{name}: expected a phase such as harmonium.PCD(1) or a string such as "pcd:1", found {value!r}'
        )
    return value


def _term(term: str, text: str) -> tuple[float, NegativePhase]:
    """Parse a term of a weighted sum, ``PHASE`` or ``WEIGHT*PHASE``."""
    weight, times, phase = term.rpartition("*")
    try:
        return float(weight) if times else 1.0, parse("negative phase", PHASES, phase.strip())
    except ValueError as error:
        if isinstance(error, InvalidOption):
            raise
        raise InvalidOption(
            f"negative phase '{text}': expected terms such as 0.01*cd:1, found '{term.strip()}'"
        ) from None


def _named(family: str, known: Mapping[str, type], value: Any) -> Any:
    """Return the value of a text or a table; another value as it is."""
    if isinstance(value, str):
        return parse(family, known, value)
    return from_table(family, known, value) if isinstance(value, Mapping) else value


def _optimizer(name: str, value: Any) -> Any:
    value = _named("optimizer", OPTIMIZERS, value)
    if not (isinstance(value, (AnyOptimizer, Optimizer)) or callable(value)):
        raise InvalidOption(
            f"{name}: expected a torch.optim optimizer, a function that makes one or a name, found {value!r}"
        )
    return value


def _schedule(name: str, value: Any) -> Any:
    value = _named("schedule", SCHEDULES, value)
    if not callable(value):
        raise InvalidOption(
            f'{name}: expected a function of the clock or a string such as "linear:0.3", found {value!r}'
        )
    return value


def _several(known: Mapping[str, type], base: type, family: str, example: str) -> Any:
    def check(name: str, value: Any) -> tuple[Any, ...]:
        parts = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        made = tuple(_named(family, known, part) for part in parts)
        for part in made:
            if not isinstance(part, base):
                raise InvalidOption(f'{name}: expected a list such as ["{example}"], found {part!r}')
        return made

    return check


def _initial(name: str, value: Any) -> Initial:
    value = _named("initialization", INITIAL, value)
    if not isinstance(value, Initial):
        raise InvalidOption(f'{name}: expected "normal:0.01", "sign", "modes" or "keep", found {value!r}')
    return value


# -- plain values -----------------------------------------------------------------------------------------------------

_FAMILIES: dict[str, Mapping[str, type]] = {
    "negative": PHASES,
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "penalties": PENALTIES,
    "constraints": CONSTRAINTS,
    "initialize": INITIAL,
}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(name, part) for part in value]
    if name not in _FAMILIES:
        return value
    if type(value) is WeightedSum:
        terms = [(weight, _plain(name, phase)) for weight, phase in value.terms]
        if all(phase != _CUSTOM for _, phase in terms):
            return {"name": _SUM, "terms": [{"weight": weight, **phase} for weight, phase in terms]}
    return as_table(_FAMILIES[name], value) or _CUSTOM


def text_of(name: str, value: Any) -> str:
    """Return a value of the table ``[training]`` as the text of the command line.

    >>> text_of("optimizer", {"name": "sgd", "momentum": 0.9})
    'sgd,momentum=0.9'
    """
    if isinstance(value, list):
        return ", ".join(text_of(name, part) for part in value) or "none"
    if not isinstance(value, Mapping) or name not in _FAMILIES:
        return written(value)
    if value.get("name") == _SUM:
        terms = [dict(term) for term in value["terms"]]
        return "+".join(
            f"{'' if (weight := term.pop('weight')) == 1 else f'{weight:g}*'}{text_of(name, term)}" for term in terms
        )
    return as_text(_FAMILIES[name], value, leading=name != "optimizer")
