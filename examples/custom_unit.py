"""A custom unit: Blume-Capel spins {-1, 0, 1}, for data with votes for, votes against and abstentions."""

import torch

import harmonium as hm
from harmonium.units.support import Values


class BlumeCapel(hm.units.Unit):
    """x ∈ {-1, 0, 1}, -U(x) = b x - Δ x²; a large crystal field Δ favors 0."""

    support = Values("spins -1, 0 or 1", (-1.0, 0.0, 1.0))
    naturals = ("bias", "crystal_field")

    def __init__(self, shape, *, bias=0.0, crystal_field=0.0, learn=("bias", "crystal_field")):
        super().__init__(shape, bias=bias, learn=learn)
        self.crystal_field = self.new_parameter("crystal_field", crystal_field)

    def log_weight(self, x):
        return self.bias * x - self.crystal_field * x.square()

    def mean(self, B, A=None):  # optional: faster than the default, the derivative of log_partition
        h, d = self.bias + B, self.crystal_field if A is None else self.crystal_field + A / 2
        minus, _, plus = torch.softmax(torch.stack([-h - d, torch.zeros_like(h), h - d]), 0)
        return plus - minus


if __name__ == "__main__":
    hm.testing.check_unit(BlumeCapel(3, bias=torch.tensor([0.3, -0.5, 0.1]), crystal_field=0.4))

    # 200 voters on 6 motions: two camps, a third of the votes are abstentions
    generator = torch.Generator().manual_seed(0)
    camp = torch.randint(2, (200, 1), generator=generator) * 2.0 - 1
    votes = camp * (torch.rand(200, 6, generator=generator) > 1 / 3)
    rbm = hm.RBM(BlumeCapel(6), hm.units.Bernoulli(2))
    rbm.initialize(votes, seed=0)
    before = rbm.log_probability(votes).mean().item()
    hm.fit(rbm, votes, negative=hm.PCD(1), epochs=100, seed=0, progress=False)
    print(f"log-likelihood: {before:.2f} nats before training, {rbm.log_probability(votes).mean().item():.2f} after")
