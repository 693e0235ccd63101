"""A shared library made in memory, whose functions jump to addresses that are given.

The system's loader knows a library by its name (``DT_SONAME``): once this one is loaded, what
opens ``libcuda.so.1`` in this process is given it. Nothing is compiled and nothing is written to
disk. System V ABI, "Object Files" and "Dynamic Linking"; x86-64 Linux only.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import struct
import sys

_PAGE = 4096
_DYNAMIC = 16  # entries of the dynamic table, zeros at its end
_STUB = 8  # bytes of code for each function
# Functions of every library, in place of its own once Python ends: what they do, in machine code.
_ENDED = {
    "virtualgpu_ended": b"\xb8\x04\x00\x00\x00\xc3",  # mov eax, 4; ret
    "virtualgpu_freed": b"\x31\xc0\xc3",  # xor eax, eax; ret
    "virtualgpu_none": b"\x31\xc0\x48\x89\x07\xc3",
}  # …; mov [rdi], rax; ret
_FREES = re.compile("Destroy|Free|Release|Unload|CtxSetCurrent")
_GIVES_NONE = re.compile("CtxGetCurrent")


def is_possible() -> bool:
    """Return True if this system loads such a library."""
    return (
        sys.platform == "linux" and platform.machine() == "x86_64" and hasattr(os, "memfd_create")
    )


class Library:
    """A loaded library that exports ``functions``: name → address to jump to.

    It stays loaded for the rest of the process. Raises OSError where the system does not load it.
    """

    def __init__(self, name: str, functions: dict[str, int]):
        # Not closed: a next one with its number would be taken for this one, by its path.
        file = os.memfd_create(name)
        os.write(file, image(name, functions | dict.fromkeys(_ENDED, 0)))
        self._loaded = ctypes.CDLL(f"/proc/self/fd/{file}", mode=ctypes.RTLD_GLOBAL)
        self._names = list(functions)

    def address(self, name: str) -> int:
        """Return the C address of a function of the library."""
        return ctypes.cast(self._loaded[name], ctypes.c_void_p).value or 0

    def end(self) -> None:
        """Make every function return 4, CUDA_ERROR_DEINITIALIZED, and call nothing.

        Python ends, and what is freed after it still calls the driver. Freeing succeeds with
        CUDA_SUCCESS, and so does asking for the current context, which is none, and changing it.
        """
        first, count = self.address(self._names[0]), len(self._names)
        distance = ctypes.c_int32.from_address(first + 2).value
        table = (ctypes.c_uint64 * count).from_address(first + 6 + distance)
        ended, freed, none = map(self.address, _ENDED)
        table[:] = [
            none if _GIVES_NONE.search(name) else freed if _FREES.search(name) else ended
            for name in self._names
        ]


def image(name: str, functions: dict[str, int]) -> bytes:
    """Return the library's bytes (ELF64): symbols and code in one segment, addresses in another."""
    strings, named = bytearray(b"\0" + name.encode() + b"\0"), []
    for function in functions:
        named.append(len(strings))
        strings += function.encode() + b"\0"
    count = len(named) + 1  # the first symbol is empty
    at_symbols = _up(64 + 4 * 56, 16)
    at_strings = at_symbols + 24 * count
    at_hash = _up(at_strings + len(strings), 16)
    # One bucket: a chain through all symbols, the last of them 0. Each is looked up once.
    chain = [*range(2, count), 0] if functions else []
    hashed = struct.pack(f"<{count + 3}I", 1, count, 1 if functions else 0, 0, *chain)
    at_code = _up(at_hash + len(hashed), 16)
    end_code = at_code + _STUB * len(named)
    at_dynamic = _up(end_code, _PAGE)
    at_table = at_dynamic + 8 * _DYNAMIC
    end = at_table + 8 * len(named)

    code = b"".join(
        (
            _ENDED.get(function)  # or jmp *[rip + distance]
            or b"\xff\x25" + struct.pack("<i", at_table + 8 * k - (at_code + _STUB * k + 6))
        ).ljust(_STUB, b"\xcc")
        for k, function in enumerate(functions)
    )
    symbols = bytes(24) + b"".join(  # global functions of section 1, which need not exist
        struct.pack("<IBBHQQ", string, 0x12, 0, 1, at_code + _STUB * k, _STUB)
        for k, string in enumerate(named)
    )
    # DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_SONAME
    dynamic = struct.pack(
        f"<{_DYNAMIC}Q",
        4,
        at_hash,
        5,
        at_strings,
        6,
        at_symbols,
        10,
        len(strings),
        11,
        24,
        14,
        1,
        0,
        0,
        0,
        0,
    )
    head = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)
    )
    segments = (
        _segment(1, 5, 0, end_code, _PAGE)
        + _segment(1, 6, at_dynamic, end - at_dynamic, _PAGE)
        + _segment(2, 6, at_dynamic, 8 * _DYNAMIC, 8)
        + _segment(0x6474E551, 6, 0, 0, 16)
    )  # a stack that holds no code
    whole = bytearray(end)
    for start, part in (
        (0, head + segments),
        (at_symbols, symbols),
        (at_strings, bytes(strings)),
        (at_hash, hashed),
        (at_code, code),
        (at_dynamic, dynamic),
        (at_table, struct.pack(f"<{len(named)}Q", *functions.values())),
    ):
        whole[start : start + len(part)] = part
    return bytes(whole)


def _segment(kind: int, flags: int, start: int, nbytes: int, align: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, start, start, start, nbytes, nbytes, align)


def _up(size: int, align: int) -> int:
    return -(-size // align) * align
