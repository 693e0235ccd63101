"""Compiled expressions: the language's own rules, array layouts, threads, plain processors."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from virtualgpu.operations import compiler, expression, lookup
from virtualgpu.operations.expression import select
from virtualgpu_fixtures import SUPPORT


def compiled(body, *kinds, result):
    dtypes = [
        np.dtype(
            "?" if k == "pred" else {"s": "i", "u": "u", "f": "f"}[k[0]] + str(int(k[1:]) // 8)
        )
        for k in (*kinds, result)
    ]
    return compiler.ufunc("test", body, kinds, (result,), dtypes)


def test_any_layout_of_the_operands():
    add = compiled(lambda a, b: a + b * 2, "s32", "s32", result="s32")
    a, b = np.arange(400, dtype=np.int32), np.arange(400, dtype=np.int32)[::-1]
    assert (add(a, b) == a + 2 * b).all()
    assert (add(a[::3], b[::-3][: len(a[::3])]) == a[::3] + 2 * b[::-3][: len(a[::3])]).all()
    raw = np.zeros(1601, np.uint8)[1:].view(np.int32)  # not aligned
    raw[:] = a
    assert (add(raw, b) == a + 2 * b).all()
    grid = a.reshape(20, 20)
    assert (add(grid, grid.T) == grid + 2 * grid.T).all()
    out = np.zeros(400, np.int32)
    assert add(a, b, out=out) is out
    assert add(a, b[:1]).shape == (400,)
    assert add(a[:0], b[:1]).shape == (0,)


def test_kinds_do_not_mix():
    with pytest.raises(TypeError, match="s32 meets f32"):
        compiled(lambda a, b: a + b, "s32", "f32", result="s32")
    with pytest.raises(TypeError, match="no such operator on f32"):
        compiled(lambda a: a & a, "f32", result="f32")
    with pytest.raises(TypeError, match="differ in width"):
        compiled(lambda a: a.view("u64"), "f32", result="u64")
    with pytest.raises(TypeError, match="returns u32 where s32 is declared"):
        compiled(lambda a: a.view("u32"), "s32", result="s32")


def test_predicates_are_bytes_that_are_zero_or_one():
    less = compiled(lambda a, b: a < b, "s32", "s32", result="pred")
    got = less(np.arange(40, dtype=np.int32), np.array([20], np.int32))
    assert set(got.view(np.uint8).tolist()) == {0, 1}
    choose = compiled(lambda p, a: select(p, a, 0), "pred", "s32", result="s32")
    assert choose(got, np.array([7], np.int32)).tolist() == [7] * 20 + [0] * 20


def test_plain_numbers_take_the_kind_of_the_left():
    body = {"s32": lambda a: a * -1 + 2, "f64": lambda a: a * 0.5, "u64": lambda a: a & -2}
    for kind, function in body.items():
        run = compiled(function, kind, result=kind)
        array = np.arange(20).astype({"s32": "i4", "f64": "f8", "u64": "u8"}[kind])
        expected = {"s32": 2 - array, "f64": array / 2, "u64": array - array % 2}[kind]
        assert (run(array) == expected).all(), kind
    assert expression.bits_of("pred") == 1


def test_operations_are_compiled_at_their_first_call(monkeypatch):
    compiled_names = []
    monkeypatch.setattr(
        compiler, "ufunc", lambda name, *rest: compiled_names.append(name) or np.add
    )
    operation = lookup.__wrapped__("selp", ("b32",), 3, 1)
    assert compiled_names == []
    for _ in range(3):
        assert operation.function(1, 2) == 3
    assert compiled_names == ["selp.b32"]
    assert "selp.b32" in repr(operation.function)


def test_many_threads_may_compile_at_once():
    results, barrier = {}, threading.Barrier(6)

    def work(number):
        barrier.wait()
        for power in range(5):
            run = compiled(lambda a, factor=number + power: a * factor, "u32", result="u32")
            results[number, power] = run(np.arange(20, dtype=np.uint32))[-1]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {(n, p): 19 * (n + p) for n in range(6) for p in range(5)}


PLAIN_PROCESSOR = """
import numpy as np
from llvmlite import binding
binding.get_host_cpu_name = lambda: "generic"
def nothing():
    raise RuntimeError("features not known")
binding.get_host_cpu_features = nothing
import operations_reference as reference
from operations_reference import F32, F64, call
for fmt, name in ((F32, "f32"), (F64, "f64")):
    operands = [reference.samples(fmt, 200, seed) for seed in (1, 2, 3)]
    rows = [tuple(map(int, row)) for row in zip(*operands)]
    for mode in "nzmp":
        reference.assert_bits(fmt, call(f"fma.r{mode}.{name}", *operands),
                              [reference.multiply_add(fmt, *row, mode) for row in rows], *operands)
    reference.assert_bits(fmt, call(f"sqrt.rz.{name}", operands[0]),
                          [reference.square_root(fmt, row[0], "z") for row in rows], operands[0])
x = np.array([0.5, 1.5, -2.5, 2.4, -2.6] * 4, np.float32)
for mode, exact in (("n", np.rint), ("z", np.trunc), ("m", np.floor), ("p", np.ceil)):
    assert (call(f"cvt.r{mode}i.f32.f32", x) == exact(x)).all()
    assert (call(f"cvt.r{mode}i.s64.f32", x) == exact(x)).all()
assert call("popc.b32", x).tolist() == [int(v).bit_count() for v in x.view(np.uint32)]
assert call("div.u64", [7] * 20, [2] * 20).tolist() == [3] * 20
"""


def test_exact_on_a_processor_without_fused_multiply_add():
    """The oldest processor of the family: LLVM then calls the C library for what is missing."""
    subprocess.run([sys.executable, "-c", PLAIN_PROCESSOR], check=True, cwd=SUPPORT, timeout=120)
