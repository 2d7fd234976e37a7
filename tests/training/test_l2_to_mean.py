"""The penalty on the differences between sites: its gradient, and that it leaves what sites have in common alone."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium.errors import InvalidOption
from harmonium.training import Clock
from harmonium.training.gradient import CouplingGradient, Gradient


def test_gradient_equals_finite_differences():
    rbm = hm.RBM(hm.units.Ratings((3, 2)), 2).double()
    rbm.initialize(scale=1.0, seed=0)
    penalty = hm.L2ToMean(0.3)
    link = CouplingGradient.of_matrix(rbm.coupling, torch.zeros_like(rbm.weight))
    with torch.no_grad():
        penalty.add(rbm, Gradient({}, {0: link}, []), None, Clock(1, 1, 0.0), lambda weight: None)
        found = link.dense()
        step = 1e-6
        for i in range(rbm.weight.shape[0]):
            for j in range(rbm.weight.shape[1]):
                values = []
                for sign in (1, -1):
                    rbm.weight[i, j] += sign * step
                    values.append(penalty.loss(rbm))
                    rbm.weight[i, j] -= sign * step
                assert found[i, j].item() == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-7)


def test_equal_sites_have_no_penalty():
    rbm = hm.RBM(hm.units.Ratings((4, 3)), 2)
    with torch.no_grad():
        rbm.weight.copy_(torch.randn(1, 3, 2).expand(4, 3, 2).reshape(12, 2))
    assert hm.L2ToMean(1.0).loss(rbm) == pytest.approx(0.0, abs=1e-9)
    assert hm.L2(1.0).loss(rbm) > 0.1


def test_other_couplings_are_rejected():
    layers = hm.units.Bernoulli(4), hm.units.Bernoulli(3)
    rbm = hm.RBM(*layers, hm.couplings.Masked((4,), (3,), degree=2))
    with pytest.raises(InvalidOption, match="L2ToMean expects dense couplings, found Masked"):
        hm.fit(rbm, torch.zeros(4, 4), penalties=[hm.L2ToMean(0.1)], centered=False, progress=False)
