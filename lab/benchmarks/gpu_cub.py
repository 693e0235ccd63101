"""NVIDIA's CUB, compiled by nvcc while other groups run.

CuPy can use CUB's sum, but of its histograms only the version that searches a list of edges. A C++
programmer would use the version for even bins.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from lab.benchmarks.gpu_twins import CUB
from lab.benchmarks.gpu_work import needs_gpu

_compiling: dict[str, object] = {}


def nvcc() -> str | None:
    """Return the path of nvcc, or None."""
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    places = [Path(home) / "bin" / "nvcc" for home in homes if home]
    found = shutil.which("nvcc") or next((str(p) for p in places if p.is_file()), None)
    return found


def start(capability: tuple[int, int]) -> None:
    """Start compiling for a GPU of this compute capability, and return at once."""
    compiler = nvcc()
    if compiler is None or _compiling:
        return
    folder = tempfile.TemporaryDirectory(prefix="gpu_bench_")
    source = Path(folder.name, "cub.cu")
    source.write_text(CUB)
    command = [
        compiler,
        "-O3",
        "-std=c++17",
        "-arch=sm_{}{}".format(*capability),
        "-shared",
        "-Xcompiler",
        "-fPIC",
        "-o",
        str(source.with_suffix(".so")),
        str(source),
    ]
    with contextlib.suppress(OSError):  # library() then reports that there is no compiler
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        _compiling.update(folder=folder, process=process, path=source.with_suffix(".so"))


def library() -> ctypes.CDLL:
    """Load the compiled functions, waiting at most a minute for the compiler."""
    needs_gpu("CUB compiled by nvcc")
    if not _compiling:
        raise RuntimeError("there is no nvcc here, so CUB's own functions are left out")
    if "said" not in _compiling:
        _compiling["said"], _ = _compiling["process"].communicate(timeout=60)
    if _compiling["process"].returncode:
        raise RuntimeError(f"nvcc failed: {_compiling['said'].strip()[-300:]}")
    return ctypes.CDLL(str(_compiling["path"]))


def with_scratch(function, *arguments):
    """Return a function to time that calls one of :data:`lab.benchmarks.gpu_twins.CUB`.

    As CUB requires, the function is called first without scratch memory, to get the size that it
    needs, and then with scratch memory. ``arguments`` are ctypes values. The returned function
    raises RuntimeError for a CUDA error.
    """
    import cupy as cp

    size = ctypes.c_size_t(0)

    def ask(scratch):
        if status := function(scratch, ctypes.byref(size), *arguments):
            raise RuntimeError(f"CUB reports CUDA error {status}")

    ask(None)
    scratch = cp.empty(max(1, size.value), cp.uint8)
    return lambda: ask(ctypes.c_void_p(scratch.data.ptr))
