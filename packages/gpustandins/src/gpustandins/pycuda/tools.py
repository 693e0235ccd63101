"""Contexts, memory pools, C names of types, and the occupancy of a multiprocessor."""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any

import numpy as np

from ._context import Context, Device, _stack
from ._memory import DeviceAllocation, pagelocked_empty
from ._missing import Absent, lookup

__all__ = """
DeviceData DeviceMemoryPool DtypedArgument OccupancyRecord PageLockedMemoryPool
PooledDeviceAllocation ScalarArg VectorArg clear_context_caches context_dependent_memoize
dtype_to_ctype get_or_register_dtype init_cuda_context_fixture make_default_context mark_cuda_test
match_dtype_to_c_struct parse_c_arg parse_c_type register_dtype
""".split()

# Each line has a type's letter in NumPy and its C++ names. Kernels are written with the first name.
_NAMES = """
? bool
b signed char, char, int8_t
B unsigned char, uint8_t
h short, short int, signed short, int16_t
H unsigned short, unsigned short int, uint16_t
i int, signed int, signed, int32_t
I unsigned, unsigned int, uint32_t
l long, long int, signed long, int64_t
L unsigned long, unsigned long int, uint64_t
q long long
Q unsigned long long, size_t
f float
d double
F pycuda::complex<float>
D pycuda::complex<double>
"""
_TYPES = {line[0]: line[2:].split(", ") for line in _NAMES.strip().split("\n")}
_BY_NAME = {name: letter for letter, names in _TYPES.items() for name in names}
_registered: dict[str, np.dtype] = {}


def make_default_context(ctx_maker=None) -> Context:
    """Create a context on the first device and make it current."""
    return (ctx_maker or (lambda device: device.make_context()))(Device(0))


def dtype_to_ctype(dtype: Any) -> str:
    """Return the C++ name of a dtype.

    Raises ValueError for a dtype without one.
    """
    dtype = np.dtype(dtype)
    for name, known in _registered.items():
        if known == dtype:
            return name
    if dtype.char not in _TYPES:
        raise ValueError(f"unable to map dtype '{dtype}'")
    return _TYPES[dtype.char][0]


def parse_c_type(name: str) -> np.dtype:
    """Return the dtype for the name of a C++ type.

    Raises ValueError for an unknown name.
    """
    name = re.sub(r"\s+", " ", name).strip()
    if name in _registered:
        return _registered[name]
    if name not in _BY_NAME:
        raise ValueError(
            f"unknown type '{name}' (register it with pycuda.tools.get_or_register_dtype)"
        )
    return np.dtype(_BY_NAME[name])


def get_or_register_dtype(names: Any, dtype: Any = None) -> np.dtype:
    """Register ``names`` (one name or several) as C++ names of ``dtype``."""
    names = [names] if isinstance(names, str) else list(names)
    if dtype is None:
        return parse_c_type(names[0])
    for name in names:
        _registered[name] = np.dtype(dtype)
    return np.dtype(dtype)


def register_dtype(dtype: Any, names: Any) -> None:
    """Register a C++ name of a dtype, as :func:`get_or_register_dtype` does."""
    get_or_register_dtype(names, dtype)


