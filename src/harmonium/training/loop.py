"""The training loop, shared by all machines, negative phases and units."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from ..errors import Diverged, InvalidData, InvalidOption, NotConverged, NotLearned, NotNormalizable
from ..files import tensor_type
from ..machines import BoltzmannMachine
from ..machines.normalizable import SpectralBound, may_diverge
from ..machines.scaling import Scaling
from ..shown import Shown, short
from . import checkpoints, distributed, outcome, rise
from .arguments import Arguments, takes
from .batches import Source, as_source
from .callbacks import Progress, check_callbacks
from .centering import Centered
from .defaults import default_epochs, default_metrics_every
from .descent import SGD, Adam, AnyOptimizer
from .incomplete import completed
from .metrics import measure
from .negative import NegativePhase
from .precision import FLOAT32, resolved
from .progress import ProgressBar
from .rates import RateLimit, adam_groups, default_groups
from .recorded import recorded
from .run import IN_REPR, Run, log_spaced
from .schedules import Clock
from .stacks import jointly
from .state import stream
from .stopping import Stopping
from .threads import alone, using

_METRIC_ROWS = 1000
_LIMIT_ROWS = 500  # for the limit of the learning rates; the cost is quadratic in them
_SWEEPS = 10  # of the missing values of validation rows before a measurement
_HUGE = 1e10  # a parameter above this has diverged, even if it is still finite
_CHECK_EVERY = 100  # number of steps between checks for finite parameters
#: entries of the configuration that may change when a run continues
_CHANGEABLE = (("training", "epochs"), ("training", "threads"), ("training", "metrics_every"), ("data", "source"))
# purposes of the random streams, which are independent of each other
_ORDER, _INITIALIZE, _CHAINS, _METRICS = range(4)


@dataclass(repr=False)
class Result(Shown):
    """Result of :func:`fit`: the trained machine and the metrics of each epoch.

    ``expected_gain`` is the increase of the log-likelihood per row, in nats, that another training of the same length
    would bring; it is None for machines that are too large for exact likelihoods, and after few epochs.
    """

    machine: Any
    history: list[dict[str, float]]
    expected_gain: float | None = None

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The machine and the metrics of the last epoch."""
        last = self.history[-1] if self.history else {}
        metrics = {name.replace("_", " "): short(value) for name, value in last.items()}
        return "Result", {"machine": repr(self.machine), **metrics}

    def __repr__(self) -> str:
        last = self.history[-1] if self.history else {}
        shown = {name.replace("_", " "): value for name, value in last.items()}
        metrics = [f"{name} {short(shown[name], 3)}" for name in IN_REPR if name in shown]
        words = ", ".join([f"{last.get('epoch', 0):.0f} epochs", *metrics])
        return f"Result({words})"


@takes(Arguments)
def fit(*positional: Any, **keywords: Any) -> Result:
    """Train ``machine`` in place on the rows of ``data``.

    Args:
        machine: any machine; it is changed in place. The machines of a :class:`DeepBeliefNetwork` are trained jointly,
            each on the input passed up from the one below; the loss is the sum of their losses.
        data: n rows with the shape of the visible layer: tensor, array, memory map, pandas table, torch data set or
            DataLoader. If rows are pairs (features, label), only the features are used. A DataLoader provides its
            data set and its batch size; rows are always shuffled.
        {arguments}

    Returns:
        ``Result`` with the machine and the ``history``, a list with the metrics of each epoch.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(2))
    >>> data = torch.tensor([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]).repeat(50, 1)
    >>> result = hm.fit(rbm, data, negative="exact", epochs=2, batch_size=50, seed=0, progress=False)
    >>> [row["epoch"] for row in result.history]
    [1, 2]
    """
    given = Arguments.of(*positional, **keywords)
    with distributed.writing(given.run), using(given.threads, given.run, given.resume), alone(given.machine):
        return Training(given).train()


