"""A machine seen through the singular values of its weights, W = Σ_α w_α u^α v^αᵀ: eq. (5) of the spectral paper.

A few strong modes carry what was learned, the rest is a bulk of noise. At the beginning the strong left vectors are the
principal axes of the data; later the modes interact, turn, and share out the strength.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InvalidData, InvalidOption
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..machines.trajectory import Machines, by_epoch
from ..units import Unit
from ..units.support import OneHot
from .marchenko_pastur import MarchenkoPastur

_CHUNK = 4096


@dataclass(frozen=True)
class Spectrum:
    """The modes of one coupling, the strongest first, in float64: w_α, u^α on the lower and v^α on the upper layer.

    ``values`` (modes,), ``left`` (modes, *lower), ``right`` (modes, *upper); vectors have length 1, and the sign that
    makes the largest component of u^α positive.
    """

    values: Tensor
    left: Tensor
    right: Tensor

    def __len__(self) -> int:
        return len(self.values)

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of lower and upper components."""
        return self.left[0].numel(), self.right[0].numel()

    @property
    def noise(self) -> MarchenkoPastur:
        """The bulk that noise of the same median would make."""
        return MarchenkoPastur.of(self.values, *self.size)

    @property
    def outliers(self) -> int:
        """How many modes lie above what noise of the same median would reach."""
        return int((self.values > self.noise.threshold).sum())

    @property
    def effective_rank(self) -> float:
        """(Σw²)²/Σw⁴: how many modes of the same strength would have the same spread.

        >>> Spectrum(torch.tensor([3.0, 3.0, 0.0]), torch.eye(3), torch.eye(3)).effective_rank
        2.0
        """
        square = self.values.square()
        total = square.square().sum()
        return (square.sum().square() / total).item() if total > 0 else 0.0

    @property
    def participation(self) -> tuple[Tensor, Tensor]:
        """1/(N Σ u_i⁴) of the left and of the right vectors, (modes,) each: 1 is spread evenly, 1/N is one unit."""
        found = [1 / (x.shape[1] * x.pow(4).sum(1)) for x in (self.left.flatten(1), self.right.flatten(1))]
        return found[0], found[1]

    def project(self, lower: Tensor) -> Tensor:
        """States of the lower layer (n, *lower) on the modes, s_α = Σ_i u^α_i s_i: (n, modes)."""
        return lower.flatten(1).to(self.left) @ self.left.flatten(1).T

    def alignment(self, directions: Tensor) -> Tensor:
        """|u^α · e^β| with unit vectors such as principal axes (k, *lower): (modes, k)."""
        return (self.left.flatten(1) @ directions.flatten(1).to(self.left).T).abs()


@torch.no_grad()
def spectrum(machine: BoltzmannMachine, layer: int = 0, *, relative: bool = False) -> Spectrum:
    """The modes of the coupling between ``layer`` and the one above.

    One-hot units are taken in the zero-sum gauge, as a constant added to all states of a site means nothing. With
    ``relative`` every weight is multiplied by the standard deviations that its two units have without bias and
    coupling: that of {0, 1} units is ½, so that the numbers are those of the equivalent machine of ±1 spins, where the
    state without structure ends at w = 1.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> _ = rbm.coupling.weight.data.copy_(torch.tensor([[4.0, 0], [0, 2], [0, 0]]))
    >>> spectrum(rbm).values.tolist(), spectrum(rbm, relative=True).values.tolist()
    ([4.0, 2.0], [1.0, 0.5])
    """
    if not 0 <= layer < len(machine.couplings):
        raise InvalidOption(f"layer: expected 0 to {len(machine.couplings) - 1}, found {layer}")
    units, coupling = machine.layers, machine.couplings[layer]
    weight = coupling.matrix().detach().double()
    weight = _gauge(units[layer + 1], _gauge(units[layer], weight).T).T
    if relative:
        weight = _spread(units[layer])[:, None] * weight * _spread(units[layer + 1])
    if not bool(torch.isfinite(weight).all()):
        raise InvalidData("spectrum: expected finite weights")
    u, w, vt = torch.linalg.svd(weight, full_matrices=False)
    left, right = u.T, vt
    sign = left.gather(1, left.abs().argmax(1, keepdim=True)).sign()
    return Spectrum(w, (sign * left).view(-1, *coupling.lower), (sign * right).view(-1, *coupling.upper))


