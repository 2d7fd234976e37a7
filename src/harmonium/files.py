"""Files: machines in safetensors, every write atomic, nothing ever unpickled.

A file is a safetensors file with one entry of metadata, ``harmonium``, which holds as JSON the ``version`` of the
format and the machine's ``config``; tensors named ``machine/…`` are its ``state_dict``. A reader ignores tensors and
entries that it does not know, so that files may grow; the version goes up only when an old reader would misread a new
file, and a reader refuses versions above its own. Equal machines make equal files.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

from .couplings import Coupling
from .errors import CheckpointError, HarmoniumError, unknown
from .machines import RBM, BoltzmannMachine, DeepBoltzmannMachine
from .units import Unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT_VERSION = 1
_METADATA = "harmonium"
_MACHINE = "machine/"
_PICKLES = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_KINDS = {"BoltzmannMachine": BoltzmannMachine, "DeepBoltzmannMachine": DeepBoltzmannMachine}


def save(machine: BoltzmannMachine, path: str | os.PathLike[str]) -> None:
    """Write a machine to ``path``; either the whole file is there afterwards or the old one is.

    >>> import tempfile, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hm.save(rbm, folder + "/rbm.safetensors")
    ...     hm.load(folder + "/rbm.safetensors").visible
    Bernoulli((4,))
    """
    write_tensors(path, {}, {}, machine)


def load(path: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> BoltzmannMachine:
    """Read a machine back from a file of :func:`save`, a training checkpoint, or a run folder's last checkpoint."""
    path = Path(path)
    if path.is_dir():
        path = path / "checkpoints" / "last.safetensors"
    tensors, metadata = read_tensors(path)
    return machine_from(path, tensors, metadata).to(device)


def machine_from(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> BoltzmannMachine:
    """Build the machine that a file describes."""
    try:
        machine = build(json.loads(metadata["config"]))
    except HarmoniumError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: the machine's description is damaged ({error})") from error
    load_parameters(machine, path, tensors)
    return machine


def load_parameters(machine: BoltzmannMachine, path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Put the parameters of a file into a machine of the same kind and shape."""
    state = {name.removeprefix(_MACHINE): t for name, t in tensors.items() if name.startswith(_MACHINE)}
    current = machine.state_dict()
    # files from before learned precisions had a bound do not have it: what the machine has is kept
    state |= {name: t for name, t in current.items() if name.endswith(".log_max_precision") and name not in state}
    expected = {name: tuple(t.shape) for name, t in current.items()}
    found = {name: tuple(t.shape) for name, t in state.items()}
    if expected != found:
        name = next(name for name in {**expected, **found} if expected.get(name) != found.get(name))
        raise CheckpointError(
            f"{path}: a checkpoint of another machine: expected {name} of shape {expected.get(name, 'none')}, "
            f"found {found.get(name, 'none')}"
        )
    kinds = {t.dtype for name, t in state.items() if t.is_floating_point()}
    if len(kinds) == 1:
        machine.to(dtype=kinds.pop())
    machine.load_state_dict(state)


def build(config: Mapping[str, Any]) -> BoltzmannMachine:
    """The machine of a :meth:`BoltzmannMachine.config`, with default parameters."""
    layers = [Unit.from_config(layer) for layer in config["layers"]]
    couplings = [Coupling.from_config(coupling) for coupling in config["couplings"]]
    if config["machine"] == "RBM":
        return RBM(layers[0], layers[1], couplings[0])
    if config["machine"] not in _KINDS:
        raise unknown("machine", config["machine"], [*_KINDS, "RBM"])
    return _KINDS[config["machine"]](layers, couplings)


def write_tensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str],
    machine: BoltzmannMachine,
) -> None:
    """Write a machine with further tensors and metadata beside it, atomically."""
    state = {_MACHINE + name: value for name, value in machine.state_dict().items()}
    everything = {name: t.detach().cpu().contiguous() for name, t in {**state, **tensors}.items()}
    header = {"version": str(FORMAT_VERSION), "config": json.dumps(machine.config()), **metadata}
    # one entry, because safetensors writes several in no particular order, and equal machines should make equal files
    with atomic(path) as temporary:
        temporary.write_bytes(to_safetensors(everything, {_METADATA: json.dumps(header)}))


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors and the metadata of a harmonium file; a clear refusal of anything else."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(9)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; expected a machine saved by harmonium") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from None
    # a safetensors file begins with the length of its header, whose two bytes may be those of a pickle, and then "{"
    if head.startswith(_PICKLES) and head[8:] != b"{":
        raise CheckpointError(f"{path}: refused: a pickle or torch archive can run code; expected a safetensors file")
    try:
        with safe_open(path, framework="pt") as file:
            entries = file.metadata() or {}
            if _METADATA not in entries:
                raise CheckpointError(f"{path}: a safetensors file, but not one of harmonium")
            metadata: dict[str, str] = json.loads(entries[_METADATA])
            if int(metadata.get("version", "0")) > FORMAT_VERSION:
                raise CheckpointError(
                    f"{path}: format {metadata['version']} of a newer harmonium; this one reads up to {FORMAT_VERSION}"
                )
            # cloned to memory that torch has aligned: products round differently on other memory, and a resumed run
            # has to go on to the bit
            return {name: file.get_tensor(name).clone() for name in file.keys()}, metadata  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path}: corrupt or truncated, not a whole safetensors file ({error})") from None


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well, and vanishes otherwise."""
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise HarmoniumError(f"{path}: cannot be written ({reason}); what was there before is untouched") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_figure(path: str | os.PathLike[str], figure: Figure) -> None:
    """Write a picture as PNG, atomically."""
    with atomic(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
