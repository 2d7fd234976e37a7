"""Files: whole or not there, refused when foreign, never unpickled."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import harmonium as hm
from harmonium import files, units
from harmonium.couplings import Masked
from harmonium.errors import CheckpointError, HarmoniumError


def machine(seed: int = 0, hidden: int = 3) -> hm.RBM:
    rbm = hm.RBM(units.Bernoulli(4), units.Gaussian(hidden))
    rbm.initialize(seed=seed, scale=0.3)
    return rbm


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "machine.safetensors"


def contents(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def rewrite(path: Path, *, tensors: dict[str, torch.Tensor | None] | None = None, **metadata: str | None) -> None:
    """Change tensors and metadata of a file, with right checksums; ``None`` takes one away."""
    with safe_open(path, framework="pt") as file:
        old = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()["harmonium"])
    header = {key: value for key, value in header.items() if key not in ("tensors", "sha256")}
    kept = {name: value for name, value in {**old, **(tensors or {})}.items() if value is not None}
    entries = {key: value for key, value in {**header, **metadata}.items() if value is not None}
    entries["tensors"] = {name: files.digest(name, tensor) for name, tensor in kept.items()}
    save_file(kept, path, {"harmonium": files._signed(json.dumps(entries))})


# -- writing ----------------------------------------------------------------------------------------------------


def test_format(path):
    hm.save(machine(), path)
    with safe_open(path, framework="pt") as file:
        metadata = json.loads(file.metadata()["harmonium"])
        names = sorted(file.keys())
    assert metadata["version"] == "1"
    assert json.loads(metadata["config"]) == machine().config()
    assert names == sorted(name for name in machine().state_dict())


def test_equal_machines_make_equal_files(path):
    contents = set()
    for _ in range(5):
        hm.save(machine(), path)
        contents.add(path.read_bytes())
    assert len(contents) == 1


def test_folders_are_made(tmp_path):
    hm.save(machine(), tmp_path / "a" / "b" / "machine.safetensors")
    assert contents(tmp_path / "a" / "b") == ["machine.safetensors"]


def test_a_string_is_a_path(path):
    hm.save(machine(), str(path))
    assert torch.equal(hm.load(str(path)).coupling.weight, machine().coupling.weight)


@contextlib.contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, where: str) -> Iterator[None]:
    """The disk is full at some stage of the next write."""

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        if where == "write":

            def half(self: Path, data: bytes) -> int:
                with self.open("wb") as file:
                    file.write(data[: len(data) // 2])
                raise OSError(28, "No space left on device")

            patch.setattr(Path, "write_bytes", half)
        elif where == "fsync":
            patch.setattr(os, "fsync", fail)
        else:
            patch.setattr(Path, "replace", fail)
        yield


@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(path, monkeypatch, where):
    hm.save(machine(0), path)
    before = path.read_bytes()
    with failing(monkeypatch, where), pytest.raises(HarmoniumError, match="No space left") as caught:
        hm.save(machine(1), path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert contents(path.parent) == [path.name]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interrupted_write_leaves_the_old_file(path, error):
    files.write_text(path, "old")
    with pytest.raises(error), files.atomic(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert contents(path.parent) == [path.name]


def test_a_failed_first_write_leaves_nothing(path, monkeypatch):
    with failing(monkeypatch, "write"), pytest.raises(HarmoniumError):
        hm.save(machine(), path)
    assert contents(path.parent) == []


def test_the_new_file_appears_at_once(path):
    files.write_text(path, "old")
    with files.atomic(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent  # a rename is atomic within a file system only
    assert path.read_text() == "new"
    assert contents(path.parent) == [path.name]


def test_permissions_follow_the_umask(path):
    old = os.umask(0o027)
    try:
        hm.save(machine(), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert os.umask(0o027) == 0o027  # left as it was
    finally:
        os.umask(old)


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "file" / "machine.safetensors", tmp_path / "folder"):
        with pytest.raises(HarmoniumError, match="cannot be written"):
            hm.save(machine(), target)
    assert contents(tmp_path) == ["file", "folder"]


def test_text_is_unicode(path):
    files.write_text(path, "γ ≤ ½")
    assert path.read_bytes() == "γ ≤ ½".encode()


# -- reading ----------------------------------------------------------------------------------------------------


def test_a_type_survives(path):
    for dtype in (torch.float32, torch.float64):
        original = machine().to(dtype)
        hm.save(original, path)
        loaded = hm.load(path)
        assert loaded.dtype == dtype
        assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), original.parameters(), strict=True))


def test_exact_sums_survive(path):
    """A new machine is in single precision, but what a unit derives from its options stays in double."""
    original = hm.RBM(units.Multinary(3, levels=5, scale=0.3), units.Binomial(2, trials=3))
    original.initialize(seed=0, scale=0.5)
    hm.save(original, path)
    assert hm.load(path).log_partition() == original.log_partition()


def test_a_mask_survives(path):
    rbm = hm.RBM(units.Bernoulli(6), units.Bernoulli(3), Masked(6, 3, degree=2, seed=5))
    rbm.initialize(seed=0)
    hm.save(rbm, path)
    assert torch.equal(hm.load(path).coupling.mask, rbm.coupling.mask)


def test_what_is_learned_survives(path):
    rbm = hm.RBM(units.Gaussian(2, learn=("bias", "precision")), units.Bernoulli(3, learn=()))
    hm.save(rbm, path)
    assert [p.requires_grad for p in hm.load(path).parameters()] == [p.requires_grad for p in rbm.parameters()]


def test_a_run_folder(tmp_path):
    hm.save(machine(), tmp_path / "checkpoints" / "last.safetensors")
    assert torch.equal(hm.load(tmp_path).coupling.weight, machine().coupling.weight)
    with pytest.raises(CheckpointError, match="expected a file, found no file"):
        hm.load(tmp_path / "checkpoints")


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 0.999])
def test_truncated(path, share):
    hm.save(machine(hidden=50), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(CheckpointError, match="expected a safetensors file, found a damaged") as caught:
        hm.load(path)
    assert str(path) in str(caught.value)


def test_truncated_anywhere(path):
    hm.save(machine(), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            hm.load(path)


@pytest.mark.parametrize(
    "content",
    [bytes(64), b"\xff" * 64, b"hello", b"{}", b"\xff" * 7 + b"\x00{}", b"\x02" + bytes(7) + b"{]"],
    ids=["zeros", "ones", "text", "json", "huge-header", "bad-header"],
)
def test_noise(path, content):
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="expected a safetensors file, found a damaged"):
        hm.load(path)


def test_missing_and_unreadable(path):
    with pytest.raises(CheckpointError, match="expected a file, found no file"):
        hm.load(path)
    with pytest.raises(CheckpointError, match="expected a file, found a folder"):
        files.read_tensors(path.parent)


def test_foreign_safetensors(path):
    for metadata in (None, {"format": "pt"}):
        save_file({"weight": torch.ones(2)}, path, metadata)
        with pytest.raises(CheckpointError, match="found another safetensors file"):
            hm.load(path)


class Trap:
    """An object that leaves a mark when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.mark,)


