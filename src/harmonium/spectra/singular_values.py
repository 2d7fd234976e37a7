"""Singular values and vectors of the weights, W = Σ_α w_α u^α v^αᵀ: Decelle, Fissore & Furtlehner (2017), eq. (5).

The information learned from the data is in a few modes with large singular values; the others are noise. Early in
training, the leading left vectors are the principal axes of the data; later the modes interact and rotate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..arrays import as_tensor, check_finite
from ..errors import InvalidData, InvalidOption
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..machines.trajectory import Machines, by_epoch
from ..shown import Shown, brief, short
from ..units import Unit
from ..units.support import OneHot
from .marchenko_pastur import MarchenkoPastur

_CHUNK = 4096


@brief
@dataclass(frozen=True)
class Spectrum:
    """Singular value decomposition of one coupling, in float64 and in decreasing order.

    ``values`` (modes,) are the singular values w_α, ``left`` (modes, *lower) the vectors u^α on the lower layer and
    ``right`` (modes, *upper) the vectors v^α on the upper layer. Vectors have norm 1; the largest component of u^α in
    magnitude is positive.
    """

    values: Tensor
    left: Tensor
    right: Tensor

    def __len__(self) -> int:
        return len(self.values)

    @property
    def size(self) -> tuple[int, int]:
        """Number of components of the lower and of the upper layer."""
        return self.left[0].numel(), self.right[0].numel()

    @property
    def noise(self) -> MarchenkoPastur:
        """Marchenko–Pastur distribution with the same median singular value."""
        return MarchenkoPastur.of(self.values, *self.size)

    @property
    def outliers(self) -> int:
        """Number of modes above the ``threshold`` of the noise."""
        return int((self.values > self.noise.threshold).sum())

    @property
    def effective_rank(self) -> float:
        """Participation ratio (Σw²)²/Σw⁴ of the singular values, the effective number of modes.

        >>> Spectrum(torch.tensor([3.0, 3.0, 0.0]), torch.eye(3), torch.eye(3)).effective_rank
        2.0
        """
        square = self.values.square()
        total = square.square().sum()
        return (square.sum().square() / total).item() if total > 0 else 0.0

    @property
    def participation(self) -> tuple[Tensor, Tensor]:
        """Participation ratios 1/(N Σ u_i⁴) of the left and right vectors, (modes,) each.

        1 means that all N components are equal in magnitude, 1/N that only one component is nonzero.
        """
        found = [1 / (x.shape[1] * x.pow(4).sum(1)) for x in (self.left.flatten(1), self.right.flatten(1))]
        return found[0], found[1]

    def project(self, lower: Tensor) -> Tensor:
        """Project states of the lower layer (n, *lower) on the left vectors, s_α = Σ_i u^α_i s_i: (n, modes)."""
        return lower.flatten(1).to(self.left) @ self.left.flatten(1).T

    def alignment(self, directions: Tensor) -> Tensor:
        """Overlaps |u^α · e^β| with unit vectors e^β (k, *lower), such as principal axes: (modes, k)."""
        return (self.left.flatten(1) @ directions.flatten(1).to(self.left).T).abs()


@torch.no_grad()
def spectrum(machine: BoltzmannMachine, layer: int = 0, *, relative: bool = False) -> Spectrum:
    """Compute the singular value decomposition of the coupling between ``layer`` and the layer above.

    Weights of one-hot units are taken in the zero-sum gauge, because a constant added to all states of a site has no
    effect.

    Args:
        machine: any machine.
        layer: index of the lower layer of the coupling.
        relative: multiply every weight by the standard deviations of its two units without bias and coupling. These
            are ½ for {0, 1} units, which gives the weights of the equivalent machine of ±1 units. There the
            paramagnetic state becomes unstable at w = 1.

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
    """Shift weights (size, others) to mean zero over the states of every one-hot site."""
    rows = []
    for part, block in zip(unit.parts, weight.split([part.size for part in unit.parts]), strict=True):
        if isinstance(part.support, OneHot):
            states = block.view(part.sites, -1, block.shape[1])
            block = (states - states.mean(1, keepdim=True)).reshape(block.shape)
        rows.append(block)
    return torch.cat(rows)


