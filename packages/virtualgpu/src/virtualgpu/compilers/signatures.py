"""C++ types of a kernel's parameters, determined by the compiler.

PTX only contains a parameter's size, so pointers to float and to double look the same. Therefore
the source is compiled a second time with a few lines appended. Templates in these lines write each
parameter's kind and size into a constant, whose initial value is read from the PTX.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from virtualgpu.compilers.nvrtc import CompilationError, compile_cuda
from virtualgpu.ptx import Variable, parse
from virtualgpu.wording import many

_TABLE = "virtualgpu_signature_table"
_PROBE = Path(__file__).with_suffix(".cuh").read_text(encoding="utf-8")


class ParameterType(NamedTuple):
    """C++ type of a kernel parameter.

    ``kind`` is NumPy's letter for the type or, for a pointer, for the type that it points to: b,
    i, u, f, or ? for anything other than a C++ number (a struct, ``void``, ``__half``). ``size``
    is its size in bytes (0 for ``void``).
    """

    pointer: bool
    kind: str
    size: int

    def __str__(self) -> str:
        names = {
            "b1": "bool",
            "i1": "char",
            "u1": "unsigned char",
            "i2": "short",
            "u2": "unsigned short",
            "i4": "int",
            "u4": "unsigned int",
            "i8": "long long",
            "u8": "unsigned long long",
            "f4": "float",
            "f8": "double",
            "?0": "void",
        }
        name = names.get(f"{self.kind}{self.size}", f"struct of {many(self.size, 'byte')}")
        return f"{name} *" if self.pointer else name

    def takes_array_of(self, dtype: np.dtype) -> bool:
        """Return True if a pointer of this type can read an array of ``dtype``.

        Bytes and structures match any type, signed and unsigned integers of one size match each
        other, and a complex number matches a pair of floats.
        """
        dtype = dtype.base
        if self.kind == "?" or self.size <= 1 or dtype.kind not in "biufc":
            return True
        size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
        alike = {"u": "i", "c": "f"}
        return size == self.size and (
            alike.get(dtype.kind, dtype.kind) == alike.get(self.kind, self.kind)
        )


def kernel_signature(
    source: str,
    kernel: str,
    options: tuple[str, ...] = (),
    headers: tuple[tuple[str, str], ...] = (),
) -> tuple[ParameterType, ...] | None:
    """Return the parameters of ``kernel``, a name in the source or a name expression.

    Returns None if the compiler cannot tell, because the kernel is overloaded or given by its
    mangled name.
    """
    found = kernel_signatures(source, (kernel,), options, headers)
    return found[0] if found else None


@lru_cache(maxsize=256)
def kernel_signatures(
    source: str,
    kernels: tuple[str, ...],
    options: tuple[str, ...] = (),
    headers: tuple[tuple[str, str], ...] = (),
) -> tuple[tuple[ParameterType, ...] | None, ...] | None:
    """Return the parameters of each of ``kernels``, from one compilation.

    Returns None if one of them causes an error. One compilation for each kernel would take time
    that grows quadratically: a source of 82 small kernels, each launched once, took 28 s of
    processor time.
    """
    probe = _PROBE + "".join(
        f'extern "C" __device__ const auto {_TABLE}_{k} = '
        f"virtualgpu_signature::signature<decltype(&{kernel})>::get();\n"
        for k, kernel in enumerate(kernels)
    )
    try:
        compiled = compile_cuda(f"{source}\n{probe}", "kernel.cu", options, (), headers=headers)
    except CompilationError:
        return None
    variables = parse(compiled.ptx).variables
    return tuple(_parameters(variables.get(f"{_TABLE}_{k}")) for k in range(len(kernels)))


def _parameters(variable: Variable | None) -> tuple[ParameterType, ...] | None:
    """Return the parameters in a table that the compiler wrote as a variable's initial value."""
    if variable is None or not variable.values:
        return () if variable is not None else None
    # The compiler writes bytes or words, and omits zeros at the end.
    width = int("".join(filter(str.isdigit, variable.element))) // 8
    words = [value for value in variable.values if isinstance(value, int)]
    values = np.array([word & ((1 << 8 * width) - 1) for word in words], f"u{width}")
    raw = values.tobytes().ljust(variable.size, b"\0")
    count, *codes = np.frombuffer(raw, np.int32).tolist()
    return tuple(
        ParameterType(bool(code >> 24), chr(code >> 16 & 0xFF), code & 0xFFFF)
        for code in codes[:count]
    )
