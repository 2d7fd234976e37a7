"""The restricted Boltzmann machine: two layers, of which the hidden one is summed out exactly."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .. import noise
from ..couplings import Coupling
from ..errors import unknown
from ..noise import Seed
from ..units import Unit
from . import enumeration
from .chain import ArrayLike, BoltzmannMachine
from .kernel import log_weight

#: gradients of draws
_GRADIENTS = ("straight-through", "relaxed")


class RBM(BoltzmannMachine):
    """Restricted Boltzmann machine: p(v, h) ∝ e^{-U(v) - U(h) + v·W·h}.

    >>> from harmonium.units import Bernoulli
    >>> rbm = RBM(Bernoulli(6), Bernoulli(3))
    >>> rbm.free_energy(torch.zeros(2, 6)).shape
    torch.Size([2])
    >>> RBM(6, 3).hidden  # a number means Bernoulli units
    Bernoulli((3,))
    """

    def __init__(
        self,
        visible: Unit | int | tuple[int, ...],
        hidden: Unit | int | tuple[int, ...],
        coupling: Coupling | None = None,
    ) -> None:
        super().__init__([visible, hidden], None if coupling is None else [coupling])

    def _named_parts(self) -> dict[str, nn.Module]:
        return {"visible": self.visible, "hidden": self.hidden, "coupling": self.coupling}

    def _with_visible(self, visible: Unit) -> tuple[Any, ...]:
        return visible, self.hidden, self.coupling

    @property
    def hidden(self) -> Unit:
        """The upper layer."""
        return self.layers[1]

    @property
    def coupling(self) -> Coupling:
        """The coupling of the two layers."""
        return self.couplings[0]

    @property
    def weight(self) -> Tensor:
        """The weights of the coupling, a parameter."""
        return self.coupling.weight

    def free_energy(self, v: ArrayLike, *, check: bool = True) -> Tensor:
        """F(v) = U(v) - Σ_j ln Z_j((Wᵀv)_j), so that p(v) = e^{-F(v)}/Z: (batch, *visible) -> (batch,).

        Values outside the support of the visible units have no probability and are an error. With ``check=False`` the
        formula is evaluated for any numbers.
        """
        states = self.as_states(v)
        if check:
            self.visible.check(states.detach(), "v")
        return -log_weight(self, [states, None])

    def hidden_free_energy(self, h: ArrayLike) -> Tensor:
        """F(h), with the visible layer summed out: (batch, *hidden) -> (batch,)."""
        return -log_weight(self, [None, self.as_states(h, 1)], summed=0)

    def hidden_mean(self, v: ArrayLike) -> Tensor:
        """⟨h⟩ given v: (batch, *hidden)."""
        return self.layer(1).mean(self.field(1, [self.as_states(v), None]))

    def forward(self, v: ArrayLike) -> Tensor:
        """``rbm(v)``: the features, ⟨h⟩ given v."""
        return self.hidden_mean(v)

    def visible_mean(self, h: ArrayLike) -> Tensor:
        """⟨v⟩ given h: (batch, *visible)."""
        return self.layer(0).mean(self.field(0, [None, self.as_states(h, 1)]))

    def sample_hidden(self, v: ArrayLike, *, seed: Seed = None, gradient: str | None = None) -> Tensor:
        """A draw of h given v: (batch, *hidden).

        Args:
            v: visible states (batch, *visible).
            seed: a number or a ``torch.Generator``; by default torch's generator.
            gradient: by default a draw is a constant. "straight-through": it has the gradient of the mean of its unit.
                "relaxed": a value near the states takes its place, with an exact gradient (:meth:`Unit.relax`).
        """
        return self._draw(1, self.field(1, [self.as_states(v), None]), seed, gradient)

    def sample_visible(self, h: ArrayLike, *, seed: Seed = None, gradient: str | None = None) -> Tensor:
        """A draw of v given h: (batch, *visible); ``gradient`` as in :meth:`sample_hidden`."""
        return self._draw(0, self.field(0, [None, self.as_states(h, 1)]), seed, gradient)

    def _draw(self, layer: int, field: Tensor, seed: Seed, gradient: str | None) -> Tensor:
        if gradient not in (None, *_GRADIENTS):
            raise unknown("gradient", str(gradient), _GRADIENTS)
        unit, generator = self.layer(layer), noise.generator(seed, self.device)
        if gradient == "relaxed":
            return unit.relax(field, generator=generator)
        with torch.no_grad():
            drawn = unit.sample(field, generator=generator)
        if gradient is None:
            return drawn
        mean = unit.mean(field)
        return drawn + (mean - mean.detach())

    def reconstruct(self, v: ArrayLike) -> Tensor:
        """⟨v⟩ given the conditional mean ⟨h⟩ given v: (batch, *visible)."""
        v = self.as_states(v)
        return self.layer(0).conserving(v).mean(self.coupling.down(self.hidden_mean(v)))

    def log_probability(self, v: ArrayLike, log_partition: float | None = None, *, check: bool = True) -> Tensor:
        """ln p(v) = -F(v) - ln Z, with ln Z by enumeration unless given: (batch,); ``check`` as in ``free_energy``.

        If the visible layer has conserved quantities, such as the length of a document, each row has a ln Z of its own.
        """
        v = self.as_states(v)
        if log_partition is not None:
            return -self.free_energy(v, check=check) - log_partition
        self.check_normalizable()
        return -self.free_energy(v, check=check) - enumeration.row_log_partitions(self, v).to(v.dtype)

    def distribution(self) -> tuple[Tensor, Tensor]:
        """Every visible state (states, *visible) and its exact log-probability (states,), for small machines."""
        self.check_weights()
        return enumeration.distribution(self)
