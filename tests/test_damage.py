"""Damaged and hostile files: every changed bit is detected, and a small file cannot use much memory."""

from __future__ import annotations

import json
import os
import random
import tracemalloc

import pytest
import torch
from safetensors.torch import save_file

import harmonium as hm
from harmonium import files
from harmonium.errors import CheckpointError, HarmoniumError, RunError
from harmonium.report import saved

ROWS = torch.eye(6).repeat(5, 1)
OPTIONS = {"batch_size": 10, "schedule": "constant", "progress": False, "seed": 0}


@pytest.fixture
def path(tmp_path):
    rbm = hm.RBM(hm.units.Gaussian(6, learn=("bias", "precision")), hm.units.Bernoulli(4))
    rbm.initialize(torch.randn(20, 6, generator=torch.Generator().manual_seed(0)))
    hm.save(rbm, tmp_path / "rbm.safetensors")
    return tmp_path / "rbm.safetensors"


def crafted(path, config: object, tensors: dict[str, torch.Tensor] | None = None, **metadata: object) -> None:
    """Write a file with right checksums and any contents, as an attacker could."""
    tensors = tensors or {"x": torch.zeros(1)}
    sums = {name: files.digest(name, tensor.contiguous()) for name, tensor in tensors.items()}
    entry = {"version": "1", "config": json.dumps(config), **metadata, "tensors": sums}
    save_file(tensors, path, {"harmonium": files._signed(json.dumps(entry))})


@pytest.mark.slow
def test_every_changed_bit_is_detected(path):
    """A changed bit is refused, or, in the padding of the header, has no effect at all."""
    whole = path.read_bytes()
    expected = hm.load(path).state_dict()
    random_bits = random.Random(0)
    refused = 0
    for _ in range(400):
        place = random_bits.randrange(len(whole) * 8)
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            found = hm.load(path).state_dict()
        except CheckpointError:
            refused += 1
            continue
        assert all(torch.equal(found[name], value) for name, value in expected.items()), f"bit {place}"
        assert json.loads(json.dumps(hm.load(path).config()))
    assert refused >= 390


@pytest.mark.slow
def test_every_bit_of_the_weights_is_protected(path):
    whole = path.read_bytes()
    begin = len(whole) - 6 * 4 * 4 - 64
    for place in range(begin * 8, len(whole) * 8, 7):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="checksum"):
            hm.load(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused(path, value):
    rbm = hm.load(path)
    with torch.no_grad():
        rbm.weight[0, 0] = value
    hm.save(rbm, path)
    with pytest.raises(CheckpointError, match=r"expected finite values of coupling\.weight"):
        hm.load(path)


def test_files_without_checksums_are_refused(path):
    rbm = hm.load(path)
    entry = {"version": "1", "config": json.dumps(rbm.config())}
    save_file({name: t for name, t in rbm.state_dict().items()}, path, {"harmonium": json.dumps(entry)})
    with pytest.raises(CheckpointError, match="checksum"):
        hm.load(path)


def test_checksums_cannot_be_lost(path):
    """A changed name of the checksum does not turn a file into one without checksums."""
    whole = path.read_bytes()
    for name in (b'\\"tensors\\"', b'\\"sha256\\"'):
        assert name in whole
        path.write_bytes(whole.replace(name, name.replace(b"s", b"z", 1)))
        with pytest.raises(CheckpointError, match="damaged"):
            hm.load(path)


LARGE = [
    {"machine": "RBM", "layers": [{"unit": "bernoulli", "shape": [n]}, {"unit": "bernoulli", "shape": [m]}],
     "couplings": [{"coupling": "dense", "lower": [n], "upper": [m]}]}
    for n, m in [(10**7, 10**6), (10**12, 3), (2**70, 2)]
]  # fmt: skip


@pytest.mark.parametrize("config", LARGE, ids=["matrix", "terabytes", "overflow"])
def test_a_small_file_cannot_declare_a_large_machine(path, config):
    crafted(path, config)
    tracemalloc.start()
    with pytest.raises(CheckpointError):
        hm.load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size < 1000 and peak < 2**25


@pytest.mark.parametrize(
    "metadata",
    [
        *([], "text", 3, None, {"version": ["1"]}, {"version": {}}, {"version": "1", "config": 3}),
        *({"version": "9" * 5000}, {"version": "1", "config": "[" * 10**5}),
    ],
    ids=lambda metadata: str(metadata)[:40],
)
def test_metadata_of_another_form(path, metadata):
    save_file({"x": torch.zeros(1)}, path, {"harmonium": json.dumps(metadata)})
    with pytest.raises(CheckpointError):
        hm.load(path)


@pytest.mark.parametrize("name", ["config.toml", "metrics.csv", "checkpoints/last.safetensors", "evaluation.json"])
def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path, name):
    hm.fit(hm.RBM(6, 2), ROWS, run=tmp_path / "run", **{**OPTIONS, "epochs": 1})
    (tmp_path / "run" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / "run" / name)
    run = hm.Run(tmp_path / "run")
    reads = {
        "config.toml": run.read_config,
        "metrics.csv": run.read_metrics,
        "checkpoints/last.safetensors": lambda: hm.load(run.folder),
    }
    if name == "evaluation.json":
        assert saved.read(run.folder, 1) is None
    else:
        with pytest.raises(HarmoniumError, match="expected a file, found a pipe or device"):
            reads[name]()


