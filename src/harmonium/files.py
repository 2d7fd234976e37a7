"""Save and load machines as safetensors files. All writes are atomic, and nothing is ever unpickled.

A file has one metadata entry, ``harmonium``: a JSON object with the ``version`` of the format and the ``config`` of the
machine. Tensors named ``machine/…`` are its ``state_dict``. Readers ignore unknown tensors and entries, so that the
format can be extended. The version increases only if older readers would misread a new file; readers reject versions
above their own. Equal machines give identical files.
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
from .errors import CheckpointError, HarmoniumError, InvalidOption, unknown
from .machines import RBM, BoltzmannMachine, ConditionalRBM, DeepBeliefNetwork, DeepBoltzmannMachine, Machine
from .units import Unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT_VERSION = 1
_METADATA = "harmonium"
_MACHINE = "machine/"
_PICKLES = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_KINDS = {"BoltzmannMachine": BoltzmannMachine, "DeepBoltzmannMachine": DeepBoltzmannMachine}


def save(machine: Machine, path: str | os.PathLike[str]) -> None:
    """Write a machine to ``path`` atomically: if writing fails, an existing file is unchanged.

    >>> import tempfile, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hm.save(rbm, folder + "/rbm.safetensors")
    ...     hm.load(folder + "/rbm.safetensors").visible
    Bernoulli((4,))
    """
    write_tensors(path, {}, {}, machine)


def load(path: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> Machine:
    """Load a machine from a file of :func:`save`, a training checkpoint, or the last checkpoint of a run folder."""
    path = Path(path)
    if path.is_dir():
        path = path / "checkpoints" / "last.safetensors"
    tensors, metadata = read_tensors(path)
    return machine_from(path, tensors, metadata).to(device)


def machine_from(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Machine:
    """Build the machine stored in a file."""
    try:
        machine = build(json.loads(metadata["config"]))
    except HarmoniumError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: the machine's description is damaged ({error})") from error
    load_parameters(machine, path, tensors)
    return machine


def load_parameters(machine: Machine, path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Load the parameters of a file into a machine of the same type and shape."""
    state = {name.removeprefix(_MACHINE): t for name, t in tensors.items() if name.startswith(_MACHINE)}
    current = machine.state_dict()
    # older files have no bound on learned precisions; keep that of the machine
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
        ends = {name: config[name] for name in ("to_visible", "to_hidden")}
        of_context = {name: end is not None and Coupling.from_config(end) for name, end in ends.items()}
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
    """Write a machine with additional tensors and metadata, atomically."""
    state = {_MACHINE + name: value for name, value in machine.state_dict().items()}
    everything = {name: t.detach().cpu().contiguous() for name, t in {**state, **tensors}.items()}
    header = {"version": str(FORMAT_VERSION), "config": json.dumps(machine.config(), default=_refuse), **metadata}
    # one entry, because safetensors writes several in arbitrary order, and equal machines should give identical files
    with atomic(path) as temporary:
        temporary.write_bytes(to_safetensors(everything, {_METADATA: json.dumps(header)}))


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and metadata of a harmonium file; raises :class:`CheckpointError` for any other file."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(9)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; expected a machine saved by harmonium") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from None
    # a safetensors file starts with the length of its header, which may look like a pickle, followed by "{"
    if head.startswith(_PICKLES) and head[8:] != b"{":
        raise CheckpointError(f"{path}: expected a safetensors file, found a pickle or torch archive that can run code")
    try:
        with safe_open(path, framework="pt") as file:
            entries = file.metadata() or {}
            if _METADATA not in entries:
                raise CheckpointError(f"{path}: expected a harmonium file, found another safetensors file")
            metadata: dict[str, str] = json.loads(entries[_METADATA])
            if int(metadata.get("version", "0")) > FORMAT_VERSION:
                raise CheckpointError(
                    f"{path}: expected format {FORMAT_VERSION} or older, found {metadata['version']}; update harmonium"
                )
            # cloned into memory aligned by torch: matrix products round differently on unaligned memory, and runs must
            # resume bit-for-bit
            return {name: file.get_tensor(name).clone() for name in file.keys()}, metadata  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path}: corrupt or truncated safetensors file ({error})") from None


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` if the block succeeds and is deleted otherwise."""
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
        raise HarmoniumError(f"{path}: cannot be written ({reason}); any previous file is unchanged") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_figure(path: str | os.PathLike[str], figure: Figure) -> None:
    """Write a figure as PNG, atomically."""
    with atomic(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some systems cannot open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
