"""LLVM assembly to machine code in this process, by llvmlite's code generator.

``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` choose the processor to write for, as they do for
Numba: with ``NUMBA_CPU_NAME=x86-64-v2`` code runs as it would on a host without AVX.
"""

from __future__ import annotations

import contextlib
import os
import threading

from llvmlite import binding as llvm

lock = threading.RLock()
_target: list = []  # the target machine and the engine, made on first use


def machine_code(text: str, symbol: str) -> int:
    """Compile LLVM assembly; the address of the function ``symbol``, valid for ever."""
    with lock:
        if not _target:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            name = os.environ.get("NUMBA_CPU_NAME")
            features = os.environ.get("NUMBA_CPU_FEATURES", "")
            if not name:
                name = llvm.get_host_cpu_name()
                with contextlib.suppress(RuntimeError):  # unknown: its family's must do
                    features = features or llvm.get_host_cpu_features().flatten()
            machine = llvm.Target.from_default_triple().create_target_machine(
                cpu=name, features=features, opt=1, jit=True)
            _target.extend([machine, llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)])
        engine = _target[1]
        engine.add_module(llvm.parse_assembly(text))
        engine.finalize_object()
        return engine.get_function_address(symbol)
