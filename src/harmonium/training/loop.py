"""The one training loop, for every machine, negative phase and unit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checks import whole
from ..errors import Diverged, InvalidData, InvalidOption, NotLearned, NotNormalizable, RunError, unknown
from ..machines import BoltzmannMachine
from . import distributed, outcome
from .batches import Source, as_source
from .callbacks import Callback, Progress, check_callbacks
from .defaults import default_epochs, default_groups
from .metrics import measure
from .negative import PCD, NegativePhase
from .progress import ProgressBar
from .run import Run, log_spaced
from .schedules import Clock, Constant, Schedule
from .state import load_optimizer, stream
from .transforms import Centered, Transform

Optimizer = torch.optim.Optimizer
_METRIC_ROWS = 1000
#: of the products of a step: as the parameters are, or rounded
PRECISIONS = ("float32", "bfloat16")
_HUGE = 1e10  # a parameter beyond this has diverged, even if it is still a number
_CHECK_EVERY = 100  # steps between looks at whether the parameters are finite
_STATE_FORMAT = 2  # of the training state in a checkpoint
# purposes of random streams, so that none disturbs another
_ORDER, _INITIALIZE, _CHAINS, _METRICS = range(4)


@dataclass
class Result:
    """What :func:`fit` gives back: the trained machine and a row of metrics for each epoch."""

    machine: BoltzmannMachine
    history: list[dict[str, float]]


def fit(
    machine: BoltzmannMachine,
    data: Any,
    *,
    negative: NegativePhase | None = None,
    epochs: int | None = None,
    batch_size: int = 100,
    optimizer: Optimizer | Callable[[Iterable[Tensor]], Optimizer] | None = None,
    transforms: Sequence[Transform] | None = None,
    schedule: Schedule | None = None,
    callbacks: Sequence[Callback] = (),
    run: str | Path | None = None,
    seed: int = 0,
    progress: bool = True,
    validation: Any = None,
    initialize: bool | Mapping[str, Any] | None = None,
    metrics_every: int = 1,
    precision: str = "float32",
    resume: bool = False,
    config: dict[str, Any] | None = None,
) -> Result:
    """Train ``machine`` in place on the rows of ``data``.

    Args:
        data: tensor, array, memmap, table or torch data set of n rows, each of the visible layer's shape.
        negative: where the model's moments come from; ``PCD(1)`` unless given.
        epochs: passes over the data; by default ten, or as many as make 2000 updates where the data are few.
        batch_size: rows of a step. The last batch of an epoch has those that are left, with its share of the learning
            rate, so that every row counts the same. (With several processes, rows that would give one process more
            than another wait for the next epoch, shuffled again.)
        optimizer: a ``torch.optim`` optimizer of the machine's parameters, or a function that makes one from them,
            such as ``lambda p: torch.optim.Adam(p, lr=1e-3)``. Its learning rates at the time of a step count, so
            that a ``torch.optim.lr_scheduler`` may change them. By default plain SGD, with rates chosen from the data
            (:func:`harmonium.training.default_groups`).
        transforms: of gradients and parameters, in their order, but terms of the loss (penalties) first;
            ``(Centered(),)`` unless given.
        schedule: of the learning rate, k and the batch.
        run: folder for configuration, metrics and checkpoints; ``resume=True`` goes on from its last checkpoint, to the
            bit as if training had never stopped.
        validation: further rows, for the free-energy gap.
        initialize: whether to set starting values from the data (see ``machine.initialize``); by default only where
            all weights are zero, as in a new machine. Options of ``machine.initialize`` may be given instead of True,
            such as ``{"weights": "sign"}``.
        metrics_every: epochs between measurements.
        precision: of the matrix products of a step. ``"bfloat16"`` rounds their factors and results (parameters, means
            and noise stay as they are), which about halves their time on hardware that has such products.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(2))
    >>> data = torch.tensor([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]).repeat(50, 1)
    >>> result = hm.fit(rbm, data, negative=hm.Exact(), epochs=2, batch_size=50, seed=0, progress=False)
    >>> [row["epoch"] for row in result.history]
    [1, 2]
    """
    training = Training(
        machine,
        data,
        negative=negative,
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        transforms=transforms,
        schedule=schedule,
        callbacks=callbacks,
        run=run,
        seed=seed,
        validation=validation,
        initialize=initialize,
        metrics_every=metrics_every,
        precision=precision,
        resume=resume,
        config=config,
    )
    return training.train(progress)


def _check_types(negative: Any, optimizer: Any, transforms: Any) -> None:
    """Say what was expected where a name or a class is given for an object."""
    if negative is not None and not isinstance(negative, NegativePhase):
        raise InvalidOption(f"negative: expected a phase such as harmonium.PCD(1), found {negative!r}")
    if optimizer is not None and not isinstance(optimizer, Optimizer) and not callable(optimizer):
        raise InvalidOption(
            f"optimizer: expected a torch.optim optimizer or a function that makes one, found {optimizer!r}"
        )
    if transforms is not None and (
        isinstance(transforms, Transform) or not all(isinstance(transform, Transform) for transform in transforms)
    ):
        raise InvalidOption(f"transforms: expected a sequence such as [harmonium.Centered()], found {transforms!r}")


def known_precision(name: str) -> str:
    """The name, which has to be one of :data:`PRECISIONS`."""
    if name not in PRECISIONS:
        raise unknown("precision", str(name), PRECISIONS)
    return name


def _rounded(precision: str, machine: BoltzmannMachine, negative: NegativePhase) -> bool:
    """Whether the products of a step are rounded; refused where they cannot be, or must not."""
    if known_precision(precision) == "float32":
        return False
    if machine.dtype != torch.float32:
        raise InvalidOption(f"precision {precision} expects parameters of float32, found {machine.dtype}")
    if not negative.supports_bfloat16:
        raise InvalidOption(f"precision {precision} expects a sampled negative phase, found {type(negative).__name__}")
    return True


def plain_groups(optimizer: Optimizer) -> dict[int, dict[str, Any]]:
    """The groups of parameters (by their ``id``) for which a step is W ← W - lr·g and nothing else."""
    if type(optimizer) is not torch.optim.SGD:
        return {}
    groups = [g for g in optimizer.param_groups if not (g["momentum"] or g["weight_decay"] or g["maximize"])]
    return {id(parameter): group for group in groups for parameter in group["params"]}


class Training:
    """One call of :func:`fit` as an object, for whoever wants to go epoch by epoch; the same arguments."""

    def __init__(
        self,
        machine: BoltzmannMachine,
        data: Any,
        *,
        negative: NegativePhase | None = None,
        epochs: int | None = None,
        batch_size: int = 100,
        optimizer: Optimizer | Callable[[Iterable[Tensor]], Optimizer] | None = None,
        transforms: Sequence[Transform] | None = None,
        schedule: Schedule | None = None,
        callbacks: Sequence[Callback] = (),
        run: str | Path | None = None,
        seed: int = 0,
        validation: Any = None,
        initialize: bool | Mapping[str, Any] | None = None,
        metrics_every: int = 1,
        precision: str = "float32",
        resume: bool = False,
        config: dict[str, Any] | None = None,
    ) -> None:
        _check_types(negative, optimizer, transforms)
        epochs, batch_size = None if epochs is None else whole("epochs", epochs), whole("batch_size", batch_size)
        metrics_every, seed = whole("metrics_every", metrics_every), whole("seed", seed)
        if (epochs is not None and epochs < 1) or batch_size < 1 or metrics_every < 1:
            raise InvalidOption(
                "expected epochs, batch_size and metrics_every of at least 1, "
                f"found {epochs}, {batch_size}, {metrics_every}"
            )
        self.machine, self.negative, self.seed = machine, negative or PCD(1), seed
        self.schedule, self.callbacks = schedule or Constant(), check_callbacks(callbacks)
        self.metrics_every = metrics_every
        self.rounded = _rounded(precision, machine, self.negative)
        distributed.join()
        self.rank, self.world = distributed.world()
        self.source = as_source(data, machine)
        self.validation = None if validation is None else as_source(validation, machine, what="validation data")
        self.rows = torch.arange(self.rank, len(self.source), self.world)
        self.share = len(self.source) // self.world  # rows that every process has: all take the same number of steps
        self.batch_size = self._checked_batch(batch_size)
        self.epochs = default_epochs(self.share, self.batch_size) if epochs is None else epochs
        if resume and run is None:
            raise InvalidOption("resume=True expects run=…, the folder of the run to go on with")
        self.keep = run is not None
        self.run = Run(run) if run is not None and self.rank == 0 else None
        if self.run is not None:
            if self.run.exists() and not resume:
                raise RunError(f"{self.run.folder}: holds a run already; resume it or choose another folder")
            self.run.clean()
            resume = resume and self.run.last.exists()  # killed before its first checkpoint: begin at the beginning
        resume = distributed.of_first(resume)

        if not resume:
            self._initialize(initialize)
            distributed.share_parameters(machine)
            machine.check_normalizable()
        self._own_k = self.negative.k
        self.optimizer = self._optimizer(optimizer)
        self._couplings = machine.couplings
        given = [Centered()] if transforms is None else transforms
        self.transforms = sorted(given, key=lambda transform: not transform.of_loss)
        for transform in self.transforms:
            transform.check(machine, self.optimizer)
        self.generator = stream(seed, _CHAINS, self.rank, device=machine.device)
        self._begin_phases()
        self.history: list[dict[str, float]] = []
        self.epoch, self.seconds = 0, 0.0  # epochs done, and the time they took
        if resume:
            self._load()
        self._plain = plain_groups(self.optimizer)  # after loading, which makes the groups anew
        self._all_plain = len(self._plain) == sum(len(group["params"]) for group in self.optimizer.param_groups)
        if self.run is not None and not resume:
            self.run.write_config(config if config is not None else self._config())
            self.run.write_snapshot(machine, 0)

    # -- preparation ----------------------------------------------------------------------------------------

    def _checked_batch(self, batch_size: int) -> int:
        """The number of rows of a full batch: at most all that every process has."""
        if batch_size < 1:
            raise InvalidOption(f"batch_size: expected at least 1, found {batch_size}")
        if self.share < 1:
            raise InvalidData(f"data: expected a row for each of {self.world} processes, found {len(self.source)}")
        return min(batch_size, self.share)

    def _initialize(self, initialize: bool | Mapping[str, Any] | None) -> None:
        if initialize is None:
            initialize = not any(bool(c.weight.any()) for c in self.machine.couplings)
        if initialize is False:
            return
        options = {} if initialize is True else initialize
        some = self.source.rows(self._some(len(self.source), 50_000), self.machine)
        generator = stream(self.seed, _INITIALIZE, device=self.machine.device)
        self.machine.initialize(some, generator=generator, **options)

    def _optimizer(self, optimizer: Any) -> Optimizer:
        if optimizer is None:
            optimizer = torch.optim.SGD(default_groups(self.machine, self._metric_rows(self.source)))
        elif not isinstance(optimizer, Optimizer):
            optimizer = optimizer([p for p in self.machine.parameters() if p.requires_grad])
        given = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        if not given <= {id(parameter) for parameter in self.machine.parameters()}:
            raise InvalidOption("the optimizer holds parameters of something else than the machine that is trained")
        return optimizer

    @torch.no_grad()
    def _begin_phases(self) -> None:
        start = self.source.rows(self._some(len(self.source), max(self.batch_size, 1000), self.rank), self.machine)
        self.negative.begin(self.machine, self.batch_size, start, self.generator)
        mean = torch.zeros(self.machine.visible.shape, dtype=torch.float64, device=self.machine.device)
        for chunk in self.source.chunks(self.machine):
            mean += chunk.sum(0)
        for transform in self.transforms:
            transform.begin(self.machine, mean / len(self.source))

    def _some(self, n: int, most: int, rank: int = 0) -> Tensor:
        """Up to ``most`` row numbers, the same for every run with this seed."""
        order = torch.randperm(n, generator=stream(self.seed, _ORDER, 0, rank))
        return order[:most]

    def _config(self) -> dict[str, Any]:
        return {
            "harmonium": {"format": 1},
            "machine": self.machine.config(),
            "training": {"epochs": self.epochs, "batch_size": self.batch_size, "seed": self.seed},
            "negative": self.negative.config(),
            "transforms": [transform.config() for transform in self.transforms],
        }

    # -- the loop -------------------------------------------------------------------------------------------

    def train(self, progress: bool = True) -> Result:
        """All epochs that are left, with metrics, callbacks and checkpoints."""
        state = Progress(self.machine, self.negative, self.epoch, self.epochs, history=self.history)
        for callback in self.callbacks:
            callback.on_start(state)
        kept = log_spaced(self.epochs)
        if self._all_plain:  # our own steps follow; a scheduler of torch expects to have seen one of the optimizer's
            self.optimizer.zero_grad(set_to_none=True)
            self.optimizer.step()
        with ProgressBar(self.epochs, self.epoch, progress and self.rank == 0) as bar:
            while self.epoch < self.epochs and not state.stop:
                began = time.perf_counter()
                self.one_epoch(bar)
                self.seconds += time.perf_counter() - began
                self.epoch += 1
                last = self.epoch == self.epochs
                if last:
                    for transform in self.transforms:
                        transform.end(self.machine)
                self._check_finite(self.epoch)
                self._check_normalizable()
                state.epoch, state.metrics = self.epoch, self._metrics(time.perf_counter() - began)
                for callback in self.callbacks:
                    callback.on_epoch(state)
                state.stop = any(distributed.of_all(state.stop))
                self.history.append(
                    {name: value if type(value) is int else float(value) for name, value in state.metrics.items()}
                )
                bar.update(self.epoch, state.metrics)
                self._save(self.epoch in kept or state.stop)
                if state.stop and not last:  # what is kept can go on; what is given back is the finished machine
                    for transform in self.transforms:
                        transform.end(self.machine)
        self.negative.k = self._own_k
        if self.rank == 0:
            for problem in outcome.problems(self.machine, self._metric_rows(self.source), self.history):
                warnings.warn(problem, NotLearned, stacklevel=3)
        for callback in self.callbacks:
            callback.on_end(state)
        return Result(self.machine, self.history)

    @torch.no_grad()
    def one_epoch(self, bar: ProgressBar | None = None) -> None:
        """The steps of one epoch, without measuring or keeping anything."""
        epoch = self.epoch + 1
        setting = self.schedule(Clock(epoch, self.epochs, self.epoch / self.epochs))
        batch_size = self.batch_size if setting.batch_size is None else self._checked_batch(setting.batch_size)
        if batch_size != self.batch_size:
            self.batch_size = batch_size
            self.negative.resize(self.machine, self.batch_size)
        order = self.rows[torch.randperm(len(self.rows), generator=stream(self.seed, _ORDER, epoch, self.rank))]
        order = order[: self.share]
        steps = -(-self.share // self.batch_size)
        for step in range(steps):
            clock = Clock(epoch, self.epochs, (self.epoch + step / steps) / self.epochs)
            try:
                self._step(order[step * self.batch_size : (step + 1) * self.batch_size], clock)
            except Diverged as error:  # a sampler met it first
                raise self._diverged(epoch, str(error)) from error
            if step % _CHECK_EVERY == _CHECK_EVERY - 1:
                self._check_finite(epoch)
                if bar is not None:
                    bar.update(self.epoch + (step + 1) / steps, self.history[-1] if self.history else {})

    def _step(self, index: Tensor, clock: Clock) -> None:
        setting = self.schedule(clock)
        if setting.k is not None:
            self.negative.k = setting.k
        if len(index) != len(self.negative.batch):
            self.negative.use(len(index))
        self.source.take(index, self.negative.batch, self.generator)
        with torch.autocast(self.machine.device.type, torch.bfloat16, self.rounded, cache_enabled=False):
            self._gradient()
            self._take(setting.rate * len(index) / self.batch_size)  # every row of an epoch has the same weight
        for coupling in self._couplings:
            coupling.project()
        for transform in self.transforms:
            transform.parameters(self.machine, clock)

    def _gradient(self) -> None:
        """The gradient of the batch, as the transforms leave it."""
        self.negative.evaluate(self.machine, self.generator)
        if self.world > 1:
            for link in self.negative.coupling_gradients.values():
                link.dense()
            distributed.average_gradients(self.machine)
        for transform in self.transforms:
            transform.gradient(self.machine, self.negative)

    def _take(self, rate: float) -> None:
        """The step, with ``rate`` times the learning rates that the optimizer has at this moment."""
        groups = self.optimizer.param_groups
        own = [group["lr"] for group in groups]
        if self._all_plain and not (rate and any(own)):  # nothing moves; the map of the gradient divides by rates
            return
        for group in groups:
            group["lr"] = group["lr"] * rate
        linear = self._all_plain and all(own)
        for transform in self.transforms:
            if linear:
                transform.pull_back(self.machine, self.negative, lambda parameter: self._plain[id(parameter)]["lr"])
            else:
                transform.enter(self.machine, self.negative, self.optimizer)
        for link in self.negative.coupling_gradients.values():
            plain = self._plain.get(id(link.coupling.weight))
            if plain is None or not link.descend(plain["lr"]):
                link.dense()
        self._descend()
        if not linear:
            for transform in reversed(self.transforms):
                transform.leave(self.machine, self.negative)
        for group, lr in zip(groups, own, strict=True):
            group["lr"] = lr

    def _descend(self) -> None:
        """The optimizer's step; where that is W ← W - lr·g for all, without its overhead."""
        if not self._all_plain:
            self.optimizer.step()
            return
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-group["lr"])

    def _check_finite(self, epoch: int) -> None:
        for name, parameter in self.machine.named_parameters():
            if not bool(parameter.abs().max() < _HUGE):
                size = parameter.abs().max().item()
                raise self._diverged(
                    epoch, f"{name} is no longer finite" if size != size else f"{name} reaches {size:.3g}"
                )

    def _check_normalizable(self) -> None:
        try:
            self.machine.check_normalizable()
        except NotNormalizable as error:
            raise self._diverged(self.epoch, str(error)) from error

    def _diverged(self, epoch: int, what: str) -> Diverged:
        kept = f"; the last good checkpoint is {self.run.last}" if self.run and self.run.last.exists() else ""
        return Diverged(f"training diverged in epoch {epoch}: {what}; try a smaller learning rate{kept}")

    # -- keeping --------------------------------------------------------------------------------------------

    def _metrics(self, seconds: float) -> dict[str, float]:
        values: dict[str, float] = {"epoch": self.epoch, "seconds": round(self.seconds, 3)}
        values["samples_per_second"] = round(self.share * self.world / seconds, 1)
        if self.epoch % self.metrics_every == 0 or self.epoch == self.epochs:
            train = self._metric_rows(self.source)
            test = None if self.validation is None else self._metric_rows(self.validation)
            generator = stream(self.seed, _METRICS, self.epoch, device=self.machine.device)
            values |= measure(self.machine, train, test, generator)
        return values

    def _metric_rows(self, source: Source) -> Tensor:
        return source.rows(self._some(len(source), _METRIC_ROWS), self.machine)

    def _save(self, snapshot: bool) -> None:
        if not self.keep:
            return
        own = {"negative": self.negative.state_dict(), "generator": self.generator.get_state()}
        processes = distributed.gather(own)
        if self.run is None:
            return
        self.run.write_metrics(self.history)
        if snapshot:
            self.run.write_snapshot(self.machine, self.epoch)
        self.run.write_checkpoint(
            self.machine,
            {
                "format": _STATE_FORMAT,
                "epoch": self.epoch,
                "of": self._fingerprint(),
                "batch_size": self.batch_size,
                "k": self.negative.k,
                "optimizer": self.optimizer.state_dict(),
                "transforms": [transform.state_dict() for transform in self.transforms],
                "processes": processes,  # chains and random numbers are each process's own
            },
        )

    @torch.no_grad()
    def _load(self) -> None:
        state, rows = self._read()
        if len(state["processes"]) != self.world:
            found = len(state["processes"])
            raise RunError(f"the run was made by {found} processes; resume it with as many, not with {self.world}")
        if len(state["transforms"]) != len(self.transforms):
            raise RunError(f"the run has {len(state['transforms'])} transforms; found {len(self.transforms)}")
        for name, value in self._fingerprint().items():
            if state["of"].get(name) != value:
                raise RunError(f"the run was made with {name} {state['of'].get(name)}; found {value}")
        self.epoch = state["epoch"]
        self.batch_size, self.negative.k = state["batch_size"], state["k"]
        self.negative.resize(self.machine, self.batch_size)
        load_optimizer(self.optimizer, state["optimizer"])
        if state.get("format", 1) < 2:  # the scheduled rate was in "lr", and the optimizer's own beside it
            for group in self.optimizer.param_groups:
                group["lr"] = group.pop("initial_lr", group["lr"])
        own = state["processes"][self.rank]
        self.negative.load_state_dict(own["negative"], self.machine)
        for transform, kept in zip(self.transforms, state["transforms"], strict=True):
            transform.load_state_dict(kept)
        self.generator.set_state(own["generator"])
        self.history.extend(row for row in rows if row["epoch"] <= self.epoch)
        self.seconds = self.history[-1].get("seconds", 0.0) if self.history else 0.0

    def _fingerprint(self) -> dict[str, Any]:
        """What a resumed run has to share with the one it goes on from (no times: equal runs make equal files)."""
        return {
            "seed": self.seed,
            "rows": len(self.source),
            "negative phase": type(self.negative).__name__,
            "optimizer": type(self.optimizer).__name__,
            "transforms": [type(transform).__name__ for transform in self.transforms],
        }

    def _read(self) -> tuple[dict[str, Any], list[dict[str, float]]]:
        """The kept state and metrics, read by the first process for all; the parameters go into the machine."""
        kept = None if self.run is None else (self.run.read_checkpoint(self.machine), self.run.read_metrics())
        state, rows, dtype = distributed.of_first(kept and (*kept, self.machine.dtype))
        self.machine.to(dtype=dtype)
        distributed.share_parameters(self.machine)
        return state, rows
