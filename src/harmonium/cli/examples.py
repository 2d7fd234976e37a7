"""An example of every command, shown at the end of its help."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("harmonium demo --run runs/first",),
    "train": (
        "harmonium train digits --hidden 64 --epochs 20 --run runs/digits",
        "harmonium train mine.csv --validation 0.1 --hidden 20",
    ),
    "resume": (
        "harmonium resume runs/digits --epochs 40",
        "harmonium resume runs/python --data rows.npy",
    ),
    "sample": (
        "harmonium sample runs/digits -n 40 --out digits.png",
        "harmonium sample runs/digits --tempering",
    ),
    "evaluate": (
        "harmonium evaluate runs/digits --samples 1000",
        "harmonium evaluate runs/digits --json",
    ),
    "compare": ("harmonium compare runs/cd runs/pcd --out compare.html",),
    "select": ("harmonium select digits --hidden 8,16,32 --l2 0,0.001 --folds 5",),
    "impute": ("harmonium impute runs/table holes.csv --out full.csv",),
    "classify": ("harmonium classify runs/labeled",),
    "denoise": ("harmonium denoise runs/digits --levels 0.05,0.1,0.2",),
    "spectrum": ("harmonium spectrum runs/digits",),
    "landscape": ("harmonium landscape runs/digits -n 200",),
    "interactions": ("harmonium interactions runs/digits --order 2 -n 10",),
    "contacts": ("harmonium contacts runs/protein --map contacts.txt",),
    "mutants": ("harmonium mutants runs/protein --sequence NAME",),
    "logos": ("harmonium logos runs/protein -n 6",),
    "recommend": ("harmonium recommend runs/ratings --user 42 -n 5",),
    "forecast": ("harmonium forecast runs/swings --frames 100 -n 3",),
    "topics": ("harmonium topics runs/documents -n 10",),
    "info": ("harmonium info runs/digits",),
    "convert": ("harmonium convert runs/digits digits.h5",),
    "report": (
        "harmonium report runs/digits",
        "harmonium report runs/python --data digits",
        "harmonium report runs/python --data rows.npy --image 28x28",
    ),
    "reproduce": ("harmonium reproduce mnist/500 --scale quick",),
    "data list": ("harmonium data list",),
    "data info": ("harmonium data info mnist",),
}


def epilog(name: str) -> str:
    """Return the end of the help of a command.

    >>> print(epilog("spectrum").replace(chr(8), ""))
    <BLANKLINE>
    Example:
      harmonium spectrum runs/digits
    """
    lines = EXAMPLES.get(name, ())
    title = "Example" if len(lines) == 1 else "Examples"
    return "\b\n" + "\n".join([f"{title}:", *(f"  {line}" for line in lines)]) if lines else ""
