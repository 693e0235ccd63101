"""LLVM assembly to machine code in this process, by llvmlite's code generator."""

from __future__ import annotations

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
            try:
                features = llvm.get_host_cpu_features().flatten()
            except RuntimeError:  # not known for this processor: do with its family's
                features = ""
            machine = llvm.Target.from_default_triple().create_target_machine(
                cpu=llvm.get_host_cpu_name(), features=features, opt=1, jit=True)
            _target.extend([machine, llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)])
        engine = _target[1]
        engine.add_module(llvm.parse_assembly(text))
        engine.finalize_object()
        return engine.get_function_address(symbol)
