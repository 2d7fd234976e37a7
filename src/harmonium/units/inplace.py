"""In-place versions of the methods of a unit, for inner loops. Overriding them changes only the speed."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Generator, Tensor


class InPlace:
    """Mixin of :class:`Unit`: methods that write into given buffers, by default via the out-of-place methods."""

    #: whether :meth:`sample_` ignores the field if ``mean`` is given, so that both may share one buffer
    samples_from_mean: ClassVar[bool] = False

    def mean_(self: Any, B: Tensor, out: Tensor) -> Tensor:
        """Write the mean in the field B into ``out``."""
        return out.copy_(self.mean(B))

    def mean_and_variance_(self: Any, B: Tensor, A: Tensor | None, mean: Tensor, variance: Tensor) -> None:
        """Write f_a(B, A) into ``mean`` and f_c(B, A) into ``variance``; overrides share work between the two."""
        mean.copy_(self.mean(B, A))
        variance.copy_(self.variance(B, A))

    def sample_(
        self: Any, B: Tensor, out: Tensor, generator: Generator | None = None, mean: Tensor | None = None
    ) -> Tensor:
        """Write a draw in the field B into ``out``. Pass ``mean`` if it is known; otherwise B may be overwritten."""
        return out.copy_(self.sample(B, generator=generator))

    def log_partition_gain(self: Any, B: Tensor, before: Any, B_before: Tensor, mean: Tensor | None = None) -> Tensor:
        """Σ ln Z(B) - ln Z_before(B_before) over the units, the increment of an annealing step: (batch,).

        ``before`` is a layer of the same unit type; ``mean`` is the mean at B, if already known.
        """
        return per_row(self.log_partition(B) - before.log_partition(B_before))


def per_row(x: Tensor) -> Tensor:
    """The sum over all but the first dimension."""
    return x.flatten(1).sum(1) if x.ndim > 1 else x  # a layer of one vector unit has one value per row
