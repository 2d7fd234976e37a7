"""Contrastive losses, differences of two free energies, for use with any torch optimizer."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import InvalidOption
from ..machines import RBM, DeepBeliefNetwork
from ..machines.chain import ArrayLike


def contrastive(machine: RBM, data: Tensor, model: Tensor) -> Tensor:
    """Return the loss ⟨F(v)⟩_data - ⟨F(v')⟩_model; Hwang, Hwang & Jo (2020), eq. (4) with corrected sign.

    ``data`` (n, *visible) and ``model`` (m, *visible) are constants; the gradient with respect to the parameters is
    that of contrastive divergence. ``fit`` computes the same gradient as a difference of moments, without autograd.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    >>> contrastive(rbm, torch.ones(3, 4), torch.ones(3, 4)).item()
    0.0
    """
    return _difference(machine, data.detach(), model.detach())


def joint(
    network: DeepBeliefNetwork,
    v: ArrayLike,
    *,
    k: int = 1,
    through: bool = False,
    generator: Generator | None = None,
    seed: int | None = None,
) -> Tensor:
    """Return the sum of the losses of all machines of a stack; Hwang, Hwang & Jo (2020), sec. 4.

    Every machine has its loss :func:`contrastive` of its input and of ``k`` Gibbs sweeps from there. The input of a
    machine is passed up from the machine below, as a sample or a mean (``inputs`` of the network). It is a constant, so
    the gradient is that of every machine by itself, as in :func:`fit`. With ``through=True`` and means as inputs it is
    not constant: the gradient is also propagated through the means into the machines below. That is no longer a
    gradient of contrastive divergence: it lowers the free energy of the features in the machines above, without the
    opposite force of the model's part.

    Args:
        network: a deep belief network.
        v: a batch of visible states (n, *visible).
        k: number of Gibbs sweeps.
        through: whether to propagate gradients through the means into the machines below.
        generator: random generator, used instead of ``seed``.
        seed: seed of the random generator.

    >>> import torch, harmonium as hm
    >>> network = hm.DeepBeliefNetwork.of([6, 4, 2])
    >>> network.initialize(seed=0)
    >>> optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     joint(network, torch.ones(10, 6), seed=0).backward()
    ...     optimizer.step()
    """
    if through and network.inputs != "means":
        raise InvalidOption(f'through: expected a network with inputs="means", found inputs="{network.inputs}"')
    if k < 1:
        raise InvalidOption(f"k: expected at least 1 Gibbs sweep, found {k}")
    generator = noise.generator(seed, network.device) if generator is None else generator
    losses = []
    for machine, rows in network.stacked(network.as_states(v), generator=generator):
        model = _swept(machine, rows.detach(), k, generator)
        losses.append(_difference(machine, rows if through else rows.detach(), model))
    return torch.stack(losses).sum()


@torch.no_grad()
def _swept(machine: RBM, v: Tensor, k: int, generator: Generator | None) -> Tensor:
    """Return visible states after ``k`` Gibbs sweeps from ``v``, which may be means."""
    visible = machine.visible.conserving(v)
    for _ in range(k):
        v = visible.sample(machine.coupling.down(machine.sample_hidden(v, generator=generator)), generator=generator)
    return v


def _difference(machine: RBM, data: Tensor, model: Tensor) -> Tensor:
    return machine.free_energy(data).mean() - machine.free_energy(model).mean()