def match_dtype_to_c_struct(device: Device, name: str, dtype: Any, context=None):
    """Declare a C struct for a structured dtype.

    Returns the dtype with the compiler's field offsets, and the declaration. Raises ValueError for
    fields of types without a C++ name.
    """
    from .compiler import SourceModule
    from .driver import Out

    fields = sorted(np.dtype(dtype).fields.items(), key=lambda field: field[1][1])
    lines = []
    for field, (kind, *_) in fields:
        lengths = "".join(f"[{one}]" for one in kind.shape)
        lines.append(f"  {dtype_to_ctype(kind.base)} {field}{lengths};\n")
    declaration = f"typedef struct {{\n{''.join(lines)}}} {name};\n\n"
    found = np.zeros(len(fields) + 1, np.uint64)
    asked = ", ".join([*(f"offsetof({name}, {field})" for field, _ in fields), f"sizeof({name})"])
    source = (
        f"#include <pycuda-complex.hpp>\n{declaration}"
        'extern "C" __global__ void measure(unsigned long *found) {\n'
        f"  const unsigned long asked[] = {{{asked}}};\n"
        f"  for (int i = 0; i < {len(found)}; ++i) found[i] = asked[i];\n}}\n"
    )
    SourceModule(source, no_extern_c=True).get_function("measure")(Out(found), block=(1, 1, 1))
    *offsets, size = found.tolist()
    matched = np.dtype(
        {
            "names": [field for field, _ in fields],
            "formats": [kind for _, (kind, *_) in fields],
            "offsets": offsets,
            "itemsize": size,
        }
    )
    return matched, declaration


class DtypedArgument:
    """Argument of a kernel, with a ``dtype`` and a ``name``."""

    def __init__(self, dtype: Any, name: str):
        self.dtype, self.name = np.dtype(dtype), name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.dtype})"


class VectorArg(DtypedArgument):
    """Argument that is a pointer to elements."""

    struct_char = "P"

    def declarator(self) -> str:
        return f"{dtype_to_ctype(self.dtype)} *{self.name}"


class ScalarArg(DtypedArgument):
    """Argument that is a number."""

    def declarator(self) -> str:
        return f"{dtype_to_ctype(self.dtype)} {self.name}"

    @property
    def struct_char(self) -> str:
        return self.dtype.char


def parse_c_arg(declaration: str) -> VectorArg | ScalarArg:
    """Return the argument for a C++ declaration such as ``const float *x``.

    Raises ValueError for a declaration that it cannot parse.
    """
    text = re.sub(r"\b(const|volatile|__restrict__|restrict)\b", " ", declaration)
    match = re.fullmatch(r"\s*(.+?)\s*(\*?)\s*(\w+)\s*(\[\s*\])?\s*", text.replace("\n", " "))
    if not match or not match[1].strip("* "):
        raise ValueError(f"only simple declarations can be parsed, not '{declaration}'")
    kind = VectorArg if match[2] or match[4] else ScalarArg
    return kind(parse_c_type(match[1]), match[3])


def context_dependent_memoize(function):
    """Cache the results of a function, without regard to the context."""
    return functools.lru_cache(maxsize=None)(function)


def clear_context_caches() -> None:
    """Do nothing, because no cache depends on a context."""


# -- memory pools -------------------------------------------------------------------------------


class PooledDeviceAllocation:
    """Memory that returns to its pool."""

    _pooled = True

    def __init__(self, pool: DeviceMemoryPool, block: DeviceAllocation, size: int):
        self._pool, self._block, self.size = pool, block, size

    def free(self) -> None:
        """Return the memory to the pool now."""
        if self._block is not None:
            block, self._block = self._block, None
            self._pool._give(block)

    def __int__(self) -> int:
        return int(self._block) if self._block is not None else 0

    __index__ = __int__

    def __del__(self):
        if getattr(self, "_block", None) is not None:
            self.free()


