"""The plan of a training: one declaration of its options, and the only place that chooses a default.

:func:`harmonium.fit`, ``harmonium train`` and ``harmonium.sklearn.RBM`` make the same plan. What follows from the kind
of data is :meth:`Source.defaults`, with its rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import noise
from ..errors import InvalidData, InvalidOption, unknown
from ..machines import Machine
from ..machines.enumeration import is_small
from ..presets import read_configuration
from . import distributed
from .batches import Source
from .initial import Keep, Normal, has_weights
from .negative import CD, PCD, DeepPCD, Exact, NegativePhase
from .optimizers import SGD, Adam, Optimizer
from .precision import BFLOAT16, FLOAT32
from .precision import resolved as resolved_precision
from .schedules import Constant, Linear
from .values import CHECKS, CUSTOM, SMOOTHING, plain, text_of

_PASSES, _UPDATES = 10, 4000  # of the default training
_MOST_CHAINS, _CHAIN_VALUES = 1000, 8000  # of the default persistent chains of small machines


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
        for name, check in CHECKS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(name, value))
        if self.epochs == 0 and not self.pretrain:
            raise InvalidOption("epochs: expected at least 1, found 0")
        own = self.optimizer is not None and not isinstance(self.optimizer, (Optimizer, type))
        if self.learning_rate is not None and own:
            raise InvalidOption(
                f"learning_rate: expected None with an optimizer object, found {self.learning_rate}. "
                "Set the learning rate in the optimizer."
            )
        if self.learning_rate == "auto" and isinstance(self.optimizer, type):
            raise InvalidOption(f"learning_rate: expected a number for {self.optimizer.__name__}, found 'auto'")

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
        custom = [name for name, value in table.items() if value == CUSTOM]
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
        default("penalties", (), "usual")
        default("constraints", (), "usual")
        default("centered", SMOOTHING, "usual")
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
        return {name: plain(name, value) for name, value in self.given().items()}


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
