"""Save and load machines as safetensors files. All writes are atomic, and nothing is ever unpickled.

A file has one metadata entry, ``harmonium``: a JSON object with the ``version`` of the format and the ``config`` of the
machine. The tensors are its ``state_dict``, so that ``load_file`` of safetensors gives what ``load_state_dict`` takes;
others have names with a slash. Readers ignore those and unknown entries, so that the format can be extended, and
reject other versions. Equal machines give identical files.

``tensors`` has a SHA-256 of each tensor with its name, type and shape, and ``sha256``, the last entry, that of the rest
of the metadata, so that any damage is detected. A file
is checked before anything is built from it: what its description declares must be in the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

from .couplings import Coupling
from .errors import CheckpointError, HarmoniumError, InvalidOption, clipped, unknown
from .guard import guard
from .machines import RBM, BoltzmannMachine, ConditionalRBM, DeepBeliefNetwork, DeepBoltzmannMachine, Machine
from .paths import check_file, expand
from .units import Unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["load", "save"]

#: version of the files
FORMAT_VERSION = 1
#: extensions of the formats of figures
FIGURES = (".png", ".pdf", ".svg")
_METADATA = "harmonium"
_TENSORS, _SUM = "tensors", "sha256"
#: what code that reads a damaged description raises
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)
#: types of the real numbers of a machine
_REAL = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_KINDS = {"BoltzmannMachine": BoltzmannMachine, "DeepBoltzmannMachine": DeepBoltzmannMachine}


def save(machine: Machine, path: str | os.PathLike[str]) -> None:
    """Write a machine to ``path`` atomically: if writing fails, an existing file is unchanged. Makes missing folders.

    >>> import tempfile, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hm.save(rbm, folder + "/rbm.safetensors")
    ...     hm.load(folder + "/rbm.safetensors").visible
    Bernoulli((4,))
    """
    with contextlib.suppress(OSError):  # reported by the writing
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, {}, {}, machine)


def load(path: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> Machine:
    """Load a machine from a file of :func:`save`, a training checkpoint, or the last checkpoint of a run folder."""
    path = expand(path)
    path = path / "checkpoints" / "last.safetensors" if os.path.isdir(path) else path
    tensors, metadata = read_tensors(path)
    return machine_from(path, tensors, metadata).to(device)


def machine_from(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Machine:
    """Build the machine stored in a file."""
    try:
        machine = build(json.loads(metadata["config"]))
    except HarmoniumError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except _DAMAGE as error:
        raise CheckpointError(f"{path}: the machine's description is damaged ({clipped(error)})") from error
    load_parameters(machine, path, tensors)
    return machine


def load_parameters(machine: Machine, path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Load the parameters of a file into a machine of the same type and shape."""
    machine_state = parameters_for(machine, path, tensors)
    machine.to(dtype=next(t.dtype for t in machine_state.values() if t.is_floating_point()))
    machine.load_state_dict(machine_state)