class DeviceMemoryPool:
    """Pool that keeps freed memory for allocations of the same size.

    The counts are exact. PyCUDA's pool rounds sizes into bins, and so reuses a freed block more
    often.
    """

    alloc_size = Absent(
        "the size itself, as blocks are kept by size and not in bins", "pycuda.tools"
    )
    bin_number = Absent(
        "the size itself, as blocks are kept by size and not in bins", "pycuda.tools"
    )

    def __init__(self):
        self._free: dict[int, list[DeviceAllocation]] = {}
        self._active = 0
        self._holding = True

    def allocate(self, size: int) -> PooledDeviceAllocation:
        """Allocate ``size`` bytes, which may keep their old contents."""
        kept = self._free.get(size)
        block = kept.pop() if kept else DeviceAllocation(size)
        self._active += 1
        return PooledDeviceAllocation(self, block, size)

    __call__ = allocate

    def _give(self, block: DeviceAllocation) -> None:
        self._active -= 1
        if self._holding:
            self._free.setdefault(block.nbytes, []).append(block)

    @property
    def held_blocks(self) -> int:
        return sum(len(blocks) for blocks in self._free.values())

    @property
    def active_blocks(self) -> int:
        return self._active

    @property
    def managed_bytes(self) -> int:
        return sum(size * len(blocks) for size, blocks in self._free.items())

    def free_held(self) -> None:
        """Return the kept memory to the device."""
        self._free.clear()

    def stop_holding(self) -> None:
        """Stop keeping freed memory."""
        self._holding = False
        self.free_held()


class PageLockedMemoryPool:
    """Pool of host arrays, which neither locks nor keeps memory."""

    def allocate(self, shape, dtype, order="C") -> np.ndarray:
        return pagelocked_empty(shape, dtype, order)

    def free_held(self) -> None:
        """Do nothing, because no memory is held."""

    def stop_holding(self) -> None:
        """Do nothing, because no memory is held."""


# -- occupancy ----------------------------------------------------------------------------------


class DeviceData:
    """Limits of a device, for :class:`OccupancyRecord`."""

    def __init__(self, dev: Device | None = None):
        dev = dev or Device(0)
        self.max_threads = dev.max_threads_per_block
        self.warp_size = dev.warp_size
        self.warps_per_mp = dev.max_threads_per_multiprocessor // self.warp_size
        self.thread_blocks_per_mp = dev.max_blocks_per_multiprocessor
        self.multiprocessors = dev.multiprocessor_count
        self.registers = dev.max_registers_per_block
        self.shared_memory = dev.max_shared_memory_per_block


class OccupancyRecord:
    """Number of blocks that fit on a multiprocessor at the same time.

    Attributes
    ----------
    tb_per_mp : int
        Blocks per multiprocessor.
    limited_by : str
        ``device``, ``warps``, ``regs`` or ``smem``.
    warps_per_mp : int
    occupancy : float
        The fraction of the warps that a multiprocessor can hold.
    """

    def __init__(self, devdata: DeviceData, threads: int, shared_mem: int = 0, registers: int = 0):
        if threads > devdata.max_threads:
            raise ValueError("too many threads")
        warps = -(-threads // devdata.warp_size)
        limits = {"device": devdata.thread_blocks_per_mp, "warps": devdata.warps_per_mp // warps}
        if registers:
            limits["regs"] = devdata.registers // (registers * warps * devdata.warp_size)
        if shared_mem:
            limits["smem"] = devdata.shared_memory // shared_mem
        self.limited_by = min(limits, key=limits.get)
        self.tb_per_mp = limits[self.limited_by]
        self.warps_per_mp = self.tb_per_mp * warps
        self.occupancy = self.warps_per_mp / devdata.warps_per_mp


def init_cuda_context_fixture():
    """Run a pytest fixture's body with a separate context for each test."""
    from ._context import init

    init()
    context, depth = make_default_context(), len(_stack)
    try:
        yield
    finally:
        del _stack[depth:]
        context.detach()


def mark_cuda_test(inner):
    """Run a test with its own context."""

    @functools.wraps(inner)
    def test(*args, **kwargs):
        with contextlib.contextmanager(init_cuda_context_fixture)():
            return inner(*args, **kwargs)

    return test


#: Names that the stand-in lacks, with alternatives.
MISSING = {
    "bitlog2": "int.bit_length",
    "DebugMemoryPool": "DeviceMemoryPool",
    "PageLockedAllocator": "pycuda.driver.pagelocked_empty",
    "get_default_device": "pycuda.driver.Device(0)",
}
__getattr__ = lookup("pycuda.tools", MISSING)