def _gauge(unit: Unit, weight: Tensor) -> Tensor:
    """Weights (size, others) with a mean of zero over the states of every one-hot site."""
    rows = []
    for part, block in zip(unit.parts, weight.split([part.size for part in unit.parts]), strict=True):
        if isinstance(part.support, OneHot):
            states = block.view(part.sites, -1, block.shape[1])
            block = (states - states.mean(1, keepdim=True)).reshape(block.shape)
        rows.append(block)
    return torch.cat(rows)


def _spread(unit: Unit) -> Tensor:
    """The standard deviations of a layer without bias in no field: (size,)."""
    found = []
    for part in unit.parts:
        free = part.with_natural({**part.natural(), "bias": torch.zeros_like(part.bias)})
        # the covariance of a one-hot vector is its mean (a number, here) on everything that sums to zero
        one_hot = isinstance(part.support, OneHot)
        found.append((free.mean(torch.zeros_like(part.bias)) if one_hot else free.free_variance()).flatten().double())
    return torch.cat(found).sqrt()


@dataclass(frozen=True)
class DataModes:
    """The principal axes of data: ``variances`` (k,), the largest first, along ``axes`` (k, *visible)."""

    mean: Tensor
    variances: Tensor
    axes: Tensor


@torch.no_grad()
def data_modes(data: ArrayLike, *, centered: bool = True) -> DataModes:
    """The principal axes of the rows of ``data`` (n, *visible), in float64.

    Without ``centered`` the second moments about zero replace the covariance, as they drive learning where the
    visible biases start at zero: the first axis is then close to the mean.

    >>> data_modes(torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).variances.tolist()
    [2.0, 0.5]
    """
    rows = torch.as_tensor(data)
    if rows.ndim < 2 or len(rows) < 2:
        raise InvalidData(f"data: expected at least two rows (n, *visible), found shape {tuple(rows.shape)}")
    shape, flat = rows.shape[1:], rows.flatten(1)
    mean = sum(part.double().sum(0) for part in flat.split(_CHUNK)) / len(flat)
    about = mean if centered else torch.zeros_like(mean)
    moments = torch.zeros(len(mean), len(mean), dtype=torch.float64, device=flat.device)
    for part in flat.split(_CHUNK):
        moved = part.double() - about
        moments.addmm_(moved.T, moved)
    values, vectors = torch.linalg.eigh(moments / len(flat))
    return DataModes(mean.view(shape), values.flip(0).clamp(min=0), vectors.flip(1).T.reshape(-1, *shape))


@dataclass(frozen=True)
class SpectralHistory:
    """The spectra along the checkpoints of a run."""

    epochs: list[float]
    spectra: list[Spectrum]

    @property
    def values(self) -> Tensor:
        """The singular values: (checkpoints, modes)."""
        return torch.stack([found.values for found in self.spectra])

    @property
    def outliers(self) -> list[int]:
        """How many modes lie above what the noise of the first checkpoint would reach, at every checkpoint."""
        threshold = self.spectra[0].noise.threshold
        return [int((found.values > threshold).sum()) for found in self.spectra]

    def alignment(self, directions: Tensor, modes: int = 10) -> Tensor:
        """Σ_αβ (u^α·e^β)²/modes of the leading modes and directions at every checkpoint: 1 where they span the same."""
        if not 1 <= modes <= min(len(self.spectra[0]), len(directions)):
            most = min(len(self.spectra[0]), len(directions))
            raise InvalidOption(f"modes: expected 1 to {most}, found {modes}")
        overlap = [found.alignment(directions[:modes])[:modes].square().sum() / modes for found in self.spectra]
        return torch.stack(overlap)

    def turned(self, modes: int = 10) -> Tensor:
        """1 - the overlap of the space of the leading left vectors with that of the checkpoint before: (steps,)."""
        pairs = zip(self.spectra[:-1], self.spectra[1:], strict=True)
        moved = [1 - after.alignment(before.left[:modes])[:modes].square().sum() / modes for before, after in pairs]
        return torch.stack(moved) if moved else torch.zeros(0, dtype=torch.float64)


def spectral_history(machines: Machines, layer: int = 0, *, relative: bool = False) -> SpectralHistory:
    """The spectra of ``machines``, the checkpoints of a run by epoch or in order.

    >>> import harmonium as hm
    >>> early, late = (hm.RBM(hm.units.Spin(8), hm.units.Spin(6)) for _ in range(2))
    >>> early.initialize(scale=0.01, seed=0); late.initialize(scale=0.02, seed=0)
    >>> history = spectral_history({0: early, 10: late})
    >>> bool((history.values[1] > history.values[0]).all())
    True
    """
    epochs, chain = by_epoch(machines)
    return SpectralHistory(epochs, [spectrum(machine, layer, relative=relative) for machine in chain])
