"""What is remembered while Numba compiles changes nothing in the PTX, and is asked for once."""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest
from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.descriptor import cuda_target

import virtualgpu
from virtualgpu.numba import remembered

COLUMN = types.Array(types.float64, 1, "C")


def add_up(x, out):
    own = cuda.shared.array(32, types.float64)
    t = cuda.threadIdx.x
    own[t] = x[cuda.grid(1)] if cuda.grid(1) < x.size else 0.0
    cuda.syncthreads()
    cuda.atomic.add(out, min(int(own[t]), out.size - 1), own[t])


def with_libdevice(x, out):
    pair = (math.sin(x[0]), math.exp(x[0]))
    for i in range(2):
        out[i] = pair[i] ** 0.3


@pytest.fixture
def active():
    """The hooks are in place; afterwards as before."""
    before = virtualgpu.is_active()
    virtualgpu.activate(force=True)
    yield
    if not before:
        virtualgpu.deactivate()


def ptx_of(kernel, **options) -> str:
    text, _ = cuda.compile_ptx(kernel, (COLUMN, COLUMN), cc=(9, 0), **options)
    # Without numbers that count compilations, in names and in the strings for a debugger.
    return re.sub(r"B\d+v\d+|(?<=_cudapy_smem_)\d+", "", text.split(".section")[0])


@pytest.mark.parametrize("options", [{}, {"lineinfo": True}, {"debug": True, "opt": False}])
@pytest.mark.parametrize("kernel", [add_up, with_libdevice])
def test_the_ptx_is_the_same(kernel, options, active):
    ours = ptx_of(kernel, **options)
    virtualgpu.deactivate()
    theirs = ptx_of(kernel, **options)
    virtualgpu.activate(force=True)
    assert ours == theirs


def test_the_size_of_a_type_is_asked_once(active, monkeypatch):
    asked: Counter[str] = Counter()
    original = ir.Type.get_abi_size

    def get_abi_size(self, *arguments):
        asked[str(self)] += 1
        return original(self, *arguments)

    monkeypatch.setattr(ir.Type, "get_abi_size", get_abi_size)
    context = cuda_target.target_context
    kind = ir.LiteralStructType([ir.IntType(8), ir.DoubleType()])
    assert [context.get_abi_sizeof(kind) for _ in range(3)] == [16, 16, 16]
    assert asked[str(kind)] <= 1


def test_types_of_one_name_keep_their_own_sizes():
    size_of = remembered._sizes(lambda context, array: array.element.elements[0].width // 8 * 3)
    sizes = []
    for width in (32, 64):
        named = ir.IdentifiedStructType(ir.Context(), "remembered")
        named.set_body(ir.IntType(width))
        sizes.append(size_of(None, ir.ArrayType(named, 3)))
    assert sizes == [12, 24]


def test_the_hash_of_a_node_is_worked_out_once(active):
    module = ir.Module()
    leaf = module.add_debug_info("DIBasicType", {"name": "int", "size": 32})
    node = module.add_debug_info("DIDerivedType", {"baseType": leaf})
    first = hash(node)
    leaf.operands = ()  # would give another
    assert hash(node) == first
    assert hash(module.add_debug_info("DIDerivedType", {"baseType": leaf})) == first


def test_all_options_are_there_in_their_order(active):
    from numba.cuda.compiler import CUDAFlags

    flags = CUDAFlags()
    flags.debuginfo = True
    assert flags.values() == {name: getattr(flags, name) for name in CUDAFlags.options}
    assert list(flags.values()) == list(CUDAFlags.options)
