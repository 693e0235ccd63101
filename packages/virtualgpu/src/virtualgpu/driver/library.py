"""Shared library, made in memory, whose exported functions jump to given addresses.

Each function first runs Python's signal handlers, so that an exception of a handler is stored and
does not propagate into the C code that called the function (:mod:`virtualgpu.driver.interrupts`).

The dynamic loader identifies a library by its name (``DT_SONAME``). Once this one is loaded, any
code in this process that opens ``libcuda.so.1`` receives it. Nothing is compiled and nothing is
written to disk. System V ABI, "Object Files" and "Dynamic Linking"; x86-64 Linux only.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import struct
import sys
from collections.abc import Sequence

_PAGE = 4096
_DYNAMIC = 16  # entries of the dynamic table, zeros at its end
_STUB = 16  # bytes of code for each function
# Functions that every library exports. Once Python has ended, the library's other functions jump to
# these.
_ENDED = {
    "virtualgpu_ended": b"\xb8\x04\x00\x00\x00\xc3",  # mov eax, 4; ret
    "virtualgpu_freed": b"\x31\xc0\xc3",  # xor eax, eax; ret
    "virtualgpu_none": b"\x31\xc0\x48\x89\x07\xc3",
}  # …; mov [rdi], rax; ret
# Machine code in hexadecimal; @name is the distance to a symbol. Each function is `lea r11, [slot
# of its address]; jmp before`.
_STUB_CODE = "4c8d1d @address e9 @before"
# Save the arguments and call `signals`, then jump to the address. If a Python error was set, call
# the function instead (with the arguments in registers) and set the error again afterwards: no
# Python code may run while an error is set, and C code that has failed cleans up through the
# driver.
_BEFORE = """
57 56 52 51 4150 4151 4153 4883ec20
4889e7 e8 @signals 85c0 7511
4883c420 415b 4159 4158 59 5a 5e 5f 41ff23
4c8b5c2420 4c8b4c2428 4c8b442430 488b4c2438 488b542440 488b742448 488b7c2450 41ff13 89442418
ff15 @PyGILState_Ensure 89442420
488b3c24 488b742408 488b542410 ff15 @PyErr_Restore
8b7c2420 ff15 @PyGILState_Release
8b442418 4883c458 c3
"""
# int signals(PyObject *error[3]) {
#   if (!PyGILState_Ensure) return 0;  // no Python, or it has ended
#   int lock = PyGILState_Ensure(), was_set = 0;
#   if (PyErr_Occurred()) { PyErr_Fetch(error...); was_set = 1; }
#   else if (PyErr_CheckSignals()) {
#     PyErr_Fetch(error...); PyErr_NormalizeException(error...); fetched(*error...);
#   }
#   PyGILState_Release(lock); return was_set;
# }
_SIGNALS = """
488b05 @PyGILState_Ensure 4885c0 7503 31c0 c3
53 4154 4883ec08 4989fc ffd0 89c3
ff15 @PyErr_Occurred 4885c0 7549
ff15 @PyErr_CheckSignals 85c0 743a
4c89e7 498d742408 498d542410 ff15 @PyErr_Fetch
4c89e7 498d742408 498d542410 ff15 @PyErr_NormalizeException
498b3c24 498b742408 498b542410 ff15 @fetched
4531e4 eb19
4c89e7 498d742408 498d542410 ff15 @PyErr_Fetch 41bc01000000
89df ff15 @PyGILState_Release
4489e0 4883c408 415c 5b c3
"""
#: C functions of Python that the code above calls; the last one stores a fetched exception.
CALLS = (
    "PyGILState_Ensure",
    "PyErr_Occurred",
    "PyErr_CheckSignals",
    "PyErr_Fetch",
    "PyErr_NormalizeException",
    "PyErr_Restore",
    "PyGILState_Release",
    "fetched",
)
_FREES = re.compile("Destroy|Free|Release|Unload|CtxSetCurrent")
_GIVES_NONE = re.compile("CtxGetCurrent")


def is_possible() -> bool:
    """Return True if this system can load such a library."""
    return (
        sys.platform == "linux" and platform.machine() == "x86_64" and hasattr(os, "memfd_create")
    )


class SharedLibrary:
    """Loaded library that exports ``functions``: name → address to jump to.

    The library stays loaded for the rest of the process. Raises OSError if the system cannot load
    it.

    Parameters
    ----------
    calls : sequence of int, optional
        Addresses of :data:`CALLS`, for signal handlers; without them, no handlers run.
    """

    def __init__(self, name: str, functions: dict[str, int], calls: Sequence[int] = ()):
        # The file stays open: the loader would take a later file with the same path for this one.
        file = os.memfd_create(name)
        os.write(file, image(name, functions | dict.fromkeys(_ENDED, 0), calls))
        self._loaded = ctypes.CDLL(f"/proc/self/fd/{file}", mode=ctypes.RTLD_GLOBAL)
        self._names = list(functions)

    def address(self, name: str) -> int:
        """Return the C address of a function of the library."""
        return ctypes.cast(self._loaded[name], ctypes.c_void_p).value or 0

    def end(self) -> None:
        """Make every function return 4, CUDA_ERROR_DEINITIALIZED, and call nothing.

        It is called when Python ends, because objects that are freed later still call the driver.
        Functions that free resources return CUDA_SUCCESS. So do those that set or return the
        current context, which is then NULL.
        """
        first, count = self.address(self._names[0]), len(self._names)
        distance = ctypes.c_int32.from_address(first + 3).value
        start = first + 7 + distance
        table = (ctypes.c_uint64 * count).from_address(start)
        ended, freed, none = map(self.address, _ENDED)
        table[:] = [
            none if _GIVES_NONE.search(name) else freed if _FREES.search(name) else ended
            for name in self._names
        ]
        calls = (ctypes.c_uint64 * len(CALLS)).from_address(start + 8 * (count + len(_ENDED)))
        calls[:] = [0] * len(CALLS)


def image(name: str, functions: dict[str, int], calls: Sequence[int] = ()) -> bytes:
    """Return the ELF64 image: symbols and code in one segment, addresses in another."""
    strings, named = bytearray(b"\0" + name.encode() + b"\0"), []
    for function in functions:
        named.append(len(strings))
        strings += function.encode() + b"\0"
    count = len(named) + 1  # the first symbol is empty
    at_symbols = _up(64 + 4 * 56, 16)
    at_strings = at_symbols + 24 * count
    at_hash = _up(at_strings + len(strings), 16)
    # One bucket, a chain through all symbols that ends with 0. Each symbol is looked up once.
    chain = [*range(2, count), 0] if functions else []
    hashed = struct.pack(f"<{count + 3}I", 1, count, 1 if functions else 0, 0, *chain)
    at_code = _up(at_hash + len(hashed), 16)
    at_before = at_code + _STUB * len(named)
    at_signals = at_before + _length(_BEFORE)
    end_code = at_signals + _length(_SIGNALS)
    at_dynamic = _up(end_code, _PAGE)
    at_table = at_dynamic + 8 * _DYNAMIC
    at_calls = at_table + 8 * len(named)
    end = at_calls + 8 * len(CALLS)

    places = {call: at_calls + 8 * k for k, call in enumerate(CALLS)}
    places |= {"before": at_before, "signals": at_signals}
    stubs = (
        _ENDED.get(function)
        or _machine_code(_STUB_CODE, at_code + _STUB * k, places | {"address": at_table + 8 * k})
        for k, function in enumerate(functions)
    )
    code = b"".join(stub.ljust(_STUB, b"\xcc") for stub in stubs)
    code += _machine_code(_BEFORE, at_before, places) + _machine_code(_SIGNALS, at_signals, places)
    symbols = bytes(24) + b"".join(  # global symbols of section 1, which need not exist
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
    )  # marks the stack as not executable
    whole = bytearray(end)
    for start, part in (
        (0, head + segments),
        (at_symbols, symbols),
        (at_strings, bytes(strings)),
        (at_hash, hashed),
        (at_code, code),
        (at_dynamic, dynamic),
        (at_table, struct.pack(f"<{len(named)}Q", *functions.values())),
        (at_calls, struct.pack(f"<{len(calls)}Q", *calls)),
    ):
        whole[start : start + len(part)] = part
    return bytes(whole)


def _machine_code(text: str, start: int, places: dict[str, int]) -> bytes:
    """Return the bytes of ``text`` at ``start``, up to the end of an instruction."""
    made = bytearray()
    for word in text.split():
        if word[0] == "@":
            made += struct.pack("<i", places[word[1:]] - (start + len(made) + 4))
        else:
            made += bytes.fromhex(word)
    return bytes(made)


def _length(text: str) -> int:
    return sum(4 if word[0] == "@" else len(word) // 2 for word in text.split())


def _segment(kind: int, flags: int, start: int, nbytes: int, align: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, start, start, start, nbytes, nbytes, align)


def _up(size: int, align: int) -> int:
    return -(-size // align) * align
