"""``ElementwiseKernel``: a C++ statement for each element of arrays."""

from __future__ import annotations

import re
from typing import Any

import cupy
import numpy as np

from gpucourse.wording import many

from .compiler import SourceModule

_TYPES = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "unsigned": np.uint32,
    "unsigned int": np.uint32,
    "long": np.int64,
    "long long": np.int64,
    "unsigned long": np.uint64,
    "short": np.int16,
    "char": np.int8,
    "unsigned char": np.uint8,
    "bool": np.bool_,
}
_THREADS = 128


class ElementwiseKernel:
    """A kernel that runs ``operation`` for each index ``i`` of its first array.

    ``arguments`` is a C++ parameter list; ``preamble`` stands before the kernel. Numbers are given
    as any type and become what their parameter says. Raises TypeError for a wrong number of them.
    """

    def __init__(
        self,
        arguments: str,
        operation: str,
        name: str = "kernel",
        keep: bool = False,
        options=None,
        preamble: str = "",
    ):
        self.name = name
        self._numbers = [_number_type(one) for one in arguments.split(",")]
        if all(self._numbers):
            raise RuntimeError(
                "ElementwiseKernel can only be used with functions that have at "
                "least one vector argument"
            )
        self._source = f"""{preamble}
extern "C" __global__ void {name}({arguments}, long long n)
{{
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
         i += (long long)gridDim.x * blockDim.x) {{
#line 1
        {operation};
    }}
}}
"""
        self._options = options
        self._function: Any = None  # made at the first call

    def __call__(self, *arguments) -> None:
        if len(arguments) != len(self._numbers):
            raise TypeError(
                f"{self.name} takes {many(len(self._numbers), 'argument')}, not {len(arguments)}"
            )
        if self._function is None:
            module = SourceModule(self._source, options=self._options, no_extern_c=True)
            self._function = module.get_function(self.name)
        arrays = [one for one in arguments if isinstance(one, cupy.ndarray)]
        if not all(one.flags.forc for one in arrays):
            raise RuntimeError("elementwise kernel cannot deal with non-contiguous arrays")
        values = [
            one if number is None else number(one)
            for one, number in zip(arguments, self._numbers, strict=True)
        ]
        if count := arrays[0].size:
            blocks = min(-(-count // _THREADS), 65_535)
            self._function(*values, np.int64(count), block=(_THREADS, 1, 1), grid=(blocks, 1))


def _number_type(declared: str):
    """NumPy's type of a number's parameter; None for an array's."""
    if "*" in declared:
        return None
    words = re.sub(r"\bconst\b", "", declared).split()[:-1]
    return _TYPES[" ".join(words)]
