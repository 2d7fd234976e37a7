"""Other libraries for restricted Boltzmann machines, compared with harmonium on MNIST (pixels > 127), in one table.

    python benchmarks/peers.py                       # all libraries, no other load
    python benchmarks/peers.py --part epochs         # speed alone; "learning" is the other part
    python benchmarks/peers.py --part learning --only textbook rbms
    python benchmarks/peers.py --worker rbms --hidden 16 --rate 0.1 --epochs 10      # one training, as JSON

* Speed: 784×500 units, batches of 100, one thread: CPU time of an epoch of 60 000 rows without the set-up of a call,
  and rows per second. The libraries take turns, ``--rounds`` times, each in a process of its own.
* Learning: 784×16 units, whose likelihood can be computed exactly: CPU time, with the set-up, until the mean
  log-likelihood of 10 000 training rows reaches ``TARGET``. Every library has the rates ``RATES`` and the best of them
  counts; harmonium has its defaults alone.

Every library trains with its own code and the same torch. Those that are not dependencies of harmonium are installed
in ``.envs/``. PyDeep and RestrictedBoltzmannMachines.jl are in no registry of Python packages, and are not compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ENVIRONMENTS = Path(__file__).parent / ".envs"
# the packages pin old dependencies, so they are installed without those that harmonium has
NEEDS = {
    "rbms": ["rbms", "tqdm"],
    "learnergy": ["learnergy", "scikit-image", "imageio", "tifffile", "lazy_loader", "networkx"],
}
TARGET = -145.0  # nats per row
RATES = (0.01, 0.03, 0.1, 0.3)
BATCH, EPOCHS = 100, 30  # most epochs until the target


# -- the libraries: a training is a function that calls ``after(W, b, c)`` after every epoch -------------------------
def harmonium(data, hidden: int, rate: float | None, epochs: int, after: Callable) -> None:
    """hm.fit with its defaults, except for the batch size and the number of epochs."""
    import harmonium as hm
    from common import quiet

    class After(hm.Callback):
        def on_epoch(self, progress):
            after(rbm.weight, rbm.visible.bias, rbm.hidden.bias)

    rbm = hm.RBM(784, hidden)
    hm.fit(rbm, data, epochs=epochs, batch_size=BATCH, callbacks=[After()], **quiet(epochs))


def textbook(data, hidden: int, rate: float, epochs: int, after: Callable) -> None:
    """Persistent contrastive divergence as in a textbook, in plain torch."""
    import torch

    W, b, c = torch.randn(784, hidden) * 0.01, torch.zeros(784), torch.zeros(hidden)
    chain = data[:BATCH]
    for _ in range(epochs):
        for index in torch.randperm(len(data)).split(BATCH):
            v = data[index]
            h = torch.bernoulli(torch.sigmoid(chain @ W + c))
            chain = torch.bernoulli(torch.sigmoid(h @ W.T + b))
            p, q = torch.sigmoid(v @ W + c), torch.sigmoid(chain @ W + c)
            W += rate / BATCH * (v.T @ p - chain.T @ q)
            b += rate * (v.mean(0) - chain.mean(0))
            c += rate * (p.mean(0) - q.mean(0))
        after(W, b, c)


def sklearn(data, hidden: int, rate: float, epochs: int, after: Callable) -> None:
    """scikit-learn's BernoulliRBM.fit in float32, which asks for a score after every epoch if it is verbose."""
    from contextlib import redirect_stdout

    import torch
    from sklearn.neural_network import BernoulliRBM

    class Model(BernoulliRBM):
        def score_samples(self, X):
            after(*map(torch.as_tensor, (self.components_.T, self.intercept_visible_, self.intercept_hidden_)))
            return torch.zeros(1)

    with redirect_stdout(None):
        model = Model(hidden, learning_rate=rate, batch_size=BATCH, n_iter=epochs, random_state=0, verbose=1)
        model.fit(data.numpy())


def rbms(data, hidden: int, rate: float, epochs: int, after: Callable) -> None:
    """rbms: its step (centered gradient, persistent chains), without writing files."""
    import torch
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.training.pcd import fit_batch_pcd

    model = BBRBM(weight_matrix=torch.randn(784, hidden) * 0.01, vbias=torch.zeros(784), hbias=torch.zeros(hidden))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    chains, optimizer = model.init_chains(BATCH), torch.optim.SGD(model.parameters(), lr=rate, maximize=True)
    weights = torch.ones(BATCH, 1)
    with torch.no_grad():
        for _ in range(epochs):
            for index in torch.randperm(len(data)).split(BATCH):
                optimizer.zero_grad(set_to_none=False)
                batch = data[index], weights
                chains, _ = fit_batch_pcd(batch, chains, model, 1, 1.0, centered=True, lambda_l1=0.0, lambda_l2=0.0)
                optimizer.step()
            after(model.weight_matrix, model.vbias, model.hbias)


def learnergy(data, hidden: int, rate: float, epochs: int, after: Callable) -> None:
    """learnergy's RBM.fit (contrastive divergence)."""
    import logging

    import torch
    from learnergy.models.bernoulli import RBM

    logging.disable(logging.CRITICAL)
    rows = torch.utils.data.TensorDataset(data, torch.zeros(len(data)))
    model = RBM(784, hidden, steps=1, learning_rate=rate)
    for _ in range(epochs):
        model.fit(rows, batch_size=BATCH, epochs=1)
        after(model.W, model.a, model.b)