@pytest.mark.parametrize("name", ["x.mat", "x.h5", "x.dat", "x.safetensors"])
def test_a_pipe_in_place_of_a_machine_does_not_block(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(HarmoniumError, match="expected a file, found a pipe or device"):
        hm.convert.read(tmp_path / name)


# -- run folders ------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    hm.fit(hm.RBM(6, 2), ROWS, epochs=4, run=tmp_path / "run", **OPTIONS)
    return hm.Run(tmp_path / "run")


@pytest.mark.slow
def test_the_previous_checkpoint_replaces_a_damaged_one(run, tmp_path):
    whole = hm.Run(tmp_path / "whole")
    hm.fit(hm.RBM(6, 2), ROWS, epochs=6, run=whole.folder, **OPTIONS)
    content = bytearray(run.last.read_bytes())
    content[-5] ^= 4
    run.last.write_bytes(content)
    with pytest.warns(UserWarning, match=r"checksum.*The checkpoint before it, previous\.safetensors, is used"):
        hm.fit(hm.RBM(6, 2), ROWS, epochs=6, run=run.folder, resume=True, **OPTIONS)
    assert run.last.read_bytes() == whole.last.read_bytes()  # epochs 4 to 6 again, bit-for-bit


def test_a_damaged_checkpoint_never_replaces_an_intact_one(run):
    intact = run.previous.read_bytes()
    run.last.write_bytes(run.last.read_bytes()[:-9])
    with pytest.warns(UserWarning, match="is used"):
        _, state = run.read_state()
    run.write_checkpoint(hm.RBM(6, 2), state)
    assert run.previous.read_bytes() == intact
    run.write_checkpoint(hm.RBM(6, 2), state)
    assert run.previous.read_bytes() != intact


@pytest.mark.slow
def test_without_an_intact_checkpoint_both_are_named(run):
    for path in (run.last, run.previous):
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match="the checkpoint before it is not intact either"):
        run.read_state()


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimizer": {}}, "training state is damaged"),
        ({"optimizer": {"state": {"x": 1}, "param_groups": []}}, "training state is damaged"),
        ({"learners": [{"coordinates": {"offsets": []}}]}, "training state is damaged"),
        ({"learners": [3]}, "training state is damaged"),
        ({"processes": [{}]}, "training state is damaged"),
        ({"processes": [{"negative": {"v": 1, "h": 2}, "generator": 3}]}, "training state is damaged"),
        ({"of": []}, "training state is damaged"),
        ({"processes": 3}, "training state is damaged"),
    ],
    ids=str,
)
def test_states_that_no_version_has_written(run, change, message):
    """Such a file can have valid checksums."""
    tensors, metadata = files.read_tensors(run.last)
    state = {**json.loads(metadata["training"]), **change}
    rbm = hm.RBM(6, 2)
    files.load_parameters(rbm, run.last, tensors)
    extra = {name: t for name, t in tensors.items() if "/" in name}
    files.write_tensors(run.last, extra, {"training": json.dumps(state)}, rbm)
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    with pytest.raises(HarmoniumError, match=message):
        hm.fit(hm.RBM(6, 2), ROWS, epochs=6, run=run.folder, resume=True, **OPTIONS)
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before


GRAY = torch.randn(30, 6, generator=torch.Generator().manual_seed(1))
HOLES = ROWS.masked_fill(torch.eye(30, 6).roll(2, 0).bool(), torch.nan)
#: machine, rows and options of runs whose checkpoints contain every kind of state
STATES = {
    "pcd": (lambda: hm.RBM(6, 2), ROWS, {"negative": "pcd:1", "optimizer": "adam"}),
    "momentum": (lambda: hm.RBM(6, 2), ROWS, {"optimizer": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5)}),
    "parallel tempering": (lambda: hm.RBM(6, 2), ROWS, {"negative": "parallel-tempering:1,rungs=3"}),
    "trajectory": (lambda: hm.RBM(6, 2), ROWS, {"negative": "trajectory-tempering:1"}),
    "mean field": (lambda: hm.RBM(6, 2), ROWS, {"negative": "mean-field:2"}),
    "messages": (lambda: hm.RBM(6, 2), ROWS, {"negative": lambda: hm.training.MeanField(2, method="bp")}),
    "deep": (lambda: hm.DeepBoltzmannMachine([6, 3, 2]), ROWS, {"negative": "deep-pcd:1"}),
    "stack": (lambda: hm.DeepBeliefNetwork.of([6, 3, 2]), ROWS, {}),
    "standardized": (lambda: hm.RBM(hm.units.Gaussian(6), 2), GRAY, {"penalties": [hm.L2(0.01)]}),
    "missing values": (lambda: hm.RBM(6, 2), lambda: hm.Incomplete(HOLES), {}),
}
TYPES = (torch.float32, torch.float64, torch.int64, torch.complex64)


