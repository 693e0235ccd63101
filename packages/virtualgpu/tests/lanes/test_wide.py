"""Values of 128 bits, against integers of Python."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import virtualgpu
from native_lab import agree
from ptx_lab import HEADER, entry, per_thread
from virtualgpu.errors import (
    MemoryAccessError,
    MisalignedAddressError,
    PTXSyntaxError,
    UnsupportedInstruction,
)

WIDE = ".reg .b128 %w<8>; .shared .align 16 .b8 tile[1024]; .local .align 16 .b8 own[32];"
# A value of its own for each thread, in %w1: its number above, a large one below.
MADE = "cvt.u64.u32 %rd10, %gid; mul.lo.u64 %rd11, %rd10, -7; mov.b128 %w1, {%rd11, %rd10};"


def made(thread: int) -> int:
    return thread << 64 | -7 * thread % (1 << 64)


def as_integers(array: np.ndarray) -> list[int]:
    return [int(low) | int(high) << 64 for low, high in array.reshape(-1, 2)]


@pytest.mark.parametrize("space", ["global", "shared", "local", ""])
def test_what_was_stored_is_loaded(space):
    place = {
        "global": "mad.wide.u32 %rd8, %gid, 16, %rd2;",
        "": "mad.wide.u32 %rd8, %gid, 16, %rd2;",
        "shared": "mov.u64 %rd8, tile; mad.wide.u32 %rd8, %tid, 16, %rd8;",
        "local": "mov.u64 %rd8, own;",
    }[space]
    dot = f".{space}" if space else ""
    memory = np.zeros(256, np.uint64)
    out = per_thread(
        f"""{MADE} {place} st{dot}.b128 [%rd8], %w1; ld{dot}.b128 %w2, [%rd8]; mov.b128 %w3, %w2;
        ld{dot}.u64 %rd14, [%rd8+8];
        mov.b128 {{%rd12, %rd13}}, %w3; mov.b128 {{_, %rd15}}, %w1; sub.u64 %rd14, %rd14, %rd15;
        mad.lo.u64 %rd12, %rd13, 1000003, %rd12; add.u64 %rd12, %rd12, %rd14;""",
        memory,
        grid=2,
        block=64,
        dtype=np.uint64,
        result="%rd12",
        variables=WIDE,
    )
    assert out.tolist() == [(t * 1000003 - 7 * t) % (1 << 64) for t in range(128)]
    if space in ("global", ""):
        assert as_integers(memory) == [made(t) for t in range(128)]


def test_lanes_that_part_keep_theirs_and_parameters_carry_them():
    before = """.func (.param .b128 back) swap(.param .b128 given)
        { .reg .b128 %w<4>; .reg .b64 %rd<4>;
          ld.param.b128 %w1, [given]; mov.b128 {%rd1, %rd2}, %w1; mov.b128 %w2, {%rd2, %rd1};
          st.param.b128 [back], %w2; ret; }"""
    out = per_thread(
        f"""{MADE} and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 1; @%p1 bra Odd;
        {{ .param .b128 a; .param .b128 b; st.param.b128 [a], %w1; call.uni (b), swap, (a);
           ld.param.b128 %w1, [b]; }}
        Odd: bar.warp.sync -1; mov.b128 {{%rd12, %rd13}}, %w1;
        mad.lo.u64 %rd12, %rd12, 3, %rd13;""",
        block=64,
        dtype=np.uint64,
        result="%rd12",
        variables=WIDE,
        before=before,
    )
    assert out.tolist() == [
        (-21 * t + t if t % 2 else 3 * t - 7 * t) % (1 << 64) for t in range(64)
    ]


@pytest.mark.parametrize("space", ["global", "shared", ""])
@pytest.mark.parametrize("seed", range(4))
def test_atomics_in_lane_order(space, seed):
    """Few places and few values, so that many compare equal; halves alone are equal often too."""
    chance = random.Random(seed)
    count, places = 96, 4
    values = [chance.choice((0, 1)) | chance.choice((0, 1)) << 64 for _ in range(3 * count)]
    where = [chance.randrange(places) for _ in range(count)]
    cas = chance.random() < 0.7 or seed == 0
    memory = np.zeros(2 * places, np.uint64)
    given = np.array([[v & (1 << 64) - 1, v >> 64] for v in values], np.uint64)
    indices = np.array(where, np.uint32)
    name = ("atom.acq_rel.gpu" if seed % 2 else "atom") + (f".{space}" if space else "")
    other = "cas.b128 %w3, [%rd8], %w1, %w2" if cas else "exch.b128 %w3, [%rd8], %w1"
    base = "mov.u64 %rd7, tile;" if space == "shared" else "mov.u64 %rd7, %rd2;"
    clear = (
        "st.shared.v2.u64 [tile], {0, 0}; st.shared.v2.u64 [tile+16], {0, 0};"
        "st.shared.v2.u64 [tile+32], {0, 0}; st.shared.v2.u64 [tile+48], {0, 0};bar.sync 0;"
    )
    finish = (
        ""
        if space != "shared"
        else """bar.sync 0; setp.lt.u32 %p3, %tid, 4;
        mad.wide.u32 %rd8, %tid, 16, %rd7; mad.wide.u32 %rd9, %tid, 16, %rd2;
        @%p3 ld.shared.b128 %w4, [%rd8]; @%p3 st.global.b128 [%rd9], %w4;"""
    )
    out = per_thread(
        f"""{base} {clear if space == "shared" else ""}
        mad.wide.u32 %rd8, %gid, 32, %rd3; ld.global.b128 %w1, [%rd8];
        ld.global.b128 %w2, [%rd8+16];
        mad.wide.u32 %rd9, %gid, 4, %rd4; ld.global.u32 %r3, [%rd9];
        mad.wide.u32 %rd8, %r3, 16, %rd7; {name}.{other};
        mov.b128 {{%rd12, %rd13}}, %w3; mad.lo.u64 %rd12, %rd13, 10, %rd12; {finish}""",
        memory,
        given,
        indices,
        block=count,
        dtype=np.uint64,
        result="%rd12",
        variables=WIDE,
    )
    model, olds = [0] * places, []
    for t in range(count):
        old = model[where[t]]
        olds.append((old >> 64) * 10 + (old & (1 << 64) - 1))
        if not cas:
            model[where[t]] = values[2 * t]
        elif old == values[2 * t]:
            model[where[t]] = values[2 * t + 1]
    assert out.tolist() == olds and as_integers(memory) == model


def test_a_lock_of_128_bits_under_check_and_schedules():
    """Threads add to a pair by compare and exchange: no update is lost, and nothing is a race."""
    body = """mov.u32 %r0, 0;
        Again: ld.relaxed.gpu.global.b128 %w1, [%rd2]; mov.b128 {%rd10, %rd11}, %w1;
        add.u64 %rd12, %rd10, 1; add.u64 %rd13, %rd11, 3; mov.b128 %w2, {%rd12, %rd13};
        atom.global.cas.b128 %w3, [%rd2], %w1, %w2; mov.b128 {%rd14, %rd15}, %w3;
        setp.ne.u64 %p1, %rd14, %rd10; @%p1 bra Again;
        setp.ne.u64 %p1, %rd15, %rd11; @%p1 bra Again;"""
    pair = np.zeros(2, np.uint64)
    with warnings.catch_warnings(), virtualgpu.check() as report:
        warnings.simplefilter("ignore")
        per_thread(body, pair, grid=2, block=40, variables=WIDE)
    assert report.findings == [] and pair.tolist() == [80, 240]
    with virtualgpu.schedule(3):
        per_thread(body, pair, grid=2, block=40, variables=WIDE)
    assert pair.tolist() == [160, 480]


def test_a_kernels_parameter():
    text = f"""{HEADER}.visible .entry k(.param .u64 out, .param .align 16 .b8 given[32])
        {{ .reg .b128 %w<2>; .reg .b64 %rd<4>; ld.param.u64 %rd1, [out];
           ld.param.b128 %w1, [given+16]; st.global.b128 [%rd1], %w1; ret; }}"""
    out = np.zeros(2, np.uint64)
    given = np.zeros(1, [("a", "u8", 4)])
    given["a"] = [1, 2, 3, 4]
    virtualgpu.Module.from_ptx(text).launch("k", 1, 1, [out, given[0]])
    assert out.tolist() == [3, 4]


def test_native_code_leaves_it_to_the_interpreter():
    for body in (
        f"{MADE} st.global.b128 [%rd9], %w1;",
        MADE,
        "ld.global.b128 _, [%rd9];",
        f"{MADE} atom.global.exch.b128 %w2, [%rd9], %w1;",
    ):
        agree(
            entry(
                f"mad.wide.u32 %rd9, %gid, 16, %rd1; {body} st.global.u32 [%rd9+8], 5;",
                1,
                variables=WIDE,
            ),
            np.zeros(256, np.uint64),
            refused=True,
        )


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("ld.global.b128 %w1, [%rd2+8];", MisalignedAddressError, "not a multiple of 16"),
        ("st.global.b128 [%rd2+16], %w1;", MemoryAccessError, "16 bytes"),
        ("atom.global.cas.b128 %w1, [%rd2+8], %w1, %w2;", MisalignedAddressError, "16 bytes"),
        (
            "mov.u64 %rd8, tile; atom.shared.exch.b128 %w1, [%rd8+1024], %w2;",
            MemoryAccessError,
            "shared",
        ),
    ],
)
def test_places_that_are_wrong(body, kind, words):
    with pytest.raises(kind, match=words) as caught:
        per_thread(f"mov.u32 %r0, 0; {body}", np.zeros(2, np.uint64), variables=WIDE)
    assert "thread" in str(caught.value) and "block" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "ld.global.b128 %rd3, [%rd1];",
        "ld.global.b64 %w1, [%rd1];",
        "st.global.b128 [%rd1], %rd1;",
        "st.global.b128 [%rd1], 0;",
        "add.u64 %rd3, %w1, %rd3;",
        "mov.b128 %w1, 5;",
        "mov.b128 %w1, {%r1, %r2, %r3, %r4};",
        "mov.b128 %rd3, %w1;",
        "mov.b128 %w1, %rd3;",
        "mov.b64 %w1, %rd3;",
        "ld.global.v2.b128 {%w1, %w2}, [%rd1];",
        "add.u64 %w1, %rd3, %rd3;",
        "atom.global.cas.b128 %w1, [%rd1], %w1;",
        "atom.global.exch.b128 %w1, [%rd1], %w1, %w1;",
    ],
)
def test_forms_that_are_none(body):
    with pytest.raises(PTXSyntaxError):
        per_thread(body, variables=WIDE)


@pytest.mark.parametrize(
    "name", ["atom.global.and.b128 %w1, [%rd1], %w1;", "red.global.exch.b128 [%rd1], %w1;"]
)
def test_other_atomics_say_which_there_are(name):
    with pytest.raises(UnsupportedInstruction, match=r"atom\.exch and atom\.cas"):
        per_thread(name, variables=WIDE)
