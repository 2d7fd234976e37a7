"""Text files of ``adabmDCA``: fields and couplings of a Potts model."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from ..data import alphabets
from ..errors import InvalidData
from ..interactions import PottsModel

_LARGEST = 2**27  # couplings, 1 GB in float64


def read_adabmdca(path: str | os.PathLike[str], alphabet: str = "protein") -> PottsModel:
    """Read the lines ``J i j a b value`` and ``h i a value`` of a file of adabmDCA.

    Sites are counted from 0, and a and b are letters. Couplings that are missing are zero; every site must have the
    fields of all letters.

    Args:
        path: the file.
        alphabet: protein, rna, dna, or the letters in the order of their states.
    """
    path, letters = Path(path), alphabets.find(alphabet).letters
    code = {letter: k for k, letter in enumerate(letters)}
    fields: dict[tuple[int, int], float] = {}
    couplings: dict[tuple[int, int, int, int], float] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                words = line.split()
                if not words or words[0].startswith("#"):
                    continue
                try:
                    if words[0] == "h" and len(words) == 4:
                        fields[int(words[1]), code[words[2]]] = float(words[3])
                        continue
                    if words[0] == "J" and len(words) == 6:
                        i, j, a, b = int(words[1]), int(words[2]), code[words[3]], code[words[4]]
                        couplings[(i, j, a, b) if i < j else (j, i, b, a)] = float(words[5])
                        continue
                except (KeyError, ValueError):
                    pass
                raise InvalidData(
                    f"{path}, line {number}: expected 'J i j a b value' or 'h i a value' with the letters {letters}, "
                    f"found {line.strip()[:60]!r}"
                )
    except OSError as error:
        raise InvalidData(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InvalidData(f"{path}: expected a text file of adabmDCA, found another file") from None
    return _model(path, len(letters), fields, couplings)


def _model(
    path: Path, q: int, fields: dict[tuple[int, int], float], couplings: dict[tuple[int, int, int, int], float]
) -> PottsModel:
    sites = 1 + max((i for i, _ in fields), default=-1)
    if sites < 1 or len(fields) != sites * q or min(i for i, _ in fields) < 0:
        raise InvalidData(f"{path}: expected {q} fields for each of {max(sites, 1)} sites, found {len(fields)} fields")
    if (sites * q) ** 2 > _LARGEST:
        raise InvalidData(
            f"{path}: expected at most {_LARGEST} couplings, found {(sites * q) ** 2} for {sites} sites of {q} states"
        )
    h = torch.zeros(sites, q, dtype=torch.float64)
    h[tuple(torch.tensor(list(fields)).T)] = torch.tensor(list(fields.values()), dtype=torch.float64)
    J = torch.zeros(sites, q, sites, q, dtype=torch.float64)
    if couplings:
        i, j, a, b = torch.tensor(list(couplings)).T
        if int(i.min()) < 0 or int(j.max()) >= sites or bool((i == j).any()):
            raise InvalidData(f"{path}: expected couplings of different sites from 0 to {sites - 1}")
        values = torch.tensor(list(couplings.values()), dtype=torch.float64)
        J[i, a, j, b] = values
        J[j, b, i, a] = values
    return PottsModel(h, J)
