"""Matrix instructions misused, refused, and heard by observers."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from ptx_lab import entry, launch, per_thread
from virtualgpu.errors import (
    BarrierError,
    DeadlockError,
    MemoryAccessError,
    MisalignedAddressError,
    PTXSyntaxError,
    UnsupportedInstruction,
)

TILE = ".shared .align 32 .b8 tile[2048];"
LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%rd8];"
STORE = "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%rd8], {%r4, %r5};"
MULTIPLY = (
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r4, %r5}, "
    "{%r6}, {%f0, %f1, %f2, %f3};"
)
FRAGMENT = "{%r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11}"
WMMA = f"wmma.load.a.sync.aligned.row.m16n16k16.f16 {FRAGMENT}, "
# Each thread's row of 16 bytes.
PLACES = """mov.u64 %rd8, tile; mad.wide.u32 %rd8, %tid, 16, %rd8; setp.lt.u32 %p1, %tid, 16;
    setp.eq.u32 %p2, %tid, 5;"""


def fault(body: str, error, words: str, block=32):
    text = entry(
        f"{PLACES}\n.loc 1 7 0\n{body}\n.loc 1 8 0\nst.global.u32 [%rd1], %tid;", 2, variables=TILE
    )
    with pytest.raises(error, match=words) as raised:
        launch(
            text + '\n.file 1 "kernel.cu"\n',
            1,
            block,
            [np.zeros(64, np.uint32), np.zeros(4096, np.uint32)],
        )
    return raised.value.location


@pytest.mark.parametrize(
    "one",
    [
        LOAD,
        STORE,
        MULTIPLY,
        WMMA + "[%rd2];",
        f"wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd2], {FRAGMENT};",
    ],
)
@pytest.mark.parametrize(
    ("before", "block", "thread", "words"),
    [
        ("@!%p1 exit;", 32, 0, "16 of the 32 lanes of this warp run"),
        ("@%p1 ", 32, 0, "16 of the 32 lanes of this warp run"),
        ("", 48, 32, "16 of the 32 lanes of this warp run .* multiple of 32"),
    ],
)
def test_a_part_of_a_warp(one, before, block, thread, words):
    at = fault(before + one, BarrierError, words, block)
    assert (at.line, at.block, at.thread) == (7, (0, 0, 0), (thread, 0, 0))


def test_lanes_that_wait_for_the_rest_of_their_warp_at_a_barrier():
    at = fault(
        f"@!%p1 bra Past; {MULTIPLY} Past: bar.sync 0;",
        DeadlockError,
        r"16 of its threads \(the first is 0\) at line 7 for mma\.sync",
    )
    assert at.line == 7


def test_lanes_that_come_later_are_waited_for():
    """And what stands before the instruction is done before the wait."""
    out = per_thread(
        f"""{PLACES} st.volatile.shared.u32 [tile], 0; bar.sync 0;
        mov.f32 %f0, 0f00000000; mov.u32 %r4, 0x3c003c00; mov.u32 %r6, %r4; mov.u32 %r5, %r4;
        @!%p1 bra Spin;
        Multiply: st.volatile.shared.u32 [tile], 1;
        {MULTIPLY.replace("{%f0, %f1, %f2, %f3};", "{%f0, %f0, %f0, %f0};")}
        bra End;
        Spin: ld.volatile.shared.u32 %r1, [tile]; setp.eq.u32 %p3, %r1, 0;
        @%p3 bra Spin; bra Multiply;
        End:""",
        dtype=np.float32,
        result="%f0",
        variables=TILE,
    )
    assert (out == 8).all()


@pytest.mark.parametrize(
    ("body", "error", "words", "thread"),
    [
        ("@%p2 add.u64 %rd8, %rd8, 2;" + LOAD, MisalignedAddressError, "multiple of 16", 5),
        ("@%p2 add.u64 %rd8, %rd8, 8;" + STORE, MisalignedAddressError, "multiple of 16", 5),
        ("@%p2 add.u64 %rd8, %rd8, 1048576;" + LOAD, MemoryAccessError, "shared array", 5),
        (
            "mov.u64 %rd8, %rd2;" + LOAD.replace(".shared", ""),
            MemoryAccessError,
            "needs addresses in shared memory",
            0,
        ),
        (
            "mov.u64 %rd8, %rd2;" + STORE.replace(".shared", ""),
            MemoryAccessError,
            "needs addresses in shared memory",
            0,
        ),
        (WMMA + "[%rd2+16];", MisalignedAddressError, "starts at an address.* multiple of 32", 0),
        (WMMA + "[%rd2], 20;", MisalignedAddressError, "one line to the next.* multiple of 16", 0),
        (WMMA + "[%rd2], 65536;", MemoryAccessError, "reads", 0),
        ("@%p2 add.u64 %rd2, %rd2, 32;" + WMMA + "[%rd2];", BarrierError, "address differs", 5),
        (
            "mov.u32 %r3, 16; @%p2 mov.u32 %r3, 24;" + WMMA + "[%rd2], %r3;",
            BarrierError,
            "stride differs",
            5,
        ),
        (
            ".local .align 32 .b8 mine[512]; mov.u64 %rd8, mine; cvta.local.u64 %rd8, %rd8;"
            + WMMA
            + "[%rd8];",
            MemoryAccessError,
            "local memory",
            0,
        ),
        (
            f"wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [tile+1536], {FRAGMENT};",
            MemoryAccessError,
            "writes 16 bytes of shared memory",
            0,
        ),
    ],
)
def test_bad_addresses(body, error, words, thread):
    at = fault(body, error, words)
    assert (at.line, at.block, at.thread) == (7, (0, 0, 0), (thread, 0, 0))


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, "
            "%rd1, 1, 1, 1, "
            "0, 0;",
            "mma.sync.*Compile for compute_90 without the letter",
        ),
        (
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%rd8], 32;",
            "mma.sync.*Compile for compute_90 without the letter",
        ),
        (
            "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1, %r2}, {%r1, %r2}, "
            "{%r1, %r2}, "
            "{%r1, %r2}, %r3, 0;",
            "dense matrix with mma.sync without .sp",
        ),
        (
            "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3, %f4, %f5, "
            "%f6, %f7}, "
            "{%r1, %r2}, {%r1, %r2}, {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};",
            "compute_80 or later",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3}, {%r1, "
            "%r2, %r3, "
            "%r4}, {%r1, %r2}, {%f0, %f1, %f2, %f3};",
            "f16, bf16, tf32, f64, s8 and u8",
        ),
        (
            "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%r1, %r2}, {%r3}, {%r4}, {%r1, %r2};",
            "f16, bf16, tf32, f64, s8 and u8",
        ),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%rd8];", "compute_90"),
        ("wmma.load.a.sync.aligned.row.m8n8k32.s4 {%r1}, [%rd2];", "f16, bf16, tf32"),
    ],
)
def test_what_is_refused_says_what_to_do(form, words):
    with pytest.raises(UnsupportedInstruction, match=words) as raised:
        launch(
            entry(f"\n.loc 1 7 0\n{form}", 2) + '\n.file 1 "kernel.cu"\n',
            1,
            32,
            [np.zeros(4, np.uint32)] * 2,
        )
    assert raised.value.location.line == 7


@pytest.mark.parametrize(
    "form",
    [
        MULTIPLY.replace("{%r6}", "{%r6, %r7}"),
        MULTIPLY.replace("{%r6}", "{%rd6}"),
        MULTIPLY.replace("row.col", "col.row"),
        MULTIPLY.replace("f32.f16.f16.f32", "f32.f16.bf16.f32"),
        MULTIPLY.replace("f32.f16.f16.f32", "f16.f16.f16.f32"),
        MULTIPLY.replace("row.col", "row.col.satfinite"),
        MULTIPLY.replace("row.col", "row.col.rz"),
        MULTIPLY.replace("{%f0, %f1, %f2, %f3}, {%r4", "{1, %f1, %f2, %f3}, {%r4"),
        MULTIPLY.replace(", {%f0, %f1, %f2, %f3};", ";"),
        LOAD.replace(", %r7", ""),
        LOAD.replace("x4", "x8"),
        LOAD.replace(".shared", ".global"),
        LOAD.replace("[%rd8]", "[%rd8], 1"),
        WMMA.replace("f16", "f32") + "[%rd2];",
        WMMA.replace(".row", "") + "[%rd2];",
        WMMA.replace("m16n16k16", "m16n16k16.local") + "[%rd2];",
        WMMA + "%rd2;",
        "mma.sync;",
        "wmma;",
        "ldmatrix;",
        "stmatrix.sync.aligned.m8n8.b16 [%rd2], {};",
        "wmma.mma.sync.aligned.m16n16k16.f32.f32.row.col {%r4}, {%r4}, {%r4}, {%r4};",
    ],
)
def test_what_is_no_instruction(form):
    with pytest.raises((PTXSyntaxError, UnsupportedInstruction)):
        per_thread(f"mov.u64 %rd2, 0; mov.u64 %rd8, 0; {form}")


# -- what observers hear ---------------------------------------------------------------------------

FILL = "st.shared.v4.u32 [%rd8], {%tid, %tid, %tid, %tid};"
KEEP = "mad.wide.u32 %rd9, %gid, 4, %rd1; st.global.u32 [%rd9], %r4;"


def checked(body: str, **options):
    with virtualgpu.check(**options) as report:
        launch(entry(PLACES + body, 1, variables=TILE), 1, 32, [np.zeros(512, np.uint32)])
    return report


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (f"{FILL} bar.sync 0; {LOAD} {KEEP}", set()),
        (f"{FILL} bar.warp.sync -1; {LOAD} {KEEP}", set()),
        (
            f"{FILL} xor.b32 %r1, %tid, 1; mov.u64 %rd8, tile; mad.wide.u32 %rd8, %r1, 16, %rd8; "
            f"{LOAD} {KEEP}",
            {"race"},
        ),
        (f"{LOAD} {KEEP}", {"uninitialised"}),
        (f"{STORE} bar.sync 0; {LOAD} {KEEP}", {"uninitialised"}),
        (f"{WMMA.replace('.f16', '.shared.f16')}[tile]; {KEEP}", {"uninitialised"}),
        (
            f"{FILL} wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [tile], {FRAGMENT};",
            {"race"},
        ),
        (
            f"{FILL} bar.sync 0; wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [tile], "
            f"{FRAGMENT};"
            f"bar.sync 0; {LOAD} {KEEP}",
            set(),
        ),
    ],
)
def test_checkers_know_the_tile(body, kinds):
    report = checked(body)
    assert {finding.kind for finding in report.findings} == kinds, str(report)


@pytest.mark.parametrize(("pitch", "conflicts"), [(16, 0), (128, 28), (144, 0)])
def test_rows_in_the_same_banks_are_counted(pitch, conflicts):
    """Eight rows a turn: side by side they fill the 32 banks, 128 bytes apart each turn has 8."""
    body = (
        f"mov.u64 %rd8, tile; mad.wide.u32 %rd8, %tid, {pitch}, %rd8; "
        f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%rd8]; {KEEP}"
    )
    with virtualgpu.profile() as profile:
        launch(
            entry(body, 1, variables=".shared .align 128 .b8 tile[8192];"),
            1,
            32,
            [np.zeros(512, np.uint32)],
        )
    counters = profile.launches[0].counters
    assert counters.shared_load_conflicts == conflicts
    assert counters.shared_load_requests == 1


def test_tiles_and_products_are_counted():
    body = f"{WMMA}[%rd1]; {MULTIPLY} {KEEP}"
    with virtualgpu.profile() as profile:
        launch(entry(body, 1), 1, 32, [np.zeros(512, np.uint32)])
    counters = profile.launches[0].counters
    assert (counters.global_load_requests, counters.global_load_sectors) == (1, 16)
    assert counters.flops == 2 * 16 * 8 * 8
    assert counters.warp_instructions_by_class["tensor"] == 2
