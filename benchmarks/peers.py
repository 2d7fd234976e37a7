"""Time an epoch of another library, or of harmonium: ``python peers.py NAME …`` prints seconds as JSON.

Every library trains on the same rows with the same shapes, with its own training loop. A first, short call warms up;
then each epoch is timed. ``setup`` creates the environments of the libraries that are not dependencies of harmonium.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ENVIRONMENTS = Path(__file__).parent / ".envs"
# the packages pin old dependencies, so they are installed without them
NEEDS = {
    "rbms": ["torch==2.13.0", "numpy", "h5py", "matplotlib", "tqdm"],
    "learnergy": ["torch==2.13.0", "numpy", "matplotlib", "Pillow", "scikit-image"],
}


def setup(name: str) -> Path:
    """Return the Python of the library's environment, which is created if it does not exist."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    if not (folder / ".done").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *NEEDS[name]], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-deps", name], check=True)
        (folder / ".done").touch()
    return python


def python_of(peer: str) -> str:
    """Return the Python that runs a library."""
    package = peer.split("-")[0]
    return str(setup(package)) if package in NEEDS else sys.executable


def _torch_data(rows: int, visible: int):
    from common import binary_data

    return binary_data(rows, visible)


def harmonium(args: argparse.Namespace) -> Callable[[], None]:
    """hm.fit, including checks, shuffling, and metrics at the end of the epoch."""
    import harmonium as hm

    data = _torch_data(args.rows, args.visible)
    rbm = hm.RBM(hm.units.Bernoulli(args.visible), hm.units.Bernoulli(args.hidden))
    phase = hm.PCD if args.method == "pcd" else hm.CD
    transforms = [hm.Centered()] if args.centered else []

    def epoch() -> None:
        hm.fit(
            rbm, data, negative=phase(args.k), epochs=1, batch_size=args.batch, transforms=transforms, progress=False
        )

    return epoch


def sklearn32(args: argparse.Namespace, dtype: str = "float32") -> Callable[[], None]:
    """scikit-learn's BernoulliRBM (persistent chains, one sweep)."""
    from sklearn.neural_network import BernoulliRBM

    data = _torch_data(args.rows, args.visible).numpy().astype(dtype)
    model = BernoulliRBM(args.hidden, learning_rate=0.05, batch_size=args.batch, n_iter=1, verbose=0, random_state=0)
    return lambda: model.fit(data) and None


def sklearn64(args: argparse.Namespace) -> Callable[[], None]:
    """scikit-learn's BernoulliRBM in float64, its default for float64 input."""
    return sklearn32(args, "float64")


def rbms(args: argparse.Namespace) -> Callable[[], None]:
    """rbms: its training loop (centered gradient, persistent chains or CD) without writing files."""
    import torch
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.training.pcd import fit_batch_pcd

    data = _torch_data(args.rows, args.visible)
    weights = torch.ones(args.rows, 1)
    params = BBRBM(
        weight_matrix=torch.randn(args.visible, args.hidden) * 0.01,
        vbias=torch.zeros(args.visible),
        hbias=torch.zeros(args.hidden),
    )
    for parameter in params.parameters():
        parameter.grad = torch.zeros_like(parameter)
    state = {"chains": params.init_chains(args.batch)}
    optimizer = torch.optim.SGD(params.parameters(), lr=0.05, maximize=True)

    @torch.no_grad()
    def epoch() -> None:
        for _ in range(args.rows // args.batch):
            index = torch.randperm(args.rows)[: args.batch]
            batch = (data[index], weights[index])
            if args.method == "cd":
                state["chains"] = params.init_chains(args.batch, weights=batch[1], start_v=batch[0])
            optimizer.zero_grad(set_to_none=False)
            state["chains"], _ = fit_batch_pcd(
                batch, state["chains"], params, args.k, 1.0, centered=True, lambda_l1=0.0, lambda_l2=0.0
            )
            optimizer.step()

    return epoch


def learnergy(args: argparse.Namespace) -> Callable[[], None]:
    """learnergy's RBM.fit (contrastive divergence)."""
    import logging

    import torch
    from learnergy.models.bernoulli import RBM

    logging.disable(logging.CRITICAL)
    data = _torch_data(args.rows, args.visible)
    dataset = torch.utils.data.TensorDataset(data, torch.zeros(args.rows))
    model = RBM(args.visible, args.hidden, steps=args.k, learning_rate=0.05)
    return lambda: model.fit(dataset, batch_size=args.batch, epochs=1) and None


PEERS = {
    "harmonium": harmonium,
    "sklearn-float32": sklearn32,
    "sklearn-float64": sklearn64,
    "rbms": rbms,
    "learnergy": learnergy,
}


def main() -> None:
    """Time some epochs of one library."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    for name, default in {"rows": 60000, "visible": 784, "hidden": 500, "batch": 100, "k": 1, "epochs": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--method", choices=("pcd", "cd"), default="pcd")
    parser.add_argument("--centered", action="store_true")
    args = parser.parse_args()
    import torch

    torch.set_num_threads(args.threads)
    whole, args.rows = args.rows, 10 * args.batch
    PEERS[args.peer](args)()  # warm up
    args.rows = whole
    epoch = PEERS[args.peer](args)
    seconds = []
    for _ in range(args.epochs):
        began = time.perf_counter()
        epoch()
        seconds.append(time.perf_counter() - began)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
