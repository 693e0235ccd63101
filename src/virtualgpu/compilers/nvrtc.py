"""CUDA C++ to PTX by NVRTC, NVIDIA's run-time compiler.

Works with no driver: only ``libnvrtc`` from the ``nvidia-cuda-nvrtc`` wheel (or a toolkit).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

from virtualgpu.errors import VirtualGPUError


class CompilationError(VirtualGPUError):
    """CUDA C++ that does not compile; ``log`` is the compiler's own text."""

    def __init__(self, message: str, log: str):
        self.log = log
        super().__init__(message)


@lru_cache(maxsize=64)
def compile_to_ptx(source: str, name: str = "kernel.cu", options: tuple[str, ...] = (),
                   names: tuple[str, ...] = (), architecture: str = "sm_90"
                   ) -> tuple[str, dict[str, str]]:
    """Compile CUDA C++.

    Parameters
    ----------
    source : str
        The text.
    name : str
        What to call it in messages and source lines.
    options : tuple of str
        NVRTC's options (``-DN=3``, ``--use_fast_math``, ``-I...``).
    names : tuple of str
        Name expressions (``"add<float>"``) whose mangled names are wanted.
    architecture : str
        Compute capability; ignored where ``options`` give one.

    Returns
    -------
    ptx : str
    mangled : dict
        Each name expression's name in the PTX.

    Raises
    ------
    CompilationError
        With NVRTC's message and the source line that it names.
    """
    from cuda.bindings import nvrtc

    def checked(result):
        status, *values = result
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompilationError(f"NVRTC: {nvrtc.nvrtcGetErrorString(status)[1].decode()}", "")
        return values[0] if values else None

    flags = list(options)
    if not any(f.startswith(("--gpu-architecture", "-arch")) for f in flags):
        flags.append(f"--gpu-architecture={architecture.replace('sm_', 'compute_')}")
    if not any(f in ("-lineinfo", "--generate-line-info", "-G") for f in flags):
        flags.append("--generate-line-info")
    flags += [f"-I{path}" for path in include_paths()]
    program = checked(nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], []))
    try:
        for expression in names:
            checked(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        encoded = [f.encode() for f in flags]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = b" " * checked(nvrtc.nvrtcGetProgramLogSize(program))
            checked(nvrtc.nvrtcGetProgramLog(program, log))
            text = log.rstrip(b"\0 ").decode("utf-8", "replace")
            raise CompilationError(_explain(text, source, name), text)
        ptx = b" " * checked(nvrtc.nvrtcGetPTXSize(program))
        checked(nvrtc.nvrtcGetPTX(program, ptx))
        mangled = {
            expression: checked(nvrtc.nvrtcGetLoweredName(program, expression.encode())).decode()
            for expression in names
        }
        return ptx.rstrip(b"\0 ").decode(), mangled
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _explain(log: str, source: str, name: str) -> str:
    """NVRTC's first error with the line of source that it points at."""
    match = re.search(rf"{re.escape(name)}\((\d+)\): error[^:]*: (.*)", log)
    if not match:
        return f"the CUDA C++ does not compile:\n{log}"
    number = int(match[1])
    lines = source.splitlines()
    code = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return f"the CUDA C++ does not compile: line {number}: {match[2]}\n    {code}\n\n{log}"


@cache
def include_paths() -> tuple[str, ...]:
    """Folders with the CUDA headers that the installed wheels bring (``cuda_fp16.h`` ...)."""
    from cuda import pathfinder

    found = []
    for library in ("cudart", "cccl", "nvrtc", "curand", "nvcc"):
        try:
            located = pathfinder.locate_nvidia_header_directory(library)
        except (ValueError, KeyError, RuntimeError):
            continue
        if located is not None and Path(located.abs_path).is_dir():
            found.append(str(located.abs_path))
    return tuple(dict.fromkeys(found))
