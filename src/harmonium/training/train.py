"""Train a machine: :func:`fit`, and what it does with a plan."""

from __future__ import annotations

import copy
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from torch import Tensor

from .. import noise
from ..checks import SYNONYMS
from ..errors import HarmoniumError, InvalidOption, RunError, UnknownArgument, unknown
from ..machines import DeepBeliefNetwork, Machine
from ..machines.layout import described
from ..noise import Seed
from ..paths import expand
from . import distributed
from .batches import as_source
from .callbacks import Callback, check_callbacks
from .descent import AnyOptimizer
from .greedy import gather, joined, pretrain
from .initial import Initial
from .loop import Training
from .negative import NegativePhase
from .optimizers import Optimizer
from .penalties import Penalty
from .plan import Plan
from .result import Result
from .run import Run
from .schedules import Schedule
from .threads import alone, using
from .values import without_objects

P = ParamSpec("P")
R = TypeVar("R")

#: what to write instead of arguments of other libraries and of the command line
_INSTEAD = {
    **dict.fromkeys(("k", "cd_k", "n_gibbs", "gibbs_steps", "n_steps", "steps", "sweeps"), 'negative="pcd:{}"'),
    **dict.fromkeys(("chains", "n_chains", "num_chains"), 'negative="pcd:1,chains={}"'),
    **dict.fromkeys(("l2", "weight_decay", "decay", "weight_cost"), 'penalties=["l2:{}"]'),
    "l1": 'penalties=["l1:{}"]',
    "momentum": 'optimizer="sgd,momentum={}"',
    "average": 'constraints=["average:{}"]',
    "zero_sum": 'constraints=["zero-sum"]',
    "metrics_every": "harmonium.Metric(…, every={}) for own metrics; the others are measured at most 200 times",
    "transforms": "penalties=[…], constraints=[…] and centered=…",
    "pretrain": "plan=harmonium.Plan(pretrain={})",
    "threads": "torch.set_num_threads({}) before the call",
    "device": "machine.to({!r}) before the call",
    "dtype": "machine.to(dtype=torch.float64) before the call",
    "hidden": "hidden units of the machine, as in harmonium.RBM(visible, harmonium.units.Bernoulli({}))",
}