def parameters_for(machine: Machine, path: Path, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the ``state_dict`` of a file; raise if it does not fit the machine or has values that are not finite.

    The real numbers of a file have one type, which may differ from that of the machine.
    """
    state = {name: t for name, t in tensors.items() if "/" not in name}
    real = next((t.dtype for t in state.values() if t.dtype in _REAL), machine.dtype)
    current = {name: t.to(real) if t.is_floating_point() else t for name, t in machine.state_dict().items()}
    expected = {name: tensor_type(t) for name, t in current.items()}
    found = {name: tensor_type(t) for name, t in state.items()}
    if expected != found:
        name = next(name for name in {**expected, **found} if expected.get(name) != found.get(name))
        raise CheckpointError(
            f"{path}: a checkpoint of another machine: expected {name} of type {expected.get(name, 'none')}, "
            f"found {found.get(name, 'none')}"
        )
    learned = dict(machine.named_parameters())  # a bound in a buffer may be infinite
    for name, t in state.items():
        if bool((t.isnan() if name not in learned else ~t.isfinite()).any()):
            raise CheckpointError(f"{path}: expected finite values of {name}, found NaN or infinite values")
    return state


def tensor_type(tensor: Tensor, shape: Sequence[int] | None = None) -> str:
    """Return the type and shape of a tensor, or another shape, to compare them and for messages.

    >>> tensor_type(torch.zeros(2, 3)), tensor_type(torch.zeros(2).long(), shape=(4,))
    ('float32 (2, 3)', 'int64 (4,)')
    """
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape if shape is None else shape)}"


def build(config: Mapping[str, Any]) -> Machine:
    """Build a machine from its :meth:`BoltzmannMachine.config`, with default parameters."""
    if config["machine"] == "DeepBeliefNetwork":
        machines: list[Any] = [build(machine) for machine in config["machines"]]
        return DeepBeliefNetwork(machines, inputs=config["inputs"])
    layers = [Unit.from_config(layer) for layer in config["layers"]]
    couplings = [Coupling.from_config(coupling) for coupling in config["couplings"]]
    if config["machine"] == "RBM":
        return RBM(layers[0], layers[1], couplings[0])
    if config["machine"] == "ConditionalRBM":
        ends = ("to_visible", "to_hidden")
        of_context = {name: name in config and Coupling.from_config(config[name]) for name in ends}
        return ConditionalRBM(layers[0], layers[1], tuple(config["context"]), couplings[0], **of_context)
    if config["machine"] not in _KINDS:
        raise unknown("machine", config["machine"], [*_KINDS, "RBM", "ConditionalRBM", "DeepBeliefNetwork"])
    return _KINDS[config["machine"]](layers, couplings)


def _refuse(value: object) -> None:
    raise InvalidOption(
        f"save: expected options of units that are numbers or strings, found {value!r}; "
        "multinary units with a Python function as activation can be saved in form='offsets'"
    )


def write_tensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str],
    machine: Machine,
) -> None:
    """Write a machine with additional tensors, whose names have a slash, and metadata, atomically."""
    everything = {name: t.detach().cpu().contiguous() for name, t in {**machine.state_dict(), **tensors}.items()}
    header = {"version": str(FORMAT_VERSION), "config": json.dumps(machine.config(), default=_refuse), **metadata}
    # one entry, because safetensors writes several in arbitrary order, and equal machines should give identical files
    entry = _signed(json.dumps({**header, _TENSORS: {name: digest(name, t) for name, t in everything.items()}}))
    with atomic(path) as temporary:
        temporary.write_bytes(to_safetensors(everything, {_METADATA: entry}))


def digest(name: str, tensor: Tensor) -> str:
    """Return the SHA-256 of a tensor on the CPU with its name, type and shape.

    >>> digest("x", torch.zeros(2)) == digest("x", torch.zeros(2)), digest("x", torch.zeros(2))[:8]
    (True, '...')
    """
    found = hashlib.sha256(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
    found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _signed(entry: str) -> str:
    """Append the SHA-256 of a JSON object to it, as its last entry."""
    return f'{entry[:-1]}, "{_SUM}": "{hashlib.sha256(entry.encode()).hexdigest()}"}}'


def _check(path: Path, entry: str, tensors: Mapping[str, Tensor], metadata: dict[str, Any]) -> None:
    """Raise unless the metadata and all tensors have their checksums."""
    sums = metadata.pop(_TENSORS, None)
    end = len(f', "{_SUM}": ""}}') + 64
    if _signed(f"{entry[:-end]}}}") != entry or not isinstance(sums, dict):
        raise CheckpointError(f"{path}: damaged; the checksum of its description is wrong")
    del metadata[_SUM]
    for name in {**sums, **tensors}:
        if name not in sums or name not in tensors or digest(name, tensors[name]) != sums[name]:
            raise CheckpointError(f"{path}: damaged; the checksum of {name} is wrong")


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and metadata of a harmonium file; raises :class:`CheckpointError` for any other file."""
    path = Path(path)
    check_file(path, CheckpointError)
    try:
        with safe_open(path, framework="pt") as file:
            entries = file.metadata() or {}
            if _METADATA not in entries:
                raise CheckpointError(f"{path}: expected a harmonium file, found another safetensors file")
            metadata = _parsed(path, entries[_METADATA])
            # cloned into memory aligned by torch: matrix products round differently on unaligned memory, and runs must
            # resume bit-for-bit
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, *_DAMAGE) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"{path}: expected a safetensors file, found a damaged or another file ({clipped(error)})"
        ) from None
    _check(path, entries[_METADATA], tensors, metadata)
    return tensors, metadata


def _parsed(path: Path, entry: str) -> dict[str, Any]:
    """Parse the metadata: text by name, and the checksums of the tensors."""
    metadata = json.loads(entry)
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for k, v in metadata.items() if k != _TENSORS):
        raise CheckpointError(f"{path}: damaged; expected a description of named texts")
    version = metadata.get("version")
    if version != str(FORMAT_VERSION):
        raise CheckpointError(f"{path}: expected a file of format {FORMAT_VERSION}, found {clipped(repr(version))}")
    return metadata


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` if the block succeeds and is deleted otherwise."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise HarmoniumError(f"{path}: cannot be written ({reason}); any previous file is unchanged") from error
    finally:
        with contextlib.suppress(OSError):  # the error of the writing says more
            temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_figure(path: str | os.PathLike[str], figure: Figure) -> None:
    """Write a figure in the format of the file's extension (one of ``FIGURES``; else PNG), atomically."""
    suffix = Path(path).suffix.lower()
    with atomic(path) as temporary:
        figure.savefig(temporary, format=suffix[1:] if suffix in FIGURES else "png", dpi=150)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some systems cannot open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


guard(globals())
