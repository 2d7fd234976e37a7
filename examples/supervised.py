"""A supervised loss in the same backward pass: an RBM whose hidden means also have to classify the digits."""

import torch

import harmonium as hm


def main():
    """Train both and print the accuracy for test images."""
    torch.manual_seed(0)
    images, labels = hm.data.load("digits", binarize="threshold", labels=True)
    test, test_labels = hm.data.load("digits", binarize="threshold", labels=True, split="test")
    rbm = hm.RBM(64, 32)
    rbm.initialize(images, seed=0)
    classifier = torch.nn.Linear(32, 10)
    optimizer = torch.optim.Adam([*rbm.parameters(), *classifier.parameters()], lr=0.01)

    @torch.no_grad()
    def accuracy():
        return 100 * (classifier(rbm.hidden_mean(test)).argmax(1) == test_labels).double().mean().item()

    before = accuracy()
    for _ in range(15):
        for rows in torch.randperm(len(images)).split(100):
            v = images[rows]
            loss = hm.losses.contrastive(rbm, v) + torch.nn.functional.cross_entropy(
                classifier(rbm.hidden_mean(v)), labels[rows]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"test accuracy in percent: {before:.1f} before training, {accuracy():.1f} after")


if __name__ == "__main__":
    main()
