"""Compilation of expressions to NumPy ufuncs: sixteen lanes per step, in a few milliseconds.

LLVM is used only for its code generator. The loop is generated with vectors of sixteen lanes, so
no optimiser has to vectorise it. Measured: an operation takes 10 to 15 ms at first use, and 3 to 5
ms if an earlier process has compiled it. (Numba's ``@vectorize`` creates the same functions but
takes 60 ms for each, and 1.6 s for the first in a process.)

The functions are real ufuncs, created with ``PyUFunc_FromFuncAndData`` from NumPy's C interface.
They broadcast, accept ``out=`` and cost 0.25 µs per call on one element.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir

from virtualgpu.compilers.llvm import lock as _lock
from virtualgpu.compilers.llvm import machine_code
from virtualgpu.operations.expression import PRED, Results, Value, bits_of, llvm_type

LANES = 16
_INDEX = ir.IntType(64)
_BYTE_POINTER = ir.IntType(8).as_pointer()
_kept: list[object] = []  # tables to which NumPy keeps pointers, for the whole life of the process


def memory_kind(kind: str) -> str:
    """Return the kind in memory; predicates are stored as bytes of 0 or 1."""
    return "u8" if kind == PRED else kind


class LazyUfunc:
    """Ufunc that is compiled on request or at its first call.

    A kernel names many operations (35 for one ``math.sin``) in blocks that hardly ever run. A call
    through this object costs 0.1 µs more.
    """

    __slots__ = ("_arguments", "_function")

    def __init__(
        self,
        name: str,
        body: Results,
        sources: Sequence[str],
        destinations: Sequence[str],
        dtypes: Sequence[np.dtype],
    ):
        self._arguments = (name, body, sources, destinations, dtypes)
        self._function: np.ufunc | None = None

    def compile(self) -> np.ufunc:
        if self._function is None:
            self._function = ufunc(*self._arguments)
        return self._function

    def __call__(self, *arrays: np.ndarray) -> Any:
        return (self._function or self.compile())(*arrays)

    def __repr__(self) -> str:
        return f"<operation {self._arguments[0]}>"


def ufunc(
    name: str,
    body: Results,
    sources: Sequence[str],
    destinations: Sequence[str],
    dtypes: Sequence[np.dtype],
) -> np.ufunc:
    """Return a NumPy ufunc that computes ``body`` on every lane.

    ``sources`` and ``destinations`` are kinds (:mod:`.expression`). ``body`` takes one
    :class:`Value` per source and returns one per destination (a tuple if there are several).
    ``dtypes`` are the dtypes of the arrays, sources first. They may differ from the kinds in name
    but not in width (float16 arrays are computed as ``u16`` bits).
    """
    with _lock:
        address = machine_code(str(_module("operation", body, sources, destinations)), "operation")
        return _numpy_ufunc(name, address, dtypes, len(sources))


def _numpy_ufunc(name: str, address: int, dtypes: Sequence[np.dtype], inputs: int) -> np.ufunc:
    """Wrap a compiled loop with NumPy's C interface (Universal Functions, C-API)."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]  # not in the stubs

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(
        pointer(_multiarray_umath._UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p)
    )
    # Entry 1 of the table is PyUFunc_FromFuncAndData(functions, data, types, number of loops,
    # inputs, outputs, identity, name, documentation, unused).
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_int,
    )(table[1])
    functions, data = (ctypes.c_void_p * 1)(address), (ctypes.c_void_p * 1)(None)
    types = ctypes.create_string_buffer(bytes(dtype.num for dtype in dtypes), len(dtypes))
    label = ctypes.c_char_p(name.encode())
    _kept.append((functions, data, types, label))
    no_identity = -1  # PyUFunc_None
    made: np.ufunc = make(
        ctypes.addressof(functions),
        ctypes.addressof(data),
        ctypes.addressof(types),
        1,
        inputs,
        len(dtypes) - inputs,
        no_identity,
        label,
        label,
        0,
    )
    return made


