"""Compilation of LLVM assembly to machine code in this process, with llvmlite.

``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` choose the target processor, as they do for Numba.
With ``NUMBA_CPU_NAME=x86-64-v2``, code runs as on a host without AVX.

Code that was compiled before, by this process or another one, is loaded (:mod:`.cache`).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import threading
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import llvmlite
import numpy as np
from llvmlite import binding as llvm

from virtualgpu.compilers import cache

# Passes applied to the assembly first: none; a few, which turn stack slots into values and remove
# redundant code; or all that LLVM applies to C at -O2.
Passes = Literal["none", "few", "all"]

lock = threading.RLock()
_loaded: set[bytes] = set()  # the keys of this process's code
_calls: dict[str, list[str]] = {}  # names of `linkable` → the names that the code calls
_DECLARED = re.compile(rf'^declare .*?@"?(\w+_[0-9a-f]{{{2 * cache.KEY}}})"?\(', re.MULTILINE)


def machine_code(text: str, symbol: str, passes: Passes = "none") -> int:
    """Compile LLVM assembly; return the permanent address of its function ``symbol``."""
    return address(linkable(text, symbol, passes))


def linkable(text: str, symbol: str, passes: Passes = "none") -> str:
    """Compile LLVM assembly; return the name by which later assembly calls ``symbol``.

    All functions of a process share one symbol table, so the name is derived from the assembly.
    """
    with lock:
        key = _key(text, symbol, passes)
        name = f"{symbol}_{key.hex()}"
        _calls[name] = [called for called in _DECLARED.findall(text) if called in _calls]
        if key not in _loaded:
            code = cache.fetch(key)
            if code is None:
                code = _compiled(text, symbol, name, passes)
                cache.keep(key, code)
            _load({name: code})
        return name


def load(names: Iterable[str]) -> bool:
    """Load code that :func:`linkable` compiled before, by the names that it returned.

    It may have been compiled in another process. If something is missing, returns False and loads
    nothing.
    """
    with lock:
        missing = {}
        for name in names:
            key = _key_of(name)
            if key not in _loaded:
                code = cache.fetch(key)
                if code is None:
                    return False
                missing[name] = code
        _load(missing)
        return True


def needed(name: str) -> list[str]:
    """Return the names of a compiled function and of those that it calls.

    :func:`linkable` has compiled it in this process; its own name comes last.
    """
    found = [one for other in _calls[name] for one in needed(other)]
    return [*dict.fromkeys(found), name]


def address(name: str) -> int:
    """Return the address of a loaded function."""
    with lock:
        return int(_engine().get_function_address(name))


def _key_of(name: str) -> bytes:
    return bytes.fromhex(name[-2 * cache.KEY :])


def _load(codes: dict[str, bytes]) -> None:
    """Link object code, given by function name, into this process."""
    if not codes:
        return
    engine = _engine()
    for code in codes.values():
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _loaded.update(map(_key_of, codes))


_word_at = ctypes.c_size_t.from_address
_HEAD = object.__basicsize__  # bytes


def pointer(array: np.ndarray) -> int:
    """Return the address of an array's first element; the caller keeps the array alive.

    It is read from the array object as NumPy's header does for every extension (``PyArray_DATA``):
    it is the first field after Python's own. ``__array_interface__`` would take 7 times as long
    (3.5 µs), and observers read several addresses for each access.
    """
    return _word_at(id(array) + _HEAD).value


@functools.cache
def _processor() -> tuple[str, str]:
    """Return name and features of the processor to compile for."""
    name = os.environ.get("NUMBA_CPU_NAME")
    features = os.environ.get("NUMBA_CPU_FEATURES", "")
    if not name:
        name = llvm.get_host_cpu_name()
        with contextlib.suppress(RuntimeError):  # an unknown processor: use the name of its family
            features = features or llvm.get_host_cpu_features().flatten()
    return str(name), features


@functools.cache
def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = _processor()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=1, jit=True
    )


@functools.cache
def _engine() -> Any:
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())


@functools.cache
def compiler() -> str:
    """Return everything except the assembly on which machine code depends, this module included."""
    from virtualgpu import __version__

    with contextlib.suppress(OSError):  # the module may have no file
        __version__ += blake2b(Path(__file__).read_bytes()).hexdigest()
    return "\0".join(
        [
            __version__,
            llvmlite.__version__,
            repr(llvm.llvm_version_info),
            llvm.get_default_triple(),
            *_processor(),
        ]
    )


def _key(text: str, symbol: str, passes: Passes) -> bytes:
    said = "\0".join([compiler(), symbol, passes, text])
    return blake2b(said.encode(), digest_size=cache.KEY).digest()


def _compiled(text: str, symbol: str, name: str, passes: Passes) -> bytes:
    """Compile LLVM text to object code, with ``symbol`` renamed to ``name``."""
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.get_function(symbol).name = name
    level = {"none": 0, "few": 1, "all": 2}[passes]
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(level))
    if passes == "all":
        builder.getModulePassManager().run(module, builder)
    elif passes == "few":
        chosen = llvm.create_new_module_pass_manager()
        chosen.add_always_inliner_pass()
        chosen.add_sroa_pass()
        chosen.add_sccp_pass()  # a fifth of saxpy's time, for nothing
        chosen.add_simplify_cfg_pass()
        chosen.add_dead_code_elimination_pass()
        chosen.run(module, builder)
    return bytes(machine.emit_object(module))
