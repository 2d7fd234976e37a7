"""A custom negative phase: persistent Gibbs chains with an additional Metropolis move that flips all spins.

Gibbs sweeps rarely go from a state to its mirror image; the Metropolis move does, at the cost of one free energy.
"""

import torch

import harmonium as hm


class MirrorPCD(hm.training.negative.Sampled):
    """PCD for spins, with the move v → -v accepted with probability min(1, p(-v)/p(v))."""

    def move(self, rbm, v, generator):
        v = rbm.sample_visible(rbm.sample_hidden(v, seed=generator), seed=generator)
        log_ratio = rbm.free_energy(v) - rbm.free_energy(-v)
        accepted = torch.rand(len(v), generator=generator, dtype=v.dtype) < log_ratio.exp()
        return torch.where(accepted[:, None], -v, v)


if __name__ == "__main__":
    weight = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    spins = hm.RBM(hm.units.Spin(5, bias=0.2), hm.units.Spin(3), hm.couplings.Dense(5, 3, 0.6 * weight))
    hm.testing.check_negative_phase(MirrorPCD(1), spins)

    # a small ferromagnet: all up or all down, with one spin in ten flipped
    generator = torch.Generator().manual_seed(0)
    data = torch.randint(2, (500, 1), generator=generator) * 2.0 - 1
    data = data * torch.where(torch.rand(500, 8, generator=generator) < 0.1, -1.0, 1.0)
    rbm = hm.RBM(hm.units.Spin(8), hm.units.Spin(2))
    rbm.initialize(data, seed=0)
    before = rbm.log_probability(data).mean().item()
    hm.fit(rbm, data, negative=MirrorPCD(1), epochs=100, seed=0, progress=False)
    print(f"log-likelihood: {before:.2f} nats before training, {rbm.log_probability(data).mean().item():.2f} after")
