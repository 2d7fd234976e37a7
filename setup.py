"""Build the C library of ``harmonium.kernels``, if there is a compiler. Everything else is in pyproject.toml."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

KERNELS = Path("src/harmonium/kernels")
FLAGS = "-O3 -std=c11 -ffp-contract=off -fno-math-errno -fno-trapping-math -fvisibility=hidden -shared -fPIC -pthread"
X86 = platform.machine().lower() in ("x86_64", "amd64")
#: compiler flags by the name of the file
INSTRUCTIONS = {
    "generic": "",
    **({"avx2": "-mavx2", "avx512": "-mavx512f -mavx512dq -mavx512bw -mavx512vl"} if X86 else {}),
}


def compiler() -> list[str] | None:
    """Return the command of the C compiler: ``$CC``, or the first of the usual names."""
    given = os.environ.get("CC")
    if given:
        return shlex.split(given)
    return next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def compile_to(folder: Path) -> bool:
    """Compile the library into ``folder``; return whether all files could be built."""
    command = compiler()
    if command is None or os.name == "nt":
        # Visual C++ has no vectors of gcc and clang, and gcc on Windows does not align vectors of AVX on the stack
        missing = "no C compiler" if command is None else "the library is not built on Windows"
        print(f"harmonium: {missing}, so products with binary states are dense", file=sys.stderr)
        return False
    folder.mkdir(parents=True, exist_ok=True)
    for name, flags in INSTRUCTIONS.items():
        new = (
            folder / f"kernels.{name}.so.{os.getpid()}"
        )  # replaced at once, because a process may have loaded the old one
        call = [*command, *FLAGS.split(), *flags.split(), str(KERNELS / "kernels.c"), "-o", str(new), "-lm"]
        done = subprocess.run(call, capture_output=True, text=True)
        if done.returncode:
            print(f"harmonium: {shlex.join(call)} failed, so products are dense\n{done.stderr}", file=sys.stderr)
            return False
        new.replace(folder / f"kernels.{name}.so")  # the dot keeps pkgutil from taking it for a module
    return True


class Build(build_py):
    """Also build the library: beside its source if the installation is editable, else into the wheel."""

    def run(self) -> None:
        """Build the package."""
        super().run()
        folder = KERNELS if self.editable_mode else Path(self.build_lib) / "harmonium" / "kernels"
        for old in folder.glob("*.so"):
            old.unlink()
        self.distribution.kernels = compile_to(folder)


class Wheel(bdist_wheel):
    """A wheel for one platform and every Python 3 if it has the library, else for all platforms."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of Python, of its binary interface and of the platform."""
        if not getattr(self.distribution, "kernels", False):  # also an editable wheel, which has no files
            return super().get_tag()
        self.root_is_pure = False
        return "py3", "none", re.sub(r"[^0-9A-Za-z]", "_", self.plat_name or sysconfig.get_platform())


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel})
