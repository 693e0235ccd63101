"""Compilation of CUDA C++ to PTX with NVRTC, NVIDIA's run-time compiler.

It needs no driver, only ``libnvrtc`` from the ``nvidia-cuda-nvrtc`` wheel (or a toolkit).

Each source string gets its own path in the line table of the PTX, and its lines are registered
with Python's :mod:`linecache`, so that every later message can quote a line of a string in a
notebook.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from virtualgpu import logs
from virtualgpu.compilers.headers import include_paths
from virtualgpu.compilers.messages import explain, of_the_source
from virtualgpu.errors import VirtualGPUError


class CompilationError(VirtualGPUError):
    """CUDA C++ that does not compile; ``log`` is the compiler's own text."""

    def __init__(self, message: str, log: str):
        self.log = log
        super().__init__(message)


class Compiled(NamedTuple):
    """Result of an NVRTC compilation.

    ``mangled`` maps each name expression to its name in the PTX. ``log`` contains the compiler's
    warnings about the source.
    """

    ptx: str
    mangled: dict[str, str]
    log: str


def compile_to_ptx(
    source: str,
    name: str = "kernel.cu",
    options: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
    architecture: str = "sm_90",
) -> tuple[str, dict[str, str]]:
    """Return the PTX and the mangled names of :func:`compile_cuda`."""
    compiled = compile_cuda(source, name, options, names, architecture)
    return compiled.ptx, dict(compiled.mangled)


@lru_cache(maxsize=256)
def compile_cuda(
    source: str,
    name: str = "kernel.cu",
    options: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
    architecture: str = "sm_90",
    headers: tuple[tuple[str, str], ...] = (),
) -> Compiled:
    """Compile CUDA C++. The same source with the same options is compiled once.

    Parameters
    ----------
    source : str
        CUDA C++ source code.
    name : str
        Name of the source in messages and source lines.
    options : tuple of str
        NVRTC's options (``-DN=3``, ``--use_fast_math``, ``-I...``; NVRTC's documentation,
        "Supported Compile Options"). ``--generate-line-info`` is always on.
    names : tuple of str
        Name expressions whose mangled names are returned: instances of templates
        (``"add<float>"``), names in namespaces, addresses of variables (``"&weights"``).
    architecture : str
        Compute capability; ignored if ``options`` contain one. A real architecture (``sm_90``)
        is replaced by the virtual one (``compute_90``), so that the result is PTX.
    headers : tuple of pairs (name, text)
        Headers given as strings.

    Raises
    ------
    CompilationError
        With NVRTC's message, the source line that it names and a caret under the column.
    """
    from cuda.bindings import nvrtc

    flags = _flags(options, architecture)

    def checked(result):
        status, *values = result
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            words = nvrtc.nvrtcGetErrorString(status)[1].decode()
            raise CompilationError(f"{name}: {words}", words)
        return values[0] if values else None

    def text(size, get):
        # Not `b" " * n`, as in NVIDIA's examples. An empty log has n = 1, Python shares one b" "
        # object in the whole process, and NVRTC would overwrite it with b"\0".
        raw = bytearray(checked(size(program)))
        checked(get(program, raw))
        return raw.rstrip(b"\0 ").decode("utf-8", "replace")

    path = source_path(source, name)
    given = [flag.encode() for flag in flags]
    program = checked(
        nvrtc.nvrtcCreateProgram(
            source.encode(),
            path.encode(),
            len(headers),
            [content.encode() for _, content in headers],
            [header.encode() for header, _ in headers],
        )
    )
    try:
        for expression in names:
            checked(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        with logs.timed("CUDA C++ %s compiled by NVRTC", name):
            (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        log = text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
        log = re.sub(r"/cuda-[0-9a-f]{12}/", "", log)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompilationError(explain(log), log)
        ptx = text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        mangled = {
            expression: checked(nvrtc.nvrtcGetLoweredName(program, expression.encode())).decode()
            for expression in names
        }
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Compiled(ptx, mangled, of_the_source(log, include_paths()))


def _flags(options: tuple[str, ...], architecture: str) -> list[str]:
    """Return NVRTC's flags; ``architecture`` is used if the options name none."""
    flags = [str(option) for option in options]
    # nvcc accepts an option as two words, NVRTC only as one.
    for at, flag in enumerate(flags[:-1]):
        if flag in ("-arch", "--gpu-architecture"):
            flags[at : at + 2] = [f"--gpu-architecture={flags[at + 1]}"]
            break
    if not any(flag.startswith(("--gpu-architecture", "-arch")) for flag in flags):
        flags.append(f"--gpu-architecture={architecture}")
    flags = [
        re.sub(r"^(--gpu-architecture|-arch)=sm_", "--gpu-architecture=compute_", flag)
        for flag in flags
    ]
    if not any(
        flag in ("-lineinfo", "--generate-line-info", "-G", "--device-debug") for flag in flags
    ):
        flags.append("--generate-line-info")
    return flags + [f"-I{path}" for path in (os.getcwd(), *include_paths())]


def source_path(source: str, name: str) -> str:
    """Return the path of a source in the line table.

    The path does not exist on disk, unless ``name`` is a real file. The lines are registered with
    :mod:`linecache`.

    A front end that pastes a user's source into generated code writes ``#line 1 "path"`` before
    it.
    """
    if Path(name).is_file():
        return name
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    path = f"/cuda-{digest}/{name.lstrip('/')}"
    # Without a modification time, linecache keeps the entry although there is no file.
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    return path
