"""Contrastive losses, differences of two free energies, for use with any torch optimizer."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import InvalidOption, unknown
from ..guard import guard
from ..machines import RBM, DeepBeliefNetwork
from ..machines.chain import ArrayLike
from ..machines.label import Label
from ..noise import Seed

__all__ = ["contrastive", "discriminative", "joint"]

_METHODS = ("cd", "reconstruction")


def contrastive(
    machine: RBM,
    data: Tensor,
    model: Tensor | None = None,
    *,
    k: int = 1,
    method: str = "cd",
    seed: Seed = None,
) -> Tensor:
    """Return the loss ⟨F(v)⟩_data - ⟨F(v')⟩_model, to minimize; Hwang, Hwang & Jo (2020), eq. (4) with corrected sign.

    A scalar for any torch program and optimizer. Its gradient with respect to the parameters is that of contrastive
    divergence. ``fit`` computes the same gradient as a difference of moments, which is faster.

    The states v' are constants. ``data`` is differentiable like the input of any torch loss: if it is the output of a
    network, such as the latent variables of an autoencoder whose prior is this machine, the network receives the
    gradient of F(v). Pass ``data.detach()`` to train the machine only. The value is no measure of the fit, because the
    states v' depend on the parameters; use a likelihood estimate.

    Args:
        machine: the machine that the loss belongs to.
        data: rows to learn from, (n, *visible).
        model: states v' of the model, (m, *visible), such as those of persistent chains; by default n states that
            ``method`` finds from the data.
        k: number of Gibbs sweeps, or of reconstructions.
        method: "cd" for Gibbs sweeps that start at the data (Hinton 2002), or "reconstruction" for the deterministic
            v' = f_v(W f_h(Wᵀv)) of Hwang, Hwang & Jo, where f_v and f_h are the means of the layers.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(4, 2)
    >>> optimizer = torch.optim.Adam(rbm.parameters())
    >>> contrastive(rbm, torch.ones(3, 4), seed=0).backward()
    >>> optimizer.step()
    >>> contrastive(rbm, torch.ones(3, 4), torch.ones(3, 4)).item()
    0.0
    """
    if model is None:
        generator = noise.generator(seed, machine.device)
        model = _moved(machine, data, k, method, generator)
    return machine.free_energy(data, check=False).mean() - machine.free_energy(model.detach(), check=False).mean()


def discriminative(machine: RBM, data: ArrayLike, *, part: int | None = None) -> Tensor:
    """Return the mean of -ln p(label | features), to minimize (Larochelle & Bengio 2008).

    The label is a part of the visible layer (:class:`harmonium.machines.Label`). ``fit`` with the negative phase
    ``Discriminative()`` computes the gradient of this loss as a difference of moments.

    Args:
        machine: an RBM with a label in its visible layer.
        data: rows of features and label, (n, *visible).
        part: number of the part that is the label; by default the last one-hot unit that is a part by itself.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Mixed(hm.units.Bernoulli(4), hm.units.Potts((1, 3))), 2)
    >>> loss = discriminative(rbm, torch.tensor([[0.0, 1, 1, 0, 1, 0, 0]]))
    >>> loss.backward()
    >>> round(loss.item(), 4)  # ln 3
    1.0986
    """
    rows, label = machine.as_states(data), Label(machine, part)
    return -label.log_probability(machine, rows).gather(1, label.index(rows).unsqueeze(1)).mean()


def joint(
    network: DeepBeliefNetwork,
    v: ArrayLike,
    *,
    k: int = 1,
    method: str = "cd",
    through: bool = False,
    seed: Seed = None,
) -> Tensor:
    """Return the sum of the losses of all machines of a stack; Hwang, Hwang & Jo (2020), sec. 4.

    Every machine has its loss :func:`contrastive` of its input and of states that ``method`` finds from there. The
    input of a machine is passed up from the machine below, as a sample or a mean (``inputs`` of the network). It is a
    constant, so the gradient is that of every machine by itself, as in :func:`fit`. ``v`` receives the gradient of the
    lowest machine, as in :func:`contrastive`. With ``through=True`` and means as
    inputs it is not constant: the gradient is also propagated through the means into the machines below. That is no
    longer a gradient of contrastive divergence: it lowers the free energy of the features in the machines above,
    without the opposite force of the model's part.

    Args:
        network: a deep belief network.
        v: a batch of visible states (n, *visible).
        k: number of Gibbs sweeps, or of reconstructions.
        method: "cd" or "reconstruction", as in :func:`contrastive`.
        through: whether to propagate gradients through the means into the machines below.
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
    generator = noise.generator(seed, network.device)
    losses = []
    data = network.as_states(v)
    for machine, rows in network.stacked(data, generator=generator):
        inputs = rows if through or rows is data else rows.detach()
        losses.append(contrastive(machine, inputs, k=k, method=method, seed=generator))
    return torch.stack(losses).sum()


@torch.no_grad()
def _moved(machine: RBM, data: Tensor, k: int, method: str, generator: Generator | None) -> Tensor:
    """Return the states that k sweeps or k reconstructions make of the data."""
    if k < 1:
        raise InvalidOption(f"k: expected at least 1, found {k}")
    if method not in _METHODS:
        raise unknown("method of the contrastive loss", method, _METHODS)
    v = machine.as_states(data)
    bound = machine.conserving(v)
    assert isinstance(bound, RBM)
    for _ in range(k):
        if method == "reconstruction":
            v = bound.reconstruct(v)
        else:
            v = bound.sample_visible(bound.sample_hidden(v, seed=generator), seed=generator)
    return v


guard(globals())