@pytest.mark.slow
@pytest.mark.parametrize("kind", STATES)
def test_states_of_another_shape_or_type(kind, tmp_path):
    """Chains, walkers, offsets, averages and states of optimizers are checked before the run is changed."""
    make, rows, given = STATES[kind]
    run = hm.Run(tmp_path)

    def fit(epochs: int, **options: object) -> None:
        made = {name: value() if name == "negative" and callable(value) else value for name, value in given.items()}
        made["constraints"] = [hm.Average(1.0, every=1)]
        data = rows() if callable(rows) else rows
        hm.fit(make(), data, epochs=epochs, run=run.folder, **OPTIONS, **made, **options)

    fit(2)
    tensors, metadata = files.read_tensors(run.last)
    state = json.loads(metadata["training"])
    machine = make()
    files.load_parameters(machine, run.last, tensors)
    extra = {name: x for name, x in tensors.items() if "/" in name}
    changes = [({**extra, name: torch.zeros(3, 4)}, state) for name in extra]
    for k, (name, x) in enumerate(extra.items()):
        others = [other for other in TYPES if other != x.dtype]
        changes.append(({**extra, name: x.to(others[k % len(others)])}, state))
    own = {name: value for name, value in state.items() if name != "options"}
    numbers = [_replaced(own, key, "x") for key in ("moves", "count", "seen", "lr", "betas", "momentum")]
    changes += [(extra, {**state, **changed}) for changed in numbers if isinstance(changed, dict)]
    for kept, changed in changes:
        files.write_tensors(run.last, kept, {"training": json.dumps(changed)}, machine)
        before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
        with pytest.raises(CheckpointError, match="the training state is damaged"):
            fit(3, resume=True)
        assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before
    files.write_tensors(run.last, extra, {"training": json.dumps(state)}, machine.double())
    with pytest.raises(HarmoniumError, match=r"expected a tensor float64 .*, found float32|machine.dtype float64"):
        fit(3, resume=True)
    files.write_tensors(run.last, extra, {"training": json.dumps(state)}, machine.float())
    fit(3, resume=True)  # what was written again without a change is intact


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pcd", "parallel tempering", "standardized"])
def test_a_run_in_float64_continues_in_float64(kind, tmp_path):
    """A machine in float32 takes the type of the file."""
    make, rows, given = STATES[kind]
    options = {**OPTIONS, **given}
    whole, run = hm.Run(tmp_path / "whole"), hm.Run(tmp_path / "run")
    hm.fit(make().double(), rows, epochs=3, run=whole.folder, **options)
    hm.fit(make().double(), rows, epochs=2, run=run.folder, **options)
    hm.fit(make(), rows, epochs=3, run=run.folder, resume=True, **options)
    assert run.last.read_bytes() == whole.last.read_bytes()


@pytest.mark.parametrize("other", [torch.int64, torch.complex64, torch.bool, torch.float64])
def test_parameters_of_another_type(path, other):
    """All real numbers of a file have the same type."""
    rbm = hm.load(path)
    state = {name: t for name, t in rbm.state_dict().items()}
    crafted(path, rbm.config(), state | {"coupling.weight": rbm.weight.detach().to(other)})
    with pytest.raises(CheckpointError, match=r"expected \S+ of type float(32|64) .*, found "):
        hm.load(path)


def _replaced(tree: object, key: str, value: object) -> object:
    """The tree with another value of a key, or None if it has no such key."""
    if isinstance(tree, dict):
        if key in tree:
            return {**tree, key: value}
        found = {name: _replaced(part, key, value) for name, part in tree.items()}
        return next(({**tree, name: part} for name, part in found.items() if part is not None), None)
    if isinstance(tree, list):
        parts = [_replaced(part, key, value) for part in tree]
        return next(([*tree[:k], part, *tree[k + 1 :]] for k, part in enumerate(parts) if part is not None), None)
    return None


def test_a_failed_resume_does_not_change_the_machine(run):
    rbm = hm.RBM(6, 2)
    with pytest.raises(RunError, match="seed"):
        hm.fit(rbm, ROWS, epochs=6, run=run.folder, resume=True, **{**OPTIONS, "seed": 5})
    assert not rbm.weight.any()
