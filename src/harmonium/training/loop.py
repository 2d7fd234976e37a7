"""The training loop, shared by all machines, negative phases and units."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from ..errors import Diverged, InvalidOption, NotConverged, NotLearned, NotNormalizable, warn
from ..files import tensor_type
from ..machines.scaling import Scaling
from ..noise import Purpose
from . import checkpoints, distributed, outcome, rise
from .batches import Source, as_source, visible_part
from .callbacks import Callback, Progress, check_callbacks
from .descent import AnyOptimizer
from .incomplete import completed
from .initial import has_weights
from .learner import learners, plain_rates, take_step
from .metrics import measure
from .negative import Batch, NegativePhase
from .negative.base import complete
from .optimizers import SGD, Optimizer
from .plan import Plan
from .precision import FLOAT32
from .progress import ProgressBar
from .rates import RateLimit, adam_groups, default_groups
from .result import Result
from .run import Run, log_spaced
from .schedules import Clock
from .state import stream
from .stopping import Stopping

_METRIC_ROWS = 1000
_LIMIT_ROWS = 500  # for the limit of the learning rates; the cost is quadratic in them
_SWEEPS = 10  # of the missing values of validation rows before a measurement
_HUGE = 1e10  # a parameter above this has diverged, even if it is still finite
_CHECK_EVERY = 100  # number of steps between checks for finite parameters
_MEASUREMENTS = 200  # at most, of a training


class Training:
    """A training, epoch by epoch: :func:`fit` is a loop over it.

    An epoch gives its row of the history, after metrics, callbacks and checkpoints. The machine may be used, and the
    loop left, after any of them. Single machines are not pretrained here.

    Args:
        machine: a machine or a stack, which is changed in place.
        data: rows, as for :func:`fit`.
        plan: the plan; what it leaves open is chosen from the machine and the data.
        validation, callbacks, run, resume, progress: as for :func:`fit`.
        initialize: whether the parameters are initialized as the plan says.
        tables: the tables ``[data]`` and ``[machine]`` of the configuration, beside what is recorded in any case.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(64, 8)
    >>> images = hm.data.load("digits", binarize="threshold")
    >>> for epoch in Training(rbm, images, hm.Plan(epochs=100, learning_rate=0.1, seed=0), progress=False):
    ...     if epoch["weight_norm"] > 3:
    ...         break
    >>> epoch["epoch"] < 100
    True
    """

    def __init__(
        self,
        machine: Any,  # a machine or a stack
        data: Any,
        plan: Plan | None = None,
        *,
        validation: Any = None,
        callbacks: Iterable[Callback] = (),
        run: str | Path | None = None,
        resume: bool = False,
        progress: bool = True,
        initialize: bool = True,
        tables: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.machine, self.source = machine, as_source(data, machine)
        self.plan = plan = (plan or Plan()).resolved(machine, self.source)
        assert plan.seed is not None and plan.epochs is not None and plan.batch_size is not None
        self.seed, self.epochs, self.batch_size = plan.seed, plan.epochs, plan.batch_size
        self.callbacks, self.progress = check_callbacks(callbacks), progress
        self.rank, self.world = distributed.world()
        self.schedule, self.precision = plan.schedule, plan.precision
        self.rounded = self.precision != FLOAT32
        self.validation = None if validation is None else as_source(validation, machine, what="validation data")
        self.rows = torch.arange(self.rank, len(self.source), self.world)
        self.share = len(self.source) // self.world  # rows per process; all processes take the same number of steps
        self.metrics_every = measured_every(self.epochs)
        self.keep = run is not None
        if self.world > 1:
            self._check_processes(run, resume)
        self.run, resume = checkpoints.begin(run, resume, self.rank)
        kept = checkpoints.read(self) if resume else None
        if kept is None:
            if initialize:
                self._initialize()
            distributed.share_parameters(machine)
            self._check_weights()
        mean, scaling = self._moments()
        self.optimizer = self._optimizer(scaling if plan.centered else None)
        self.generator = stream(self.seed, Purpose.CHAINS, self.rank, device=machine.device)
        start = self.source.rows(self._some(len(self.source), max(self.batch_size, 1000), self.rank), machine)
        with torch.no_grad():
            self.learners = learners(machine, plan, start, mean, scaling, self.optimizer, self.generator)
        self.negative = plan.negative  # as schedules and callbacks change it
        self._memory: dict[int, Any] = {}
        self.history: list[dict[str, float]] = []
        self.epoch, self.seconds = 0, 0.0  # number of finished epochs and their total time
        self.step = self.updates = 0  # number of finished steps of the epoch in progress, and of all
        self.config = self._config(tables or {}, mean)
        if kept is None:
            self._limit_rates()
        else:
            checkpoints.restore(self, kept)
        if self.run is not None:  # last, so that a call that fails changes nothing
            self._record(self.run, resume)

    # -- preparation ----------------------------------------------------------------------------------------

    def _check_processes(self, run: str | Path | None, resume: bool) -> None:
        """Raise unless all processes have the same data, options and kind of machine: each takes its share of them."""
        chunks = (part for chunk in self.source.chunks(self.machine) for part in _parts(chunk))
        distributed.check_equal(
            machine={name: tensor_type(t) for name, t in self.machine.state_dict().items()},
            rows=len(self.source),
            data=distributed.checksum(chunks),
            validation=0 if self.validation is None else len(self.validation),
            **self.plan.table(),
            run=None if run is None else str(run),
            resume=resume,
        )

    def _initialize(self) -> None:
        chosen = "initialize" in self.plan.reasons  # then, parameters of a trained machine are kept
        some = self.source.rows(self._some(len(self.source), self.source.initial_rows), self.machine)
        generator = stream(self.seed, Purpose.INITIALIZE, device=self.machine.device)
        for machine, rows in self.machine.stacked(some, generator=generator):
            if not (chosen and has_weights(machine)):
                self.plan.initialize.apply(machine, rows, generator)

    @torch.no_grad()
    def _moments(self) -> tuple[Any, Scaling | None]:
        """Return the mean of the data (*visible), and the scaling of its units if some have a scale.

        With a context, the mean is a pair, and units are not scaled: their spread depends on the context.
        """
        mean = self.source.mean(self.machine)
        if self.machine.context is not None or not any(part.affine for part in self.machine.visible.parts):
            return mean, None
        variance = torch.zeros_like(mean)
        for chunk in self.source.chunks(self.machine):
            variance += (chunk - mean).square_().sum(0)
        return mean, Scaling.from_moments(self.machine.visible, mean, variance / len(self.source))

    def _optimizer(self, scaling: Scaling | None) -> AnyOptimizer:
        given, rate = self.plan.optimizer, self.plan.learning_rate
        parameters = [p for p in self.machine.parameters() if p.requires_grad]
        self.rate_limit = None  # of learning rates chosen by the user
        if isinstance(given, Optimizer) and rate == "auto":
            rows = self._metric_rows(self.source)
            choose = default_groups if isinstance(given, SGD) else adam_groups
            optimizer = given.make(choose(self.machine, rows, scaling))
            if RateLimit.applies(self.machine):
                few = self.source.rows(self._some(len(self.source), _LIMIT_ROWS), self.machine)
                self.rate_limit = RateLimit(self.machine, few, scaling)
        elif isinstance(given, Optimizer):
            optimizer = given.make([{"params": parameters, "lr": rate}])
        elif isinstance(given, AnyOptimizer):
            optimizer = given
        else:
            optimizer = given(parameters) if rate is None else given(parameters, lr=rate)
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        if not held <= {id(parameter) for parameter in self.machine.parameters()}:
            raise InvalidOption("optimizer: expected only parameters of the trained machine, found other parameters")
        return optimizer

    def _some(self, n: int, most: int, rank: int = 0) -> Tensor:
        """Return up to ``most`` random row indices that depend only on the seed and the rank."""
        order = torch.randperm(n, generator=stream(self.seed, Purpose.ORDER, 0, rank))
        return order[:most]

    def _config(self, tables: Mapping[str, Mapping[str, Any]], mean: Any) -> dict[str, Any]:
        """Return the configuration of the run; ``tables`` name its data and its layers, if they have names."""
        from .. import __version__

        dtype = str(self.machine.dtype).removeprefix("torch.")
        unnamed = {} if "data" in tables else {"rows": len(self.source), "mean": data_mean(mean)}
        own = {"dtype": dtype, "device": str(self.machine.device), "threads": torch.get_num_threads()}
        return {
            "harmonium": __version__,
            "data": {**unnamed, **tables.get("data", {})},
            "machine": {**tables.get("machine", {}), **own},
            "training": self.plan.table(),
        }

    def _record(self, run: Run, resume: bool) -> None:
        """Write the configuration and the first machine; on resume only what may change."""
        if not resume:
            run.write_config(self.config)
            run.write_snapshot(self.machine, 0)
        elif run.config_path.exists():
            written = run.read_config()
            if any(_entry(written, *place) != _entry(self.config, *place) for place in checkpoints.CHANGEABLE):
                run.write_config(_changed(written, self.config))

    # -- the loop -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Run the remaining epochs, with metrics, callbacks and checkpoints; give the row of the history of each."""
        state = Progress(
            self.machine, self.negative, self.epoch, self.epochs, self.chains, self._rows, history=self.history
        )
        for callback in self.callbacks:
            callback.on_start(state)
        kept = log_spaced(self.epochs)
        if isinstance(self.optimizer, torch.optim.Optimizer):
            # plain steps bypass the optimizer; one empty step stops schedulers of torch from warning
            self.optimizer.zero_grad(set_to_none=True)
            self.optimizer.step()
        stopping = Stopping(self.keep)
        with stopping, ProgressBar(self.epochs, self.epoch, self.progress and self.rank == 0) as bar:
            while self.epoch < self.epochs and not state.stop and not self._stops(stopping):
                began = time.perf_counter()
                self.one_epoch(bar, stopping)
                self.seconds += time.perf_counter() - began
                if self.step:  # stopped within the epoch
                    self._check_finite(self.epoch + 1)
                    checkpoints.save(self, snapshot=False)
                    break
                self.epoch += 1
                last = self.epoch == self.epochs
                if last:
                    self._finish()
                self._check_finite(self.epoch)
                self._check_normalizable()
                state.epoch, state.metrics = self.epoch, self._metrics(time.perf_counter() - began)
                state.negative = self.negative
                for callback in self.callbacks:
                    callback.on_epoch(state)
                self.use(state.negative)
                state.stop = any(distributed.of_all(state.stop or (self.world > 1 and stopping.requested)))
                self.history.append(
                    {name: value if type(value) is int else float(value) for name, value in state.metrics.items()}
                )
                bar.update(self.epoch, state.metrics)
                ends = last or state.stop or stopping.requested
                if ends or self.epoch in kept or self.epoch % self.metrics_every == 0:
                    checkpoints.save(self, snapshot=self.epoch in kept or state.stop)
                if state.stop and not last:  # after saving, so that the run can still be resumed
                    self._finish()
                yield self.history[-1]
        stopping.deliver()
        for callback in self.callbacks:
            callback.on_end(state)

    def train(self) -> Result:
        """Run the remaining epochs, and warn if the result should not be used."""
        for _ in self:
            pass
        if self.rank == 0:
            rows = self._metric_rows(self.source)
            for problem in outcome.problems(self.machine, rows, self.history, self.negative.generative):
                warn(problem, NotLearned)
        gain = self._expected_gain()
        rising = rise.problem(gain) if "epochs" in self.plan.reasons and self.epoch == self.epochs else None
        if self.rank == 0 and rising is not None:
            warn(rising, NotConverged)
        return Result(self.machine, self.history, self.plan, gain)

    def _finish(self) -> None:
        with torch.no_grad():
            for learner in self.learners:
                learner.finish()

    def use(self, phase: NegativePhase) -> None:
        """Continue with other options of the negative phase, such as its number of sweeps."""
        if phase != self.negative:
            self.negative = phase
            for learner in self.learners:
                learner.phase = phase.resolved(self.plan.batch_size or 1)

    def chains(self) -> Tensor | None:
        """Return visible states (chains, *visible) of the chains of the only machine; None if there are none."""
        (learner,) = self.learners
        drawn = stream(self.seed, Purpose.METRICS, self.epoch, device=self.machine.device)
        return learner.phase.visible_chains(learner.machine, learner.state, drawn)

    def _rows(self) -> Any:
        return self.source.rows(self._some(len(self.source), self.batch_size), self.machine)

    def _expected_gain(self) -> float | None:
        if self.epoch < self.epochs or not self.source.complete or not self.negative.generative:
            return None
        return rise.expected_gain(self.history, self.epochs, self.schedule)

    def _stops(self, stopping: Stopping) -> bool:
        """Return whether to stop before the next step; several processes only stop together, after an epoch."""
        return stopping.requested and self.world == 1

    @torch.no_grad()
    def one_epoch(self, bar: ProgressBar | None = None, stopping: Stopping | None = None) -> None:
        """Run the steps of epoch ``self.epoch + 1`` after ``self.step``, without metrics, callbacks or checkpoints.

        Does not advance ``self.epoch``, which :meth:`train` does: repeated calls use the same order of rows. If a
        signal stops it, ``self.step`` is the number of finished steps, otherwise 0.
        """
        epoch = self.epoch + 1
        self._casts = self.rounded or torch.is_autocast_enabled(self.machine.device.type)  # of the caller
        setting = self.schedule(Clock(epoch, self.epochs, self.epoch / self.epochs))
        batch_size = self.batch_size if setting.batch_size is None else min(setting.batch_size, self.share)
        if batch_size < 1:
            raise InvalidOption(f"batch_size: expected at least 1, found {batch_size}")
        self.batch_size = batch_size
        order = self.rows[torch.randperm(len(self.rows), generator=stream(self.seed, Purpose.ORDER, epoch, self.rank))]
        order = order[: self.share]
        self.source.begin(epoch)
        steps = -(-self.share // self.batch_size)
        begun, self.step = self.step, 0
        for step in range(begun, steps):
            self.updates += 1
            clock = Clock(epoch, self.epochs, (self.epoch + step / steps) / self.epochs, self.updates)
            try:
                self._step(order[step * self.batch_size : (step + 1) * self.batch_size], clock)
            except Diverged as error:  # raised by a negative phase
                raise self._diverged(epoch, str(error)) from error
            if step % _CHECK_EVERY == _CHECK_EVERY - 1:
                self._check_finite(epoch)
                self._limit_rates()
                if bar is not None:
                    bar.update(self.epoch + (step + 1) / steps, self.history[-1] if self.history else {})
            if stopping is not None and self._stops(stopping) and step + 1 < steps:
                self.step = step + 1
                return
        self._limit_rates()

    def _limit_rates(self) -> None:
        if self.rate_limit is not None:
            self.rate_limit.lower(self.optimizer, self.batch_size * self.world)

    def _step(self, index: Tensor, clock: Clock) -> None:
        setting = self.schedule(clock)
        if setting.k is not None:
            self.use(self.negative.with_sweeps(setting.k))
        batch = self._batch(index)
        rate = setting.rate * len(index) / self.batch_size  # every row of an epoch has the same weight
        if self._casts:
            with torch.autocast(self.machine.device.type, torch.bfloat16, self.rounded, cache_enabled=False):
                self._update(batch, rate, clock)
        else:
            self._update(batch, rate, clock)

    def _batch(self, index: Tensor) -> Batch:
        """Return the rows ``index``; missing values are drawn given the others, or left to the negative phase."""
        rows = self.source.take(index, self._slots(len(index)), self.generator)
        visible, context = rows if isinstance(rows, tuple) else (rows, None)
        if self.source.volatile:
            self.machine.visible.check(visible, "data, which have changed during training")
        missing = self.source.missing(index)
        if missing is None or self.negative.sums_missing:
            return Batch(visible, context, missing)
        complete(self.machine, visible, missing, self.source.sweeps, self.generator)
        self.source.keep(index, visible)
        return Batch(visible, context)

    def _slots(self, rows: int) -> Any:
        """Return memory for the rows of a batch, which the next batch of this size uses again."""
        if rows not in self._memory:
            if len(self._memory) > 1:
                self._memory.clear()
            self._memory[rows] = self.source.empty(rows, self.machine)
        return self._memory[rows]

    def _update(self, batch: Batch, rate: float, clock: Clock) -> None:
        rates = plain_rates(self.optimizer)
        pairs = []
        inputs = self.machine.stacked(batch.visible, generator=self.generator)
        for learner, (_, rows) in zip(self.learners, inputs, strict=True):
            own = batch if rows is batch.visible else Batch(rows)
            pairs.append((learner, learner.gradient(own, clock, rates.get, self.generator)))
        take_step(pairs, self.optimizer, rates, rate)
        for learner in self.learners:
            learner.constrain(clock)

    def _check_finite(self, epoch: int) -> None:
        for name, parameter in self.machine.named_parameters():
            if not bool(parameter.abs().max() < _HUGE):
                size = parameter.abs().max().item()
                raise self._diverged(
                    epoch, f"{name} is no longer finite" if size != size else f"{name} reaches {size:.3g}"
                )

    def _check_normalizable(self) -> None:
        try:
            self._check_weights()
        except NotNormalizable as error:
            raise self._diverged(self.epoch, str(error)) from error

    def _check_weights(self) -> None:
        for machine in self.machine.machines:
            machine.check_weights()

    def _diverged(self, epoch: int, what: str) -> Diverged:
        kept = f"; the last good checkpoint is {self.run.last}" if self.run and self.run.last.exists() else ""
        return Diverged(f"training diverged in epoch {epoch}: {what}; try a smaller learning rate{kept}")

    # -- measuring ------------------------------------------------------------------------------------------

    def _metrics(self, seconds: float) -> dict[str, float]:
        values: dict[str, float] = {"epoch": self.epoch, "seconds": round(self.seconds, 3)}
        values["samples_per_second"] = round(self.share * self.world / seconds, 1)
        if self.epoch % self.metrics_every == 0 or self.epoch == self.epochs:
            train = self._metric_rows(self.source)
            moving = stream(self.seed, Purpose.METRICS, self.epoch, device=self.machine.device)
            test = None if self.validation is None else self._validation_rows(self.validation, moving)
            # without the epoch, so that a fixed machine has fixed metrics
            fixed = stream(self.seed, Purpose.METRICS, device=self.machine.device)
            values |= measure(self.machine, train, test, fixed)
        return values

    def _validation_rows(self, source: Source, generator: Generator) -> Any:
        """Return validation rows; the chains of their missing values advance with every measurement."""
        index = self._some(len(source), _METRIC_ROWS)
        return completed(source, index, self.machine, sweeps=_SWEEPS, generator=generator)

    def _metric_rows(self, source: Source) -> Any:
        return source.rows(self._some(len(source), _METRIC_ROWS), self.machine)


def _parts(rows: Any) -> tuple[Tensor, ...]:
    """Return the tensors of rows, which are a pair for a machine with a context."""
    return rows if isinstance(rows, tuple) else (rows,)


def _entry(config: Mapping[str, Any], table: str, key: str) -> Any:
    """Return an entry of a configuration, which the user may have written; None if it is not there."""
    found = config.get(table)
    return found.get(key) if isinstance(found, Mapping) else None


def _changed(written: dict[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with the entries of ``now`` that may change when a run continues."""
    config = copy.deepcopy(written)
    for table, key in checkpoints.CHANGEABLE:
        value = _entry(now, table, key)
        if value is not None:
            config.setdefault(table, {})[key] = value
    return config


def measured_every(epochs: int) -> int:
    """Return the number of epochs between measurements: at most 200 measurements in a run.

    >>> measured_every(100), measured_every(4000)
    (1, 20)
    """
    return max(1, math.ceil(epochs / _MEASUREMENTS))


def data_mean(mean: Any) -> float:
    """Return the mean over all values of the data from the mean row, to recognize the data of a run."""
    return float(visible_part(mean).double().mean())
