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


def machine_code(text: str, symbol: str, optimise: bool = False) -> int:
    """Compile LLVM assembly; the address of the function ``symbol``, valid for ever.

    ``optimise`` runs a few passes over it first: values instead of places on the stack, and
    nothing twice.
    """
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
        module = llvm.parse_assembly(text)
        if optimise:
            _optimise(module, _target[0])
        engine.add_module(module)
        engine.finalize_object()
        return engine.get_function_address(symbol)


def _optimise(module, machine) -> None:
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_dead_code_elimination_pass()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(1))
    passes.run(module, builder)