class Training:
    """The state of one call of :func:`fit`, for running single epochs.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(8))
    >>> training = Training(Arguments.of(rbm, hm.data.load("digits", binarize="threshold"), learning_rate=0.1))
    >>> training.one_epoch()
    """

    def __init__(self, given: Arguments) -> None:
        machine: Any = given.machine  # a machine or a stack, for which ``jointly`` makes phase and transforms
        self.machine = machine
        self.seed = given.seed
        self.callbacks, self.progress = check_callbacks(given.callbacks), given.progress
        distributed.join()
        self.rank, self.world = distributed.world()
        self.source = as_source(given.data, machine)
        phase = given.phase(self.source)
        given = replace(given, negative=phase)  # the other defaults depend on it
        self.schedule = given.scheduled()
        self.precision = resolved(given.precision, machine, phase)
        self.rounded = self.precision != FLOAT32
        self.validation = (
            None if given.validation is None else as_source(given.validation, machine, what="validation data")
        )
        self.rows = torch.arange(self.rank, len(self.source), self.world)
        self.share = len(self.source) // self.world  # rows per process; all processes take the same number of steps
        self.batch_size = self._checked_batch(given.batch_size)
        self.default_epochs = given.epochs is None
        self.epochs = given.epochs or default_epochs(self.source, machine, self.batch_size, self.share)
        self.metrics_every = given.metrics_every or default_metrics_every(self.epochs)
        self.save_every = self.metrics_every if given.metrics_every is None else 1
        self.keep = given.run is not None
        if self.world > 1:
            self._check_processes(given, phase)
        self.run, resume = checkpoints.begin(given.run, given.resume, self.rank)
        kept = checkpoints.read(self) if resume else None
        if kept is None:
            self._initialize(given.initialize)
            distributed.share_parameters(machine)
            self._check_weights()
        mean, scaling = self._moments()
        chosen = [Centered()] if given.transforms is None else given.transforms
        centered = any(isinstance(transform, Centered) for transform in chosen)
        self.optimizer = self._optimizer(given, scaling if centered else None)
        self._couplings = [
            *machine.couplings,
            *(coupling for one in machine.machines for coupling in one.context_couplings.values()),
        ]
        ordered = sorted(chosen, key=lambda transform: not transform.of_loss)
        self._given = phase, ordered
        self.negative, self.transforms = jointly(machine, phase, ordered)
        for transform in self.transforms:
            transform.check(machine, self.optimizer)
        self.generator = stream(self.seed, _CHAINS, self.rank, device=machine.device)
        self._begin_phases(mean, scaling)
        self._own_k = self.negative.k
        means = [mean if machine.context is None else mean[0], *(None for _ in machine.machines[1:])]
        pairs = zip(machine.machines, means, strict=True)
        self._bounds = [SpectralBound(one, mean) for one, mean in pairs if may_diverge(one)]
        self.history: list[dict[str, float]] = []
        self.epoch, self.seconds = 0, 0.0  # number of finished epochs and their total time
        self.step = 0  # number of finished steps of the epoch in progress
        self.config = self._config(given, mean) if given.config is None else given.config
        if kept is None:
            self._limit_rates()
        else:
            checkpoints.restore(self, kept)
        self._plain = plain_groups(self.optimizer)  # after loading, which replaces the groups
        self._all_plain = len(self._plain) == sum(len(group["params"]) for group in self.optimizer.param_groups)
        if self.run is not None:  # last, so that a call that fails changes nothing
            self._record(self.run, given, resume)

    # -- preparation ----------------------------------------------------------------------------------------

    def _checked_batch(self, batch_size: int) -> int:
        """Return the batch size, limited to the number of rows of a process."""
        if batch_size < 1:
            raise InvalidOption(f"batch_size: expected at least 1, found {batch_size}")
        if self.share < 1:
            raise InvalidData(f"data: expected at least {self.world} rows, one per process, found {len(self.source)}")
        return min(batch_size, self.share)

    def _check_processes(self, given: Arguments, phase: NegativePhase) -> None:
        """Raise unless all processes have the same data, options and kind of machine: each takes its share of them."""
        chunks = (part for chunk in self.source.chunks(self.machine) for part in _parts(chunk))
        distributed.check_equal(
            machine={name: tensor_type(t) for name, t in self.machine.state_dict().items()},
            rows=len(self.source),
            data=distributed.checksum(chunks),
            validation=0 if self.validation is None else len(self.validation),
            seed=self.seed,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=given.learning_rate,
            schedule=given.schedule if isinstance(given.schedule, str) else None,
            negative=phase.config(),
            transforms=None if given.transforms is None else [part.config() for part in given.transforms],
            metrics_every=self.metrics_every,
            precision=self.precision,
            run=None if given.run is None else str(given.run),
            resume=given.resume,
        )

    def _initialize(self, initialize: bool | str | Mapping[str, Any] | None) -> None:
        def wanted(machine: BoltzmannMachine) -> bool:
            parts = (*machine.couplings, *machine.context_couplings.values())
            return initialize is not None or not any(bool(coupling.weight.any()) for coupling in parts)

        if initialize is False or not any(map(wanted, self.machine.machines)):
            return
        options = {"weights": initialize} if isinstance(initialize, str) else initialize
        options = options if isinstance(options, Mapping) else {}
        some = self.source.rows(self._some(len(self.source), self.source.initial_rows), self.machine)
        generator = stream(self.seed, _INITIALIZE, device=self.machine.device)
        for machine, rows in self.machine.stacked(some, generator=generator):
            if wanted(machine):
                machine.initialize(rows, generator=generator, **options)

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

    def _optimizer(self, given: Arguments, scaling: Scaling | None) -> AnyOptimizer:
        optimizer = given.made_optimizer([p for p in self.machine.parameters() if p.requires_grad])
        self.rate_limit = None  # of learning rates chosen by the user
        if optimizer is None:
            rows = self._metric_rows(self.source)
            if given.optimizer_name == "adam":
                optimizer = Adam(adam_groups(self.machine, rows, scaling))
            else:
                optimizer = SGD(default_groups(self.machine, rows, scaling))
            if RateLimit.applies(self.machine):
                few = self.source.rows(self._some(len(self.source), _LIMIT_ROWS), self.machine)
                self.rate_limit = RateLimit(self.machine, few, scaling)
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        if not held <= {id(parameter) for parameter in self.machine.parameters()}:
            raise InvalidOption("optimizer: expected only parameters of the trained machine, found other parameters")
        return optimizer

    @torch.no_grad()
    def _begin_phases(self, mean: Tensor, scaling: Scaling | None) -> None:
        start = self.source.rows(self._some(len(self.source), max(self.batch_size, 1000), self.rank), self.machine)
        visible = start if self.machine.context is None else start[0]
        self.negative.begin(self.machine, self.batch_size, visible, self.generator)
        for transform in self.transforms:
            if scaling is not None:
                transform.measured(scaling)
            transform.begin(self.machine, mean)

    def _some(self, n: int, most: int, rank: int = 0) -> Tensor:
        """Return up to ``most`` random row indices that depend only on the seed and the rank."""
        order = torch.randperm(n, generator=stream(self.seed, _ORDER, 0, rank))
        return order[:most]

    def _config(self, given: Arguments, mean: Any) -> dict[str, Any]:
        """Return the configuration of a run that names its arguments, but not its data."""
        found = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "metrics_every": self.metrics_every,
            "threads": torch.get_num_threads(),
        }
        return {
            "harmonium": {"format": 1},
            "data": {"rows": len(self.source), "mean": data_mean(mean)},
            "machine": self.machine.config(),
            **recorded(given, self._given[0], self._given[1], self.source, **found, precision=self.precision),
        }

    def _record(self, run: Run, given: Arguments, resume: bool) -> None:
        """Write the configuration and the first machine; on resume only what may change."""
        if not resume:
            run.write_config(self.config)
            run.write_snapshot(self.machine, 0)
        elif run.config_path.exists():
            written = run.read_config()
            config = written if given.config is None else given.config
            if given.config is None and isinstance(written.get("training"), Mapping):
                changed = {
                    "epochs": self.epochs,
                    "threads": torch.get_num_threads(),
                    "metrics_every": self.metrics_every,
                }
                config = {**written, "training": {**written["training"], **changed}}
            if any(_entry(written, *place) != _entry(config, *place) for place in _CHANGEABLE):
                run.write_config(config)

    # -- the loop -------------------------------------------------------------------------------------------

    def train(self) -> Result:
        """Run the remaining epochs, with metrics, callbacks and checkpoints."""
        state = Progress(self.machine, self.negative, self.epoch, self.epochs, history=self.history)
        for callback in self.callbacks:
            callback.on_start(state)
        kept = log_spaced(self.epochs)
        if self._all_plain and isinstance(self.optimizer, torch.optim.Optimizer):
            # these steps bypass the optimizer; one empty step stops schedulers of torch from warning
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
                    for transform in self.transforms:
                        transform.end(self.machine)
                self._check_finite(self.epoch)
                self._check_normalizable()
                state.epoch, state.metrics = self.epoch, self._metrics(time.perf_counter() - began)
                for callback in self.callbacks:
                    callback.on_epoch(state)
                state.stop = any(distributed.of_all(state.stop or (self.world > 1 and stopping.requested)))
                self.history.append(
                    {name: value if type(value) is int else float(value) for name, value in state.metrics.items()}
                )
                bar.update(self.epoch, state.metrics)
                ends = last or state.stop or stopping.requested
                if ends or self.epoch in kept or self.epoch % self.save_every == 0:
                    checkpoints.save(self, snapshot=self.epoch in kept or state.stop)
                if state.stop and not last:  # after saving, so that the run can still be resumed
                    for transform in self.transforms:
                        transform.end(self.machine)
        stopping.deliver()
        self.negative.k = self._own_k
        if self.rank == 0:
            rows = self._metric_rows(self.source)
            for problem in outcome.problems(self.machine, rows, self.history, self.negative.generative):
                warnings.warn(problem, NotLearned, stacklevel=3)
        gain = self._expected_gain()
        rising = rise.problem(gain) if self.default_epochs and self.epoch == self.epochs else None
        if self.rank == 0 and rising is not None:
            warnings.warn(rising, NotConverged, stacklevel=3)
        for callback in self.callbacks:
            callback.on_end(state)
        return Result(self.machine, self.history, gain)

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
        batch_size = self.batch_size if setting.batch_size is None else self._checked_batch(setting.batch_size)
        if batch_size != self.batch_size:
            self.batch_size = batch_size
            self.negative.resize(self.machine, self.batch_size)
        order = self.rows[torch.randperm(len(self.rows), generator=stream(self.seed, _ORDER, epoch, self.rank))]
        order = order[: self.share]
        steps = -(-self.share // self.batch_size)
        begun, self.step = self.step, 0
        for step in range(begun, steps):
            clock = Clock(epoch, self.epochs, (self.epoch + step / steps) / self.epochs)
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
            self.negative.k = setting.k
        if len(index) != len(self.negative.batch):
            self.negative.use(len(index))
        self.source.take(index, self.negative.rows, self.generator)
        if self.source.volatile:
            self.machine.visible.check(self.negative.batch, "data, which have changed during training")
        missing = self.source.missing(index)
        if missing is not None:
            self.negative.complete(self.machine, missing, self.source.sweeps, self.generator)
            self.source.keep(index, self.negative.batch)
        rate = setting.rate * len(index) / self.batch_size  # every row of an epoch has the same weight
        if self._casts:
            with torch.autocast(self.machine.device.type, torch.bfloat16, self.rounded, cache_enabled=False):
                self._update(rate)
        else:
            self._update(rate)
        for coupling in self._couplings:
            coupling.project()
        for bound in self._bounds:
            bound.hold()
        for transform in self.transforms:
            transform.parameters(self.machine, clock)

    def _update(self, rate: float) -> None:
        self._gradient()
        self._take(rate)

    def _gradient(self) -> None:
        """Compute the gradient of the batch and apply the transforms to it."""
        for transform in self.transforms:
            transform.prepare(self.machine, self.negative)
        self.negative.evaluate(self.machine, self.generator)
        if self.world > 1:
            for link in self.negative.all_gradients:
                link.dense()
            distributed.average_gradients(self.machine)
        for transform in self.transforms:
            transform.gradient(self.machine, self.negative)

    def _take(self, rate: float) -> None:
        """Take a step with ``rate`` times the current learning rates of the optimizer."""
        groups = self.optimizer.param_groups
        own = [group["lr"] for group in groups]
        if not rate or (self._all_plain and not any(own)):  # no step; pull_back divides by the rates
            return
        for group in groups:
            group["lr"] = group["lr"] * rate
        linear = self._all_plain and all(own) and all(transform.linear for transform in self.transforms)
        for transform in self.transforms:
            if linear:
                transform.pull_back(self.machine, self.negative, lambda parameter: self._plain[id(parameter)]["lr"])
            else:
                transform.enter(self.machine, self.negative, self.optimizer)
        for link in self.negative.all_gradients:
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
        """Take the optimizer's step; plain SGD, W ← W - lr·g, is done here without the optimizer's overhead."""
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
            moving = stream(self.seed, _METRICS, self.epoch, device=self.machine.device)
            test = None if self.validation is None else self._validation_rows(self.validation, moving)
            fixed = stream(self.seed, _METRICS, device=self.machine.device)  # so that a fixed machine has fixed metrics
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


def data_mean(mean: Any) -> float:
    """Return the mean over all values of the data from the mean row, to recognize the data of a run."""
    return float((mean[0] if isinstance(mean, tuple) else mean).double().mean())


def plain_groups(optimizer: AnyOptimizer) -> dict[int, dict[str, Any]]:
    """Return the parameter groups, by the ``id`` of each parameter, for which a step is exactly W ← W - lr·g."""
    if type(optimizer) not in (SGD, torch.optim.SGD):
        return {}
    other = ("momentum", "weight_decay", "maximize")
    groups = [group for group in optimizer.param_groups if not any(group.get(name) for name in other)]
    return {id(parameter): group for group in groups for parameter in group["params"]}
