"""A custom coupling: translation-invariant features of periodic signals."""

import torch

import harmonium as hm


class Circulant(hm.couplings.Coupling):
    """Lower (n,), upper (channels, n): W[i, (c, j)] = weight[c, (i - j) mod n], a periodic convolution."""

    incoming_dims = (1,)

    def __init__(self, lower, upper, weight=None):
        super().__init__(tuple(lower), tuple(upper))
        n = lower[0]
        self.weight = self.new_parameter(weight, (upper[0], n))
        index = (torch.arange(n)[:, None] - torch.arange(n)) % n
        self.register_buffer("index", index, persistent=False)

    def up(self, x):  # down and correlate are derived from it by autograd
        return torch.einsum("bi,cij->bcj", x, self.weight[:, self.index])


if __name__ == "__main__":
    hm.testing.check_coupling(Circulant((6,), (2, 6)))

    # pulses of width three at random positions on a ring of twelve units
    generator = torch.Generator().manual_seed(0)
    place = torch.randint(12, (500, 1), generator=generator)
    pulses = (((torch.arange(12) - place) % 12) < 3).float()
    rbm = hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli((2, 12)), Circulant((12,), (2, 12)))
    rbm.initialize(pulses, seed=0)
    before = rbm.log_probability(pulses).mean().item()
    hm.fit(rbm, pulses, negative=hm.PCD(5), epochs=100, seed=0, progress=False)
    print(f"log-likelihood: {before:.2f} nats before training, {rbm.log_probability(pulses).mean().item():.2f} after")
