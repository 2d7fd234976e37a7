"""How many binary hidden units does a Gaussian need? The best machine for one axis, and default training against it.

In units of the noise given the hidden units, a machine with n binary units along one axis has the density
p(v) ∝ exp(-v²/2 + b v) Π_j (1 + exp(c_j + w_j v)). Its divergence from a normal distribution of variance r is computed
by quadrature and minimized over all parameters. A full covariance with eigenvalues λ_k and noise σ² has an axis with
r = λ_k/σ² for each k.

On patches of natural images, a machine of few hidden units is trained by default settings, and then by maximum
likelihood with the exact gradient of all rows, which starts at the trained machine. What default training loses, and
what the machine cannot describe, are then measured separately.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

import harmonium as hm
from harmonium.machines.scaling import Scaling

from ..options import override
from ..record import Record
from .rows import Rows, covariance, load, units_of_axis

#: variances of an axis, in units of the noise
RATIOS = (4.0, 16.0, 64.0)
SPREADS = (1.5, 2.0, 2.5)  # half the range of the initial thresholds, in standard deviations
GAP = 0.1  # nats of an axis that a machine with ``units_of_axis`` units may lose
MARGIN = 5.0  # nats between two likelihoods of patches that count as different
_GRID = 2001
_RANGE = 7.0  # half the width of the grid, in standard deviations


@dataclass(frozen=True)
class Settings:
    """The machine on patches, and the number of iterations of maximum likelihood."""

    hidden: int
    iterations: int


SETTINGS = {"quick": Settings(8, 200), "full": Settings(10, 400)}


def run(record: Record, scale: str, *, data: str = "patches", hidden: int = 0, iterations: int = 0) -> None:
    """Measure the divergences of one axis; then train on ``data``, by default and by maximum likelihood."""
    settings = override(SETTINGS[scale], hidden=hidden, iterations=iterations)
    _axes(record)
    _training(record, data, settings)


def _axes(record: Record) -> None:
    table = []
    for ratio in RATIOS:
        enough = math.ceil(units_of_axis(ratio))
        for units in sorted({0, math.ceil(math.log2(ratio) / 2), enough // 2, enough, 2 * enough}):
            table.append({"variance": ratio, "units": units, "divergence": divergence(ratio, units)})
        record.say(f"variance {ratio:g}: " + ", ".join(
            f"{row['units']} units {row['divergence']:.4f}" for row in table if row["variance"] == ratio))  # fmt: skip
    record.table("axes", table)
    last = [row for row in table if row["variance"] == RATIOS[-1]]
    found = {row["units"]: row["divergence"] for row in last}
    few, enough = math.ceil(math.log2(RATIOS[-1]) / 2), math.ceil(units_of_axis(RATIOS[-1]))
    record.claim(
        f"an axis of variance {RATIOS[-1]:g} needs more units than a binary number of its deviation has digits",
        f"{found[few]:.2f} nats are lost with {few} units",
        found[few] > 10 * GAP,
    )
    record.claim(
        f"1.6 (√r - 1) units are enough: less than {GAP:g} nats are lost",
        ", ".join(f"{divergence(ratio, math.ceil(units_of_axis(ratio))):.3f}" for ratio in RATIOS),
        all(divergence(ratio, math.ceil(units_of_axis(ratio))) < GAP for ratio in RATIOS),
    )


def divergence(ratio: float, units: int, iterations: int = 300) -> float:
    """The smallest divergence of a machine with unit noise from a normal distribution of variance ``ratio``, in nats.

    >>> round(divergence(4.0, 0), 4)  # a normal distribution of variance 1
    0.8069
    """
    deviation = math.sqrt(ratio)
    v = torch.linspace(-_RANGE * deviation, _RANGE * deviation, _GRID, dtype=torch.float64)
    step = (v[1] - v[0]).item()
    normal = torch.exp(-v.square() / (2 * ratio)) / math.sqrt(2 * math.pi * ratio)
    entropy = 0.5 * math.log(2 * math.pi * math.e * ratio)

    def loss(parameters: list[Tensor]) -> Tensor:
        w, c, b = parameters
        log_density = -v.square() / 2 + b * v + softplus(c + w * v[:, None]).sum(1)
        return torch.logsumexp(log_density, 0) + math.log(step) - (normal * log_density).sum() * step - entropy

    if units == 0:
        nothing = torch.zeros(0, dtype=torch.float64)
        return loss([nothing, nothing, torch.zeros((), dtype=torch.float64)]).item()
    found = []
    for spread in SPREADS:
        threshold = torch.linspace(-1, 1, units, dtype=torch.float64) * spread * deviation if units > 1 else v[:1] * 0
        distance = 2 * spread * deviation / max(units - 1, 1)
        w = torch.full((units,), distance, dtype=torch.float64)  # softplus functions whose sum has the curvature 1
        found.append(_minimized(loss, [w, -w * threshold, -w.sum() / 2], iterations)[1])
    return min(value for value in found if math.isfinite(value))


def _training(record: Record, data: str, settings: Settings) -> None:
    rows = load(data)
    gaussian = covariance(rows)
    machine = hm.RBM(hm.units.Gaussian(rows.training.shape[1]), settings.hidden)
    hm.fit(machine, rows.training, seed=0, progress=False)
    trained = machine.double().log_probability(rows.test).mean().item()
    best = maximum_likelihood(machine, rows, settings.iterations)
    record.numbers |= {"default": trained, "maximum likelihood": best, "full covariance": gaussian.full}
    words = f"{trained:.1f}, {best:.1f} and {gaussian.full:.1f} nats per row with {settings.hidden} hidden units"
    record.claim(f"{data}: default training ends below the maximum of the likelihood", words, best - trained > MARGIN)
    record.claim(
        f"{data}: the maximum of the likelihood is below the full covariance", words, gaussian.full - best > MARGIN
    )


def maximum_likelihood(machine: hm.RBM, rows: Rows, iterations: int) -> float:
    """Train ``machine``, in float64, by the exact likelihood of the training rows; returns that of the test rows.

    Parameters are those of standardized rows. The hidden states are enumerated.
    """
    training = rows.training.double()
    scaling = Scaling.of(machine.visible, training)
    assert scaling is not None
    z, test = scaling.states(training), scaling.states(rows.test.double())
    layer = scaling.layer(machine.visible)
    with torch.no_grad():
        weight = machine.weight * scaling.scale[:, None]
        hidden_bias = machine.hidden.bias + scaling.location @ machine.weight
        start = [weight, layer.bias.detach(), hidden_bias, layer.natural()["precision"].log()]
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * machine.hidden.size)

    def log_likelihood(parameters: list[Tensor], x: Tensor) -> Tensor:
        W, b, c, log_precision = parameters
        precision = log_precision.exp()
        field = b + states @ W.T
        normal = (math.log(2 * math.pi) * len(b) - log_precision.sum()) / 2
        log_partition = torch.logsumexp(states @ c + (field.square() / precision).sum(1) / 2, 0) + normal
        return (x @ b - x.square() @ precision / 2 + softplus(c + x @ W).sum(1)).mean() - log_partition

    found, _ = _minimized(lambda parameters: -log_likelihood(parameters, z), start, iterations)
    with torch.no_grad():
        return log_likelihood(found, test).item() - scaling.scale.log().sum().item()


def _minimized(
    loss: Callable[[list[Tensor]], Tensor], start: list[Tensor], iterations: int
) -> tuple[list[Tensor], float]:
    """Minimize a function of tensors by L-BFGS; the tensors at the minimum, and its value."""
    parameters = [x.detach().clone().requires_grad_() for x in start]
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=iterations, line_search_fn="strong_wolfe", tolerance_grad=1e-9, tolerance_change=1e-12
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(parameters)
        value.backward()
        return value

    optimizer.step(closure)
    return [x.detach() for x in parameters], loss(parameters).item()
