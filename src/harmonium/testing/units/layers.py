"""Checks of a layer of units: parts, in-place forms, errors, files and training."""

from __future__ import annotations

import copy
import json
import math
import tempfile
from pathlib import Path

import torch
from torch import Generator, Tensor

from ...couplings import Dense
from ...errors import InvalidData, InvalidOption
from ...files import load, save
from ...machines import RBM
from ...training import Exact
from ...training.negative import Batch
from ...training.rates import default_groups
from ...units import Bernoulli, Unit
from ..nodes import F64
from .mathematics import check_inside
from .trial import Trial


@torch.no_grad()
def _parts(t: Trial) -> None:
    unit = t.unit
    t.subject.expect(torch.equal(unit.join(unit.split(t.B)), t.B), "join(split(x))", "x", "a different tensor")
    t.subject.equal("sites", unit.sites, sum(part.sites for part in unit.parts))
    t.subject.equal("tail (size)", tuple(unit.tail().precision.shape), (unit.size,))
    if unit.cardinality is not None and unit.cardinality <= 4096:
        states = unit.enumerate()
        t.subject.equal("number of enumerated states", len(states), unit.cardinality)
        t.subject.equal("number of different states", len(states.unique(dim=0)), unit.cardinality)
        check_inside(t, "enumerate", states)


@torch.no_grad()
def _in_place(t: Trial) -> None:
    unit, B = t.unit, t.B
    size = 1e-9 * (t.spread + unit.mean(B).abs())
    for what, A in t.quadratics:
        mean, variance = torch.full_like(B, 77.0), torch.full_like(B, 77.0)
        unit.mean_and_variance_(B.clone(), A, mean, variance)
        t.subject.close(f"mean_and_variance_: mean{what}", mean, unit.mean(B, A), size)
        t.subject.close(f"mean_and_variance_: variance{what}", variance, unit.variance(B, A), size * t.spread)
    out = torch.full_like(B, 77.0)
    t.subject.expect(unit.mean_(B.clone(), out) is out, "mean_ returns its buffer", True, False)
    t.subject.close("mean_", out, unit.mean(B), size)
    drawn = unit.sample(B, generator=Generator().manual_seed(3))
    for given in (None, unit.mean(B)):
        field = B.clone() if given is None or not unit.samples_from_mean else torch.full_like(B, torch.nan)
        what = "sample_" + ("" if given is None else " with the mean given")
        found = unit.sample_(field, torch.full_like(B, 77.0), Generator().manual_seed(3), mean=given)
        t.subject.close(f"{what} equals sample", found, drawn, 1e-9 * (1 + drawn.abs()))
    other = copy.deepcopy(unit)
    other.shift_bias(0.1 / t.spread)
    change = (unit.log_partition(B) - other.log_partition(0.5 * B)).reshape(len(B), -1).sum(1)
    for given in (None, unit.mean(B)):
        found = unit.log_partition_gain(B.clone(), other, 0.5 * B, given)
        t.subject.close("log_partition_gain is the change of log_partition", found, change, 1e-6 * (1 + change.abs()))


def _outside(t: Trial) -> None:
    unit = t.unit
    good = unit.mode(torch.zeros(1, *unit.shape, dtype=F64)).detach()
    candidates = [torch.nan, torch.inf, -torch.inf, -1e6, 0.37]
    for value in candidates:
        bad = good.clone()
        bad[(0,) * bad.ndim] = value
        part, piece = unit.parts[0], unit.split(bad)[0]
        if math.isfinite(value) and bool(part.support.contains(piece).all()):
            continue
        try:
            unit.check(bad)
        except InvalidData:
            continue
        t.subject.expect(False, f"check of data with the value {value}", "InvalidData", "no error")
    try:
        unit.check(good[0, ..., :-1].unsqueeze(0) if unit.shape[-1] > 1 else good[0])
    except InvalidData:
        return
    t.subject.expect(False, "check of data of the wrong shape", "InvalidData", "no error")


