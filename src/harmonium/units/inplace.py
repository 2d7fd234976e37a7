"""In-place forms of a unit's functions, for the hot loops: a unit overrides them for speed alone."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Generator, Tensor


class InPlace:
    """Functions that write into given buffers, each here in terms of the plain one. Mixed into :class:`Unit`."""

    #: whether :meth:`sample_` uses only ``mean`` when it is given, so that ``mean`` may take the place of the field
    samples_from_mean: ClassVar[bool] = False

    def mean_(self: Any, B: Tensor, out: Tensor) -> Tensor:
        """Write the mean in the field B into ``out``."""
        return out.copy_(self.mean(B))

    def mean_and_variance_(self: Any, B: Tensor, A: Tensor | None, mean: Tensor, variance: Tensor) -> None:
        """Write f_a(B, A) into ``mean`` and f_c(B, A) into ``variance``, which share most of their work."""
        mean.copy_(self.mean(B, A))
        variance.copy_(self.variance(B, A))

    def sample_(
        self: Any, B: Tensor, out: Tensor, generator: Generator | None = None, mean: Tensor | None = None
    ) -> Tensor:
        """Write a draw in the field B into ``out``; ``mean`` where it is known already, else B may be overwritten."""
        return out.copy_(self.sample(B, generator=generator))

    def log_partition_gain(self: Any, B: Tensor, before: Any, B_before: Tensor, mean: Tensor | None = None) -> Tensor:
        """Σ ln Z(B) - ln Z_before(B_before) over the units, the step of an annealing: (batch,).

        ``before`` is a layer of the same kind; ``mean`` is that at B where it is known already.
        """
        return per_row(self.log_partition(B) - before.log_partition(B_before))


def per_row(x: Tensor) -> Tensor:
    """The sum over all but the first dimension."""
    return x.flatten(1).sum(1) if x.ndim > 1 else x  # a layer of one vector unit has one value a row
