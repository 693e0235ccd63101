"""numba-cuda's test suite with the imports of its successor, numba-cuda-mlir.

The successor's wheel has no tests. Its repository has numba-cuda's tests with other imports, so
the runner changes the imports of the tests that come with numba-cuda.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

PLACES = {
    "types": "numba_cuda_mlir.numba_cuda",
    "errors": "numba_cuda_mlir.numba_cuda.core",
    "typeof": "numba_cuda_mlir.numba_cuda.typing.typeof",
    "cuda": "numba_cuda_mlir",
    "vectorize": "numba_cuda_mlir.cuda",
    "guvectorize": "numba_cuda_mlir.cuda",
}


def changed(text: str) -> str:
    """Return the text of a test module with the successor's imports."""

    def imports(found: re.Match) -> str:
        names = found[2].split(", ")
        return "\n".join(
            f"{found[1]}from {PLACES.get(name.split()[0], 'numba')} import {name}" for name in names
        )

    text = re.sub(r"^([ \t]*)from numba import ([^(\n]*)$", imports, text, flags=re.M)
    text = text.replace("from numba.cuda import", "from numba_cuda_mlir.cuda import")
    text = text.replace("numba.cuda.tests.cudapy", "cudapy")
    # Four seconds for all imports of a spawned Python are too few on busy cores.
    text = text.replace("FUTURE_TIMEOUT = 4\n", "FUTURE_TIMEOUT = 60\n")
    return re.sub(r"\bnumba\.cuda\b", "numba_cuda_mlir.numba_cuda", text)


def with_its_imports(tests: Path, folder: Path) -> Path:
    """Copy the suite and its data into a folder, change the imports, and return the folder."""
    for part in (tests, tests.with_name("data")):
        shutil.copytree(part, folder / part.name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder / "cudapy").rglob("*.py"):
        path.write_text(changed(path.read_text()))
    (folder / "cudapy" / "__init__.py").write_text("")
    return folder