@torch.no_grad()
def _files(t: Trial) -> None:
    unit = t.unit
    again = Unit.from_config(json.loads(json.dumps(unit.config()))).double()
    t.subject.equal("type after from_config(config())", type(again).__name__, type(unit).__name__)
    t.subject.equal("config after from_config(config())", again.config(), unit.config())
    t.subject.equal("shape after from_config(config())", tuple(again.shape), tuple(unit.shape))
    t.subject.equal("names in state_dict after from_config", list(again.state_dict()), list(unit.state_dict()))
    again.load_state_dict(unit.state_dict())
    same = torch.equal(again.log_partition(t.B), unit.log_partition(t.B))
    t.subject.expect(same, "log_partition after from_config and load_state_dict", "bitwise equal", "different")
    rbm = RBM(copy.deepcopy(unit), Bernoulli(2).double())
    with tempfile.TemporaryDirectory() as folder:
        save(rbm, Path(folder) / "machine.safetensors")
        loaded = load(Path(folder) / "machine.safetensors")
    same = torch.equal(loaded.visible.log_partition(t.B), unit.log_partition(t.B))
    t.subject.expect(same, "log_partition after save and load", "bitwise equal", "different")


def _training(t: Trial) -> None:
    """Check that an RBM with this unit, visible or hidden, learns data of another RBM with exact gradients."""
    for place in ("visible", "hidden"):
        layers = [copy.deepcopy(t.unit), Bernoulli(3).double()]
        scales = [t.spread, torch.full((3,), 0.5, dtype=F64)]
        if place == "hidden":
            layers, scales = layers[::-1], scales[::-1]
        flat = [scale.flatten() for scale in scales]
        signs = torch.randn(len(flat[0]), len(flat[1]), generator=Generator().manual_seed(4), dtype=F64).sign()
        weight = 1.5 * signs / (flat[0][:, None] * flat[1] * max(len(x) for x in flat) ** 0.5)
        teacher = RBM(layers[0], layers[1], Dense(tuple(layers[0].shape), tuple(layers[1].shape), weight))
        teacher.check_normalizable()
        data = _exact_draws(teacher, 500)
        student = copy.deepcopy(teacher)
        student.initialize(data, seed=0)
        before = student.log_probability(data).mean().item()
        phase, optimizer = Exact(), torch.optim.SGD(default_groups(student, data))
        with torch.no_grad():
            state = phase.init(student, data, None)
            for _ in range(30):
                phase.step(student, Batch(data), state, None)[0].write()
                optimizer.step()
        after = student.log_probability(data).mean().item()
        t.subject.expect(after > before, f"log-likelihood after training as {place} layer", f"above {before:.6g}",
                         f"{after:.6g}")  # fmt: skip


@torch.no_grad()
def _exact_draws(rbm: RBM, n: int) -> Tensor:
    """Draw visible states of an RBM with one finite layer: that layer exactly, then the other given it."""
    generator = Generator().manual_seed(5)
    if rbm.hidden.cardinality is None:
        states, log_p = rbm.distribution()
        return states[torch.multinomial(log_p.exp(), n, replacement=True, generator=generator)]
    states = rbm.hidden.enumerate()
    p = torch.softmax(-rbm.hidden_free_energy(states), 0)
    hidden = states[torch.multinomial(p, n, replacement=True, generator=generator)]
    return rbm.sample_visible(hidden, seed=generator)


def _name(t: Trial) -> None:
    kind = Unit.registry.get(t.unit.name())
    t.subject.expect(kind is type(t.unit), "class registered under name()", type(t.unit), kind)
    try:
        Unit.from_config({"unit": f"no-{t.unit.name()}", "shape": [1]})
    except InvalidOption:
        return
    t.subject.expect(False, "from_config of an unknown name", "InvalidOption", "no error")


LAYER = (_name, _parts, _in_place, _outside, _files, _training)
