"""Machine code of a module, from LLVM's passes and its just-in-time compiler, for this CPU."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
import threading
from functools import cache
from itertools import count

import llvmlite.binding as llvm

_lock = threading.Lock()
#: Programs with at least as many sums of 32-bit integers as a threefry hide them from the code
#: generator.
MANY_SUMS = 64


@cache
def _processor() -> tuple[str, str]:
    """Return the name and features of the processor to compile for.

    It is this processor with all its instruction sets, or the one in Numba's variables
    ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES``.
    """
    if name := os.environ.get("NUMBA_CPU_NAME"):
        return name, os.environ.get("NUMBA_CPU_FEATURES", "")
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _new_machine(**options: bool):
    name, features = _processor()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, **options
    )


@cache
def target_machine():
    """Return a target machine for that processor, and the C library's functions."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    library = ctypes.util.find_library("m")
    if library:
        llvm.load_library_permanently(library)
    return _new_machine()


@cache
def vector_bytes() -> int:
    """Return the width of this CPU's vector registers in bytes."""
    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx") else 16


def optimised(text: str):
    """Verify the module and run LLVM's passes on it, including the vectorisers."""
    machine = target_machine()
    module = llvm.parse_assembly(text)
    module.verify()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = True
    options.loop_interleaving = True
    options.loop_unrolling = True
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    if text.count(" = add i32 ") < MANY_SUMS:
        return module
    return llvm.parse_assembly(_with_sums_hidden(str(module)))


def _with_sums_hidden(text: str) -> str:
    """Return the optimised module with each sum of 32-bit integers behind a ``freeze``.

    Indices have 64 bits. Loop strength reduction, which LLVM runs during code generation, treats
    the rounds of a random number generator as one sum of hundreds of terms and spends seconds on
    it without a result. A Metropolis walk of 50 steps took 4.7 s of processor time to compile, and
    takes 0.15 s with this change. The pass does not look through ``freeze``, which produces no
    instruction.
    """
    number = count()

    def hidden(found: re.Match) -> str:
        name = f"%sum.{next(number)}"
        return f"  {name} = {found[2]}\n  {found[1]} = freeze i32 {name}"

    return re.sub(r"^  (%\S+) = (add (?:nuw |nsw )*i32 .*)$", hidden, text, flags=re.MULTILINE)


class MachineCode:
    """Compiled functions, called without the GIL: ``run(table)``, ``part(k)(table, low, high)``."""

    def __init__(self, text: str):
        with _lock:
            self.module = optimised(text)
            self.engine = llvm.create_mcjit_compiler(self.module, _own_machine())
            self.engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self.run = kind(self.engine.get_function_address("run"))

    def part(self, k: int):
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        return kind(self.engine.get_function_address(f"part{k}"))


def _own_machine():
    """Return a target machine for one engine, which takes ownership of it."""
    target_machine()
    return _new_machine(jit=True)