def _module(
    symbol: str, body: Results, sources: Sequence[str], destinations: Sequence[str]
) -> ir.Module:
    """Build the loop ``void symbol(char **args, intp *count, intp *steps, void *data)``.

    Whole groups of sixteen lanes are processed as vectors if every operand is contiguous or has
    one value for all lanes (step 0: copied to a small buffer once, before the loop). The rest, and
    any other layout, is processed lane by lane.
    """
    module = ir.Module(name=symbol)
    module.triple = llvm.get_default_triple()
    signature = ir.FunctionType(
        ir.VoidType(),
        [_BYTE_POINTER.as_pointer(), _INDEX.as_pointer(), _INDEX.as_pointer(), _BYTE_POINTER],
    )
    function = ir.Function(module, signature, symbol)
    entry, spread, vectors, rest, single, done = (
        function.append_basic_block(label)
        for label in ("entry", "spread", "vectors", "rest", "single", "done")
    )
    kinds, inputs = [*sources, *destinations], len(sources)
    sizes = [bits_of(memory_kind(kind)) // 8 for kind in kinds]

    build = ir.IRBuilder(entry)
    buffers = [build.alloca(llvm_type(memory_kind(kind), LANES)) for kind in sources]
    pointers, steps = (
        [build.load(build.gep(function.args[table], [_INDEX(i)])) for i in range(len(kinds))]
        for table in (0, 2)
    )
    count = build.load(function.args[1])
    uniform = [build.icmp_signed("==", step, _INDEX(0)) for step in steps[:inputs]]
    plain = ir.Constant(ir.IntType(1), 1)
    for i, (step, size) in enumerate(zip(steps, sizes, strict=True)):
        contiguous = build.icmp_signed("==", step, _INDEX(size))
        plain = build.and_(plain, build.or_(contiguous, uniform[i]) if i < inputs else contiguous)
    whole = build.select(plain, build.and_(count, _INDEX(-LANES)), _INDEX(0))
    build.cbranch(build.icmp_signed(">", whole, _INDEX(0)), spread, rest)

    build.position_at_end(spread)
    starts = list(pointers)
    for i, kind in enumerate(sources):
        element, vector = (llvm_type(memory_kind(kind), lanes) for lanes in (None, LANES))
        undefined = ir.Constant(vector, ir.Undefined)
        one = build.insert_element(
            undefined,
            build.load(build.bitcast(pointers[i], element.as_pointer())),
            ir.IntType(32)(0),
        )
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        build.store(build.shuffle_vector(one, undefined, everywhere), buffers[i])
        starts[i] = build.select(uniform[i], build.bitcast(buffers[i], _BYTE_POINTER), starts[i])
    build.branch(vectors)

    _loop(
        build,
        body,
        (spread, vectors, rest),
        (_INDEX(0), whole),
        LANES,
        (starts, steps, sizes),
        (sources, destinations),
    )
    build.position_at_end(rest)
    build.cbranch(build.icmp_signed("<", whole, count), single, done)
    _loop(
        build,
        body,
        (rest, single, done),
        (whole, count),
        None,
        (pointers, steps, sizes),
        (sources, destinations),
    )
    build.position_at_end(done)
    build.ret_void()
    return module


def _loop(
    build: ir.IRBuilder,
    body: Results,
    blocks: tuple[ir.Block, ir.Block, ir.Block],
    bounds: tuple[ir.Value, ir.Value],
    lanes: int | None,
    operands: tuple[list[ir.Value], list[ir.Value], list[int]],
    kinds: tuple[Sequence[str], Sequence[str]],
) -> None:
    """Emit a loop from ``bounds[0]`` to ``bounds[1]`` that processes ``lanes`` at a time."""
    before, block, after = blocks
    pointers, steps, sizes = operands
    sources, destinations = kinds
    build.position_at_end(block)
    index = build.phi(_INDEX)
    index.add_incoming(bounds[0], before)

    def place(i: int, kind: str) -> ir.Value:
        where = build.gep(pointers[i], [build.mul(index, steps[i])])
        return build.bitcast(where, llvm_type(memory_kind(kind), lanes).as_pointer())

    values = []
    for i, kind in enumerate(sources):
        node = build.load(place(i, kind))
        node.align = sizes[i]
        value = Value(build, node, memory_kind(kind))
        values.append(value != 0 if kind == PRED else value)
    results = body(*values)
    results = results if isinstance(results, tuple) else (results,)
    for i, (kind, value) in enumerate(zip(destinations, results, strict=True), len(sources)):
        if value.kind != kind:
            raise TypeError(f"the body returns {value.kind} where {kind} is declared")
        stored = build.store(value.to(memory_kind(kind)).node, place(i, kind))
        stored.align = sizes[i]
    following = build.add(index, _INDEX(lanes or 1))
    index.add_incoming(following, block)
    build.cbranch(build.icmp_signed("<", following, bounds[1]), block, after)
