"""A variational autoencoder of digits whose prior is an RBM, trained together in one backward pass.

The encoder gives q(z|x), independent binary latent variables, and the decoder p(x|z). The bound on ln p(x) is
⟨ln p(x|z)⟩ + H(q) - ⟨F(z)⟩ - ln Z. Draws of z pass gradients straight through to the probabilities. The contrastive
loss contributes ⟨F(z)⟩, from which the encoder learns as well, and the gradient of ln Z, from persistent chains.
"""

import torch
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

import harmonium as hm

LATENT = 12  # few enough to compute ln Z of the prior exactly


def straight_through(logits):
    """Binary draws whose gradient is that of their probabilities."""
    p = torch.sigmoid(logits)
    return torch.bernoulli(p).detach() + p - p.detach()


class VAE(torch.nn.Module):
    """Encoder, decoder and prior."""

    def __init__(self, pixels):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(pixels, 64), torch.nn.ReLU(), torch.nn.Linear(64, LATENT))
        self.decoder = torch.nn.Sequential(torch.nn.Linear(LATENT, 64), torch.nn.ReLU(), torch.nn.Linear(64, pixels))
        self.prior = hm.RBM(LATENT, 8)

    def parts(self, x):
        """The draws z, and the terms -⟨ln p(x|z)⟩ - H(q) of minus the bound."""
        logits = self.encoder(x)
        z = straight_through(logits)
        entropy = cross_entropy(logits, torch.sigmoid(logits), reduction="none").sum(1)
        error = cross_entropy(self.decoder(z), x, reduction="none").sum(1)
        return z, (error - entropy).mean()

    @torch.no_grad()
    def bound(self, x):
        """The evidence lower bound in nats, with the exact ln Z."""
        z, rest = self.parts(x)
        return (self.prior.log_probability(z.round()).mean() - rest).item()


def main():
    """Train the autoencoder and print the bound for test images."""
    torch.manual_seed(0)
    images, test = (hm.data.load("digits", binarize="threshold", split=split) for split in ("train", "test"))
    vae = VAE(images.shape[1])
    vae.prior.initialize(seed=0)
    optimizer = torch.optim.Adam(vae.parameters(), lr=0.003)
    chains = torch.bernoulli(torch.full((100, LATENT), 0.5))
    before = vae.bound(test)
    for _ in range(40):
        for rows in torch.randperm(len(images)).split(100):
            z, rest = vae.parts(images[rows])
            chains = vae.prior.sample_visible(vae.prior.sample_hidden(chains))
            loss = rest + hm.losses.contrastive(vae.prior, z, chains)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"bound on the log-likelihood: {before:.2f} nats before training, {vae.bound(test):.2f} after")


if __name__ == "__main__":
    main()