PEERS = {"harmonium": harmonium, "textbook": textbook, "sklearn": sklearn, "rbms": rbms, "learnergy": learnergy}


# -- one training ----------------------------------------------------------------------------------------------------
def mnist():
    """The rows of MNIST (60 000, 784) with pixels above 127 as 1."""
    import gzip

    import torch

    path = Path(os.environ["HARMONIUM_DATA"]) / "mnist" / "train-images-idx3-ubyte.gz"
    pixels = torch.frombuffer(bytearray(gzip.decompress(path.read_bytes())), dtype=torch.uint8, offset=16)
    return (pixels.view(-1, 784) > 127).float()


def log_likelihood(rows, W, b, c) -> float:
    """Exact mean log-likelihood of the rows, by a sum over all hidden states."""
    import torch
    from torch.nn.functional import softplus

    hidden, parts = len(c), []
    states = torch.arange(2**hidden)
    for some in states.split(4096):
        h = (some[:, None] >> torch.arange(hidden) & 1).float()
        parts.append((h @ c + softplus(b + h @ W.T).sum(1)).double())
    free = rows @ b + softplus(rows @ W + c).sum(1)
    return (free.double().mean() - torch.logsumexp(torch.cat(parts), 0)).item()


def work(name: str, hidden: int, rate: float | None, epochs: int, exact: bool) -> None:
    """Train with one library; print CPU seconds and likelihoods after every epoch."""
    import torch

    torch.set_num_threads(1)
    data, found, paused = mnist(), [], 0.0
    began = time.process_time()

    def after(*parameters) -> None:
        nonlocal paused
        stopped = time.process_time()
        row = {"seconds": stopped - began - paused}
        if exact:
            with torch.no_grad():
                row["log_likelihood"] = log_likelihood(data[:10000], *(x.detach() for x in parameters))
        found.append(row)
        paused += time.process_time() - stopped

    PEERS[name](data, hidden, rate, epochs, after)
    print(json.dumps(found))


# -- the table -------------------------------------------------------------------------------------------------------
def installed(name: str) -> dict[str, str]:
    """Return the environment variables of a library, which is installed if it is not there."""
    if name not in NEEDS:
        return {}
    folder = ENVIRONMENTS / name
    if not (folder / ".done").exists():
        options = ["install", "-q", "--no-deps", "--target", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", *options, *NEEDS[name]], check=True)
        (folder / ".done").touch()
    return {"PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)]))}


def training(name: str, *options: object) -> list[dict[str, float]]:
    """Train with one library in a process of its own."""
    command = [sys.executable, __file__, "--worker", name, *map(str, options)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, **installed(name)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def reached(rows: list[dict[str, float]]) -> float:
    """CPU seconds until the target, infinite if it was not reached."""
    return next((row["seconds"] for row in rows if row["log_likelihood"] >= TARGET), float("inf"))


def epoch_times(names: list[str], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of an epoch, the second of a training; print them with rows per second."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            seconds = [row["seconds"] for row in training(name, "--hidden", 500, "--rate", 0.05, "--epochs", 2)]
            found[name].append(seconds[1] - seconds[0])
    print("| library | CPU seconds per epoch | rows per second | relative to harmonium |\n|---|---|---|---|")
    for name, times in found.items():
        seconds, own = statistics.median(times), statistics.median(found.get("harmonium", times))
        print(f"| {name} | {seconds:.2f} | {60000 / seconds:.0f} | {seconds / own:.1f} |", flush=True)
    return found


def learning(names: list[str]) -> dict[str, dict[str, object]]:
    """Train with every rate; print the CPU time to the target with the best one."""
    found: dict[str, dict[str, object]] = {}
    print("| library | CPU seconds to the target | best likelihood | rate |\n|---|---|---|---|")
    for name in names:
        options = ("--exact", "--hidden", 16, "--epochs", EPOCHS)
        rates = [None] if name == "harmonium" else RATES
        runs = {rate: training(name, *options, *([] if rate is None else ["--rate", rate])) for rate in rates}
        rate, best = min(runs.items(), key=lambda one: (reached(one[1]), -one[1][-1]["log_likelihood"]))
        value = max(row["log_likelihood"] for row in best)
        found[name] = {"rate": rate, "seconds": reached(best), "runs": list(runs.values())}
        print(f"| {name} | {reached(best):.1f} | {value:.1f} | {'default' if rate is None else rate} |", flush=True)
    return found


def main() -> None:
    """Train with one library, or compare all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--part", nargs="+", choices=("epochs", "learning"), default=["epochs", "learning"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--exact", action="store_true", help=argparse.SUPPRESS)
    for name, kind, default in (("hidden", int, 500), ("rate", float, None), ("epochs", int, 2)):
        parser.add_argument(f"--{name}", type=kind, default=default, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker, args.hidden, args.rate, args.epochs, args.exact)
        return
    from common import kept, write

    results = {"target": TARGET, **kept("peers")}
    if "epochs" in args.part:
        results["epochs"] = {**results.get("epochs", {}), **epoch_times(args.only, args.rounds)}
    if "learning" in args.part:
        results["learning"] = {**results.get("learning", {}), **learning(args.only)}
    write("peers", results)


if __name__ == "__main__":
    main()