@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_pickles_are_never_opened(path, how):
    mark = path.parent / "mark"
    if how == "torch":
        torch.save(Trap(str(mark)), path)
    else:
        path.write_bytes(pickle.dumps(Trap(str(mark))))
    with pytest.raises(CheckpointError, match="expected a safetensors file"):
        hm.load(path)
    assert not mark.exists()
    content = io.BytesIO(path.read_bytes())
    torch.load(content, weights_only=False) if how == "torch" else pickle.load(content)
    assert mark.exists()  # the trap does work


def test_other_versions_are_refused(path):
    hm.save(machine(), path)
    rewrite(path, version=str(files.FORMAT_VERSION + 1))
    with pytest.raises(CheckpointError, match=f"expected a file of format 1, found '{files.FORMAT_VERSION + 1}'"):
        hm.load(path)
    for version in ("two", "9" * 5000):
        rewrite(path, version=version)
        with pytest.raises(CheckpointError, match=r"expected a file of format 1, found '[two9]+…?'?$"):
            hm.load(path)


def test_the_tensors_of_a_file_are_a_state_dict(path):
    rbm, other = machine(), machine()
    hm.save(rbm, path)
    for parameter in other.parameters():
        parameter.data.zero_()
    assert {"visible.bias", "hidden.bias", "coupling.weight"} <= set(rbm.state_dict())
    other.load_state_dict(load_file(path))
    assert torch.equal(other.weight, rbm.weight)


def test_what_is_unknown_is_ignored(path):
    hm.save(machine(), path)
    rewrite(path, tensors={"training/chains": torch.ones(3), "note/s": torch.zeros(1)}, author="someone")
    loaded = hm.load(path)
    assert torch.equal(loaded.coupling.weight, machine().coupling.weight)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "description is damaged"),
        ("{", "description is damaged"),
        ("[]", "description is damaged"),
        ("{}", "description is damaged"),
        ('{"machine": "RBM", "layers": [], "couplings": []}', "description is damaged"),
    ],
)
def test_damaged_descriptions(path, config, message):
    hm.save(machine(), path)
    rewrite(path, config=config)
    with pytest.raises(CheckpointError, match=message):
        hm.load(path)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"machine": "RMB"}, "unknown machine 'RMB'"),
        ({"layers": [{"unit": "bernouli", "shape": [4]}]}, "did you mean 'bernoulli'"),
        ({"couplings": [{"coupling": "dens", "lower": [4], "upper": [3]}]}, "did you mean 'dense'"),
        ({"couplings": [{"coupling": "dense", "lower": [4], "upper": [9]}]}, "expected a coupling of the shapes"),
        ({"layers": [{"unit": "bernoulli", "shape": [4], "size": 4}]}, "description is damaged"),
    ],
)
def test_unknown_parts(path, part, message):
    hm.save(machine(), path)
    config = machine().config()
    for key, value in part.items():
        config[key] = [*value, *config[key][1:]] if isinstance(value, list) else value
    rewrite(path, config=json.dumps(config))
    with pytest.raises(CheckpointError, match=message):
        hm.load(path)


def test_parameters_of_another_machine(path):
    hm.save(machine(), path)
    tensors, _ = files.read_tensors(path)
    other = machine(hidden=5)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    with pytest.raises(CheckpointError, match=r"another machine: expected hidden\.bias .* \(5,\), found .* \(3,\)"):
        files.load_parameters(other, path, tensors)
    assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items())
    deep = hm.DeepBoltzmannMachine([units.Bernoulli(4), units.Gaussian(3), units.Bernoulli(2)])
    with pytest.raises(CheckpointError, match="another machine"):
        files.load_parameters(deep, path, tensors)


@pytest.mark.parametrize("change", [None, torch.zeros(7, 7)], ids=["missing", "shape"])
def test_parameters_that_do_not_fit_the_description(path, change):
    hm.save(machine(), path)
    rewrite(path, tensors={"coupling.weight": change})
    with pytest.raises(CheckpointError, match=r"machine: expected coupling\.weight of type float32 \(4, 3\)"):
        hm.load(path)