def _spread(unit: Unit) -> Tensor:
    """Standard deviations of the units of a layer at zero bias and field: (size,)."""
    found = []
    for part in unit.parts:
        free = part.with_natural({**part.natural(), "bias": torch.zeros_like(part.bias)})
        # on vectors that sum to zero, the covariance of a one-hot vector is its mean (equal for all states) times 1
        one_hot = isinstance(part.support, OneHot)
        found.append(
            (free.mean(torch.zeros_like(part.full(part.bias))) if one_hot else free.free_variance()).flatten().double()
        )
    return torch.cat(found).sqrt()


@brief
@dataclass(frozen=True)
class DataModes:
    """Principal axes of data: ``variances`` (k,) in decreasing order along ``axes`` (k, *visible)."""

    mean: Tensor
    variances: Tensor
    axes: Tensor


@torch.no_grad()
def data_modes(data: ArrayLike, *, centered: bool = True) -> DataModes:
    """Compute the principal axes of the rows of ``data`` (n, *visible), in float64.

    With ``centered=False`` the second moments about zero replace the covariance, and the first axis is close to the
    mean. These moments drive learning if the visible biases start at zero.

    >>> data_modes(torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).variances.tolist()
    [2.0, 0.5]
    """
    rows = as_tensor(data)
    check_finite(rows)
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


@dataclass(frozen=True, repr=False)
class SpectralHistory(Shown):
    """Spectra of the checkpoints of a run."""

    epochs: list[float]
    spectra: list[Spectrum]

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The checkpoints, the modes above the noise and the largest singular values, at both ends."""
        above, largest = self.outliers, [short(self.spectra[k].values[0].item()) for k in (0, -1)]
        return "SpectralHistory", {
            "epochs": f"{self.epochs[0]:g} to {self.epochs[-1]:g}",
            "modes": len(self.spectra[-1]),
            "above the noise": f"{above[0]} to {above[-1]}",
            "largest": " to ".join(largest),
        }

    @property
    def values(self) -> Tensor:
        """Singular values, (checkpoints, modes)."""
        return torch.stack([found.values for found in self.spectra])

    @property
    def outliers(self) -> list[int]:
        """Number of modes above the noise threshold of the first checkpoint, at every checkpoint."""
        threshold = self.spectra[0].noise.threshold
        return [int((found.values > threshold).sum()) for found in self.spectra]

    def alignment(self, directions: Tensor, modes: int = 10) -> Tensor:
        """Overlap Σ_αβ (u^α·e^β)²/modes of the leading modes with the leading ``directions``: (checkpoints,).

        It is 1 if they span the same subspace.
        """
        if not 1 <= modes <= min(len(self.spectra[0]), len(directions)):
            most = min(len(self.spectra[0]), len(directions))
            raise InvalidOption(f"modes: expected 1 to {most}, found {modes}")
        overlap = [found.alignment(directions[:modes])[:modes].square().sum() / modes for found in self.spectra]
        return torch.stack(overlap)

    def turned(self, modes: int = 10) -> Tensor:
        """One minus the overlap of the leading left vectors with the previous checkpoint's: (checkpoints - 1,)."""
        pairs = zip(self.spectra[:-1], self.spectra[1:], strict=True)
        moved = [1 - after.alignment(before.left[:modes])[:modes].square().sum() / modes for before, after in pairs]
        return torch.stack(moved) if moved else torch.zeros(0, dtype=torch.float64)


def spectral_history(machines: Machines, layer: int = 0, *, relative: bool = False) -> SpectralHistory:
    """Compute the spectra of the checkpoints of a run, given as a dictionary by epoch or as a sequence.

    >>> import harmonium as hm
    >>> early, late = (hm.RBM(hm.units.Spin(8), hm.units.Spin(6)) for _ in range(2))
    >>> early.initialize(scale=0.01, seed=0); late.initialize(scale=0.02, seed=0)
    >>> history = spectral_history({0: early, 10: late})
    >>> bool((history.values[1] > history.values[0]).all())
    True
    """
    epochs, chain = by_epoch(machines)
    return SpectralHistory(epochs, [spectrum(machine, layer, relative=relative) for machine in chain])