def suggesting(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: raise :class:`UnknownArgument` with a suggestion for unknown names of arguments."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*positional: P.args, **keywords: P.kwargs) -> R:
        for name, value in keywords.items():
            if name not in known:
                raise _unknown(name, value, list(known))
        return function(*positional, **keywords)

    return checked


def _unknown(name: str, value: Any, known: Sequence[str]) -> UnknownArgument:
    meant = SYNONYMS.get(name.lower(), name)
    for word in (name.lower(), meant):
        if word in _INSTEAD:
            return UnknownArgument(f"unknown argument '{name}': use {_INSTEAD[word].format(value)}")
    if meant in known:
        return UnknownArgument(f"unknown argument '{name}': use {meant}={value!r}")
    return UnknownArgument(str(unknown("argument", name, known)))


def fit(
    machine: Machine,
    data: Any,
    *,
    plan: Plan | str | Path | None = None,
    negative: NegativePhase | str | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    optimizer: Optimizer | AnyOptimizer | Callable[[Iterable[Tensor]], AnyOptimizer] | str | None = None,
    learning_rate: float | str | None = None,
    schedule: Schedule | str | None = None,
    penalties: Sequence[Penalty | str] | Penalty | str | None = None,
    constraints: Sequence[Any] | str | None = None,
    centered: float | bool | None = None,
    initialize: Initial | str | None = None,
    precision: str | None = None,
    seed: Seed = None,
    validation: Any = None,
    callbacks: Sequence[Callback] = (),
    run: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Result:
    """Train ``machine`` in place on the rows of ``data``.

    What is not given is chosen from the machine and the data; ``result.plan.explain()`` prints each choice with its
    reason. A deep machine without weights is first trained layer by layer (``Plan.pretrain``).

    Args:
        machine: any machine; it is changed in place. The machines of a :class:`DeepBeliefNetwork` are trained jointly,
            each on the input passed up from the one below, if ``epochs`` is given, and otherwise one after the other.
        data: n rows with the shape of the visible layer: tensor, array, memory map, pandas table, torch data set or
            DataLoader. If rows are pairs (features, label), only the features are used. A DataLoader provides its
            data set and its batch size; rows are always shuffled.
        plan: a :class:`Plan`, a configuration file, or the name of a configuration such as "best"; arguments given
            beside it override it.
        negative: negative phase, which computes the moments of the model: an object such as ``PCD(1)``, or a string
            such as "cd:10", "pcd:1,chains=100", "mean-field:3,method=tap" or "exact".
        epochs: number of passes over the data.
        batch_size: number of rows of an update. The learning rate of the last batch of an epoch, which may have fewer,
            is scaled by its size, so that every row has the same weight.
        optimizer: "sgd", "sgd,momentum=0.9", "adam", "adamw" or "rmsprop", a ``torch.optim`` optimizer of the
            machine's parameters, or a function that makes one, such as ``lambda p: torch.optim.Adam(p, lr=1e-3)``. A
            ``torch.optim.lr_scheduler`` may change its learning rates between steps.
        learning_rate: a number, or "auto" to choose it from the data (:func:`harmonium.training.default_groups`).
        schedule: schedule of the learning rate, k and the batch size: "constant", "linear:0.3", "growing:10", or a
            function of the clock that returns a ``Setting``.
        penalties: penalties of the weights, such as ``["l2:0.001"]`` or ``[L2(0.001)]``.
        constraints: constraints of the parameters, such as ``["zero-sum", "average:0.3"]``.
        centered: smoothing of the offsets of centered coordinates, or False for plain coordinates.
        initialize: initial weights: "normal:0.01", "sign", "modes", or "keep"; by default "normal" for a machine
            without weights.
        precision: precision of matrix products: "float32", "bfloat16" or "auto".
        seed: a number, or a ``torch.Generator`` that draws one; by default torch's generator draws it.
        validation: validation rows, for the free-energy gap.
        callbacks: callbacks, called at the start, after each epoch and at the end.
        run: folder for configuration, metrics and checkpoints.
        resume: continue the run in the folder ``run`` from its last checkpoint, bit-for-bit.
        progress: show a progress bar on a terminal.

    Returns:
        ``Result`` with the machine, the ``history``, a list with the metrics of each epoch, and the ``plan``.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(2))
    >>> data = torch.tensor([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]).repeat(50, 1)
    >>> result = hm.fit(rbm, data, epochs=2, seed=0, progress=False)
    >>> [row["epoch"] for row in result.history], result.plan.negative
    ([1, 2], Exact())
    """
    given = Plan(
        negative=negative,
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        learning_rate=learning_rate,
        schedule=schedule,
        penalties=penalties,
        constraints=constraints,
        centered=centered,
        initialize=initialize,
        precision=precision,
        seed=None if seed is None else noise.resolve_seed(seed),
    )
    return train(
        machine,
        data,
        given.over(Plan.of(plan)),
        validation=validation,
        callbacks=callbacks,
        run=run,
        resume=resume,
        progress=progress,
    )


if not TYPE_CHECKING:  # which would not find the type of a decorated function in a cycle of imports
    fit = suggesting(fit)


def train(
    machine: Any,
    data: Any,
    plan: Plan,
    *,
    validation: Any = None,
    callbacks: Sequence[Callback] = (),
    run: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    threads: int | None = None,
) -> Result:
    """Train as :func:`fit`, with the tables ``[data]`` and ``[machine]`` of the configuration of a run.

    Args:
        machine, data, validation, callbacks, run, resume, progress: as in :func:`fit`.
        plan: the plan; fields of None are chosen.
        tables: names of the data and of the layers, which are written to the run folder.
        threads: number of CPU threads; by default as many as there are free cores.
    """
    folder = _checked_folder(run, resume)
    callbacks = check_callbacks(callbacks)
    with distributed.writing(run), using(threads, run, resume), alone(machine):
        distributed.join()
        source = as_source(data, machine)
        begun = resume and folder is not None and folder.exists()
        if folder is not None and begun:
            plan = plan.over(_recorded(folder))
        plan = plan.resolved(machine, source)
        if folder is not None and tables is None:
            tables = {"machine": described(machine)}
        options: dict[str, Any] = {"validation": validation, "progress": progress, "tables": tables}
        pretrained = bool(plan.pretrain) and not (folder is not None and begun and folder.last.exists())
        if pretrained:
            history = _pretrain(machine, data, source, plan, callbacks, folder, begun, options)
            if not plan.epochs:
                return Result(machine, history, plan)
            resume = folder is not None
        training = Training(
            machine, source, plan, callbacks=callbacks, run=run, resume=resume, initialize=not pretrained, **options
        )
        return training.train()


def _checked_folder(run: Any, resume: bool) -> Run | None:
    """Return the folder of a run, if there is one."""
    if run is not None and (not isinstance(run, (str, os.PathLike)) or not str(run)):
        raise InvalidOption(f"run: expected the name of a folder, found {run!r}")
    if resume and run is None:
        raise InvalidOption("run: resume=True expects run=…, the folder of the run to resume, found None")
    return None if run is None else Run(expand(run))


def _recorded(folder: Run) -> Plan:
    """Return the plan of a run that continues, without the objects that only the program knows."""
    table = folder.recorded("training")
    try:
        return Plan.from_table(without_objects(table) if isinstance(table, Mapping) else {})
    except HarmoniumError as error:
        raise RunError(f"{folder.config_path}: {error}") from None


def _pretrain(
    machine: Any,
    data: Any,
    source: Any,
    plan: Plan,
    callbacks: Sequence[Callback],
    folder: Run | None,
    begun: bool,
    options: dict[str, Any],
) -> list[dict[str, float]]:
    """Train each layer of a deep machine on the one below; return the metrics of a stack."""
    # reports a mistake in the options before the training of the first layer, which may take hours
    trial = Training(copy.deepcopy(machine), source, plan, **options)
    if folder is not None and distributed.world()[0] == 0:
        if not begun:
            folder.check_new()
        folder.hold()
        folder.clean()
        folder.write_config(trial.config)
    stack = isinstance(machine, DeepBeliefNetwork)
    stage = replace(plan, negative=plan.negative if stack else None, epochs=plan.pretrain, pretrain=None)
    results = pretrain(
        machine,
        data,
        plan=stage,
        epochs=plan.pretrain or 0,
        seed=plan.seed,
        validation=options["validation"],
        progress=options["progress"],
        callbacks=[callback for callback in callbacks if callback.pretraining],
        run=None if folder is None else folder.folder,
        resume=folder is not None,
    )
    if plan.epochs:
        return []
    return joined([one.history for one in results]) if folder is None else gather(machine, folder)
