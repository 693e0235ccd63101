"""Where the sandbox's Python finds its packages, where it would not by itself.

It is an isolated Python (``-I``): no ``PYTHONPATH``, no working directory, no user's packages. From
a checkout that is not installed (``PYTHONPATH=src``), or with packages in a folder of their own, it
is told the folders that matter, and no others.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

# A folder of `sys.path` is passed on if it holds one of these.
PACKAGES = ("gpucourse", "virtualgpu", "numpy", "numba", "numba_cuda", "llvmlite", "cuda",
            "awkward", "awkward_cpp", "jax", "jaxlib", "vector", "hist", "matplotlib")
_OURS = {"gpucourse", "virtualgpu"}


@cache
def extra_folders() -> tuple[str, ...]:
    """Folders of this process's ``sys.path`` that an isolated Python lacks, in their order."""
    asked = subprocess.run([sys.executable, "-I", "-c", "import sys; print(*sys.path, sep='\\n')"],
                           capture_output=True, text=True, check=True)
    isolated = set(asked.stdout.split("\n"))
    found = (str(Path(entry).resolve()) for entry in sys.path
             if entry and entry not in isolated and Path(entry).is_dir())
    return tuple(dict.fromkeys(folder for folder in found if _packages_in(folder)))


def foreign_folders() -> list[str]:
    """Those that a worker must be able to read whole: they hold not only our packages."""
    return [folder for folder in extra_folders() if _packages_in(folder) - _OURS]


def python(module: str) -> list[str]:
    """The start of a command line that runs ``module`` in an isolated Python."""
    command = [sys.executable, "-I"]
    if not extra_folders():
        return [*command, "-m", module]
    return [*command, "-c",
            f"import runpy, sys; sys.path[:0] = {list(extra_folders())!r}; "
            f"runpy.run_module({module!r}, run_name='__main__')"]


def _packages_in(folder: str) -> set[str]:
    return {name for name in PACKAGES if (Path(folder) / name).is_dir()}
