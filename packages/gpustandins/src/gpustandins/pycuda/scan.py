"""``InclusiveScanKernel`` and ``ExclusiveScanKernel``: running results of a vector."""

from __future__ import annotations

import numpy as np

from ._missing import lookup
from .compiler import SourceModule
from .elementwise import _includes
from .gpuarray import GPUArray, empty_like
from .tools import dtype_to_ctype

__all__ = ["ExclusiveScanKernel", "InclusiveScanKernel"]

BLOCK = 512  # threads and elements of a block


class InclusiveScanKernel:
    """Kernel that replaces each element by the combination of all elements up to and including it.

    >>> add_up = InclusiveScanKernel(numpy.int32, "a+b")
    >>> add_up(x)  # in place

    Each block scans its part, then the results of the blocks are scanned and combined with the
    elements of the later blocks.

    Parameters
    ----------
    dtype : dtype
    scan_expr : str
        An associative expression of two values, ``a`` and ``b``.
    neutral : str, optional
        The neutral element, with which an exclusive scan begins.
    name_prefix, options, preamble
        As for :class:`~pycuda.elementwise.ElementwiseKernel`.
    """

    exclusive = False

    def __init__(
        self,
        dtype,
        scan_expr,
        neutral=None,
        name_prefix="scan",
        options=None,
        preamble="",
        devices=None,
    ):
        if self.exclusive and neutral is None:
            raise ValueError("neutral element is required for exclusive scan")
        self.dtype, self.neutral = np.dtype(dtype), neutral
        source = f"""{_includes([self])}
#define SCAN(a, b) ({" ".join(str(scan_expr).split(chr(10)))})
{preamble}
typedef {dtype_to_ctype(self.dtype)} scan_type;
extern "C" __global__ void {name_prefix}_blocks(
    const scan_type *_in, scan_type *_out, scan_type *_last, unsigned _n)
{{
    __shared__ __align__(16) char _memory[{BLOCK} * sizeof(scan_type)];
    scan_type *_shared = reinterpret_cast<scan_type *>(_memory);
    const unsigned _tid = threadIdx.x, _i = blockIdx.x * {BLOCK}u + _tid;
    if (_i < _n) _shared[_tid] = _in[_i];
    __syncthreads();
    for (unsigned _by = 1; _by < {BLOCK}u; _by *= 2) {{
        scan_type _sum;
        const bool _adds = _tid >= _by && _i < _n;
        if (_adds) _sum = SCAN(_shared[_tid - _by], _shared[_tid]);
        __syncthreads();
        if (_adds) _shared[_tid] = _sum;
        __syncthreads();
    }}
    if (_i < _n) {{
        _out[_i] = _shared[_tid];
        if (_tid == {BLOCK}u - 1 || _i == _n - 1) _last[blockIdx.x] = _shared[_tid];
    }}
}}
extern "C" __global__ void {name_prefix}_update(
    scan_type *_out, const scan_type *_last, unsigned _n)
{{
    const unsigned _i = blockIdx.x * {BLOCK}u + threadIdx.x;
    if (blockIdx.x > 0 && _i < _n) _out[_i] = SCAN(_last[blockIdx.x - 1], _out[_i]);
}}
extern "C" __global__ void {name_prefix}_shift(
    const scan_type *_in, scan_type *_out, unsigned _n)
{{
    const unsigned _i = blockIdx.x * {BLOCK}u + threadIdx.x;
    if (_i < _n) {{
        if (_i > 0) _out[_i] = _in[_i - 1];
        else _out[_i] = {neutral if self.exclusive else "_in[0]"};
    }}
}}
"""
        module = SourceModule(source, options=options, no_extern_c=True)
        self._blocks, self._update, self._shift = (
            module.get_function(f"{name_prefix}_{one}") for one in ("blocks", "update", "shift")
        )

    def __call__(self, input_ary, output_ary=None, allocator=None, stream=None):
        """Launch; write to the input, to ``output_ary``, or to a new array for "new"."""
        if output_ary is None:
            output_ary = input_ary
        elif isinstance(output_ary, str) and output_ary == "new":
            output_ary = empty_like(input_ary)
        if input_ary.shape != output_ary.shape:
            raise ValueError("input and output must have the same shape")
        if not input_ary.flags.forc:
            raise RuntimeError("ScanKernel cannot deal with non-contiguous arrays")
        (size,) = input_ary.shape
        if size and self.exclusive:
            sums = self._inclusive(input_ary, empty_like(input_ary), stream)
            self._run(self._shift, size, stream, sums, output_ary)
        elif size:
            self._inclusive(input_ary, output_ary, stream)
        return output_ary

    def _inclusive(self, given: GPUArray, out: GPUArray, stream) -> GPUArray:
        blocks = -(-given.size // BLOCK)
        last = GPUArray((blocks,), self.dtype)
        self._run(self._blocks, given.size, stream, given, out, last)
        if blocks > 1:
            self._inclusive(last, last, stream)
            self._run(self._update, given.size, stream, out, last)
        return out

    @staticmethod
    def _run(function, size: int, stream, *arrays) -> None:
        grid = (-(-size // BLOCK), 1)
        function(*arrays, np.uint32(size), grid=grid, block=(BLOCK, 1, 1), stream=stream)


class ExclusiveScanKernel(InclusiveScanKernel):
    """Kernel that replaces each element by the combination of all elements before it.

    The first element becomes ``neutral``.
    """

    exclusive = True


__getattr__ = lookup("pycuda.scan")
