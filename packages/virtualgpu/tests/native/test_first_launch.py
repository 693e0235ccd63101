"""What the first launch of a kernel does not pay for: Python's search for garbage, code that
nothing but another way through the same place needs, and a refusal that is known already."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from native_lab import after, agree
from ptx_lab import entry
from virtualgpu import native
from virtualgpu.compilers import cache
from virtualgpu.launch.linker import LoadedModule
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.native import kernel, run
from virtualgpu.native.lowering import Lowering
from virtualgpu.native.memory import access_helpers

ONE = """mul.wide.u32 %rd5, %gid, 4;  add.s64 %rd5, %rd5, %rd1;  mov.u32 %r0, 1;
    st.global.u32 [%rd5], %r0;"""
ITSELF = """.func f() { .reg .b32 %a; .reg .pred %q; mov.u32 %a, %laneid;
    setp.gt.u32 %q, %a, 99; @%q call f; ret; }"""
# Each thread adds its element of the second array to that of the first; %r6 is its index.
ADD = """mul.wide.u32 %rd5, %r6, 4;  add.s64 %rd6, %rd1, %rd5;  add.s64 %rd7, %rd2, %rd5;
    ld.global.u32 %r1, [%rd6];  ld.global.u32 %r2, [%rd7];  add.u32 %r1, %r1, %r2;
    st.global.u32 [%rd6], %r1;"""
INDEX = """mov.u32 %r3, %ctaid.x;  mov.u32 %r4, %ntid.x;  mov.u32 %r5, %tid.x;
    mad.lo.u32 %r6, %r3, %r4, %r5;"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("VIRTUALGPU_CACHE", str(tmp_path / "code"))
    monkeypatch.setattr(cache, "_off", False)
    monkeypatch.setattr(run, "STRICT", True)


@pytest.fixture
def builds(monkeypatch):
    """Of each kernel that is compiled, whether Python looked for garbage meanwhile."""
    collects: list[bool] = []
    build = kernel.build

    def spy(program, variant):
        collects.append(gc.isenabled())
        return build(program, variant)

    monkeypatch.setattr(kernel, "build", spy)
    return collects


def launched(source: str):
    contents, error, code = after(source, native.natively, [np.zeros(128, np.uint32)])
    assert error is None and contents[0].view(np.uint32).all()
    return code


@pytest.mark.parametrize("source", [entry(ONE, 1), entry(f"call f; {ONE}", 1, before=ITSELF)])
@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_looked_for_while_a_kernel_is_compiled(builds, source, collects):
    try:
        if not collects:
            gc.disable()
        launched(source)
        assert gc.isenabled() is collects
    finally:
        gc.enable()
    assert builds == [False]


def test_a_compiler_that_breaks_leaves_the_collector_on(monkeypatch):
    def broken(program, variant):
        raise RuntimeError("broken")

    monkeypatch.setattr(kernel, "build", broken)
    with pytest.raises(RuntimeError, match="broken"):
        launched(entry(ONE, 1))
    assert gc.isenabled()


def test_a_refusal_is_known_to_the_next_process(builds):
    source = entry(f"call f; {ONE}", 1, before=ITSELF)
    first = launched(source)
    assert isinstance(first, str) and len(builds) == 1
    assert launched(source) == first and len(builds) == 1
    assert not isinstance(launched(entry(ONE, 1)), str) and len(builds) == 2


def lowered(source: str) -> str:
    program = LoadedModule(GlobalMemory(1 << 20), [source], None).program("k", False)
    return str(Lowering(program, "native").warp.module)


def test_a_place_that_has_rows_does_not_look_for_them_again():
    """Where its accesses cannot be made in rows, they are neighbours throughout or one by one."""
    source = entry(INDEX + ADD, 2)
    assert access_helpers.form() not in lowered(source)
    assert access_helpers.form() in lowered(
        source.replace(
            # a product of two indices has no stride
            "mul.wide.u32 %rd5",
            "mul.lo.u32 %r6, %r6, %r6;  mul.wide.u32 %rd5",
        )
    )


@pytest.mark.parametrize("block", [(32, 1, 1), (16, 2, 1), (8, 4, 1), (10, 3, 1)])
@pytest.mark.parametrize(
    "index",
    [
        "",
        "xor.b32 %r6, %r6, 31;",
        "and.b32 %r6, %r6, 7;",
        "mad.lo.u32 %r6, %r7, 16, %r6;",
        "setp.gt.u32 %p1, %r7, 0;  @%p1 add.u32 %r6, %r6, %r3;",
    ],
)
def test_rows_or_not_the_results_are_the_same(block, index):
    """One warp, so that no order is left open; most have a row that is none."""
    agree(
        entry(f"{INDEX} mov.u32 %r7, %tid.y; {index} {ADD}", 2),
        *np.random.default_rng(1).integers(0, 1 << 32, (2, 1024), np.uint32),
        grid=1,
        block=block,
    )
