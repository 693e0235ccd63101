"""Atomics of every type and operation against a loop over the lanes."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from ptx_lab import ATOMIC_VECTORS, per_thread
from virtualgpu.errors import (
    MemoryAccessError,
    MisalignedAddressError,
    PTXSyntaxError,
    UnsupportedInstruction,
)

LANES = 96
WORDS = 7  # addresses that the lanes share
RANDOM = np.random.default_rng(3)


def _inc(old, b):
    return type(old)(0) if old >= b else type(old)(old + 1)


def _dec(old, b):
    return b if old == 0 or old > b else type(old)(old - 1)


OPERATIONS = {
    "add": lambda old, b: old + b,
    "min": min,
    "max": max,
    "and": lambda old, b: old & b,
    "or": lambda old, b: old | b,
    "xor": lambda old, b: old ^ b,
    "exch": lambda old, b: b,
    "inc": _inc,
    "dec": _dec,
}
CASES = [
    *[("add", t) for t in ("u32", "s32", "u64", "f32", "f64")],
    *[(o, t) for o in ("min", "max") for t in ("u32", "s32", "u64", "s64")],
    *[(o, t) for o in ("and", "or", "xor", "exch") for t in ("b32", "b64")],
    ("inc", "u32"),
    ("dec", "u32"),
]
# PTX type: NumPy type, register bank
TYPES = {
    "u32": ("u4", "%r"),
    "s32": ("i4", "%r"),
    "b32": ("u4", "%r"),
    "u64": ("u8", "%rd"),
    "s64": ("i8", "%rd"),
    "b64": ("u8", "%rd"),
    "f32": ("f4", "%f"),
    "f64": ("f8", "%fd"),
}


def values(dtype: np.dtype, count: int, small: bool) -> np.ndarray:
    if dtype.kind == "f":
        return RANDOM.normal(0, 1, count).astype(dtype) * dtype.type(2.0) ** RANDOM.integers(
            -20, 20, count
        ).astype(dtype)
    if small:
        return RANDOM.integers(0, 5, count).astype(dtype)
    return np.frombuffer(RANDOM.bytes(count * dtype.itemsize), dtype).copy()


def lane_after_lane(operation, memory, where, b):
    memory, old = memory.copy(), np.empty_like(b)
    with np.errstate(all="ignore"):
        for lane, place in enumerate(where):
            old[lane] = memory[place]
            memory[place] = OPERATIONS[operation](memory[place], b[lane])
    return memory, old


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize(("operation", "kind"), CASES)
def test_atom_returns_the_old_value_and_changes_memory(operation, kind, space):
    """Lanes in lane order: one order that hardware may choose, and always the same here."""
    code, bank = TYPES[kind]
    dtype = np.dtype(code)
    size = dtype.itemsize
    small = operation in ("inc", "dec")
    memory, b = values(dtype, WORDS, small), values(dtype, LANES, small)
    where = RANDOM.integers(0, WORDS, LANES).astype(np.uint32)
    wanted, wanted_old = lane_after_lane(operation, memory, where, b)
    old = np.zeros_like(b)
    tile, base, word = "", "%rd2", {"global": ".global", "shared": ".shared"}.get(space, "")
    if space != "global":
        # the words go to shared memory first, and back last
        tile = f".shared .align 8 .b8 tile[{WORDS * size}];"
        base = "%rd10"
    move = (
        f"""
        setp.ne.u32 %p1, %tid, 0; @%p1 bra Filled{{n}};
        mov.u32 %r1, 0;
        Next{{n}}: mad.wide.u32 %rd11, %r1, {size}, %rd2; mov.u64 %rd12, tile;
        mad.wide.u32 %rd12, %r1, {size}, %rd12;
        ld.{{a}}.b{8 * size} %rd13, [{{x}}]; st.{{b}}.b{8 * size} [{{y}}], %rd13;
        add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, {WORDS}; @%p1 bra Next{{n}};
        Filled{{n}}: bar.sync 0;"""
        if tile
        else ""
    )
    body = (
        move.format(n=1, a="global", b="shared", x="%rd11", y="%rd12")
        + f"""
        {"mov.u64 %rd10, tile;" * bool(tile)}
        {"cvta.shared.u64 %rd10, %rd10;" * (space == "generic")}
        mad.wide.u32 %rd6, %tid, 4, %rd4; ld.global.u32 %r1, [%rd6];
        mad.wide.u32 %rd6, %r1, {size}, {base};
        mad.wide.u32 %rd7, %tid, {size}, %rd3; ld.global.b{8 * size} {bank}9, [%rd7];
        atom{word}.{operation}.{kind} {bank}8, [%rd6], {bank}9;
        mad.wide.u32 %rd7, %tid, {size}, %rd5; st.global.b{8 * size} [%rd7], {bank}8;
        bar.sync 0;
        """
        + move.format(n=2, a="shared", b="global", x="%rd12", y="%rd11")
        + "mov.u32 %r0, 0;"
    )
    got = memory.copy()
    per_thread(body, got, b, where, old, block=LANES, variables=tile)
    np.testing.assert_array_equal(got.view(f"u{size}"), wanted.view(f"u{size}"))
    np.testing.assert_array_equal(old.view(f"u{size}"), wanted_old.view(f"u{size}"))


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_compare_and_swap(kind):
    """Each lane swaps only where it finds what it expects; a lane may hit its own neighbour's."""
    size = int(kind[1:]) // 8
    dtype = np.dtype(f"u{size}")
    bank = {2: "%h", 4: "%r", 8: "%rd"}[size]
    memory = RANDOM.integers(0, 3, WORDS).astype(dtype)
    expect, new = (RANDOM.integers(0, 3, LANES).astype(dtype) for _ in range(2))
    where = RANDOM.integers(0, WORDS, LANES).astype(np.uint32)
    wanted, wanted_old = memory.copy(), np.empty(LANES, dtype)
    for lane, place in enumerate(where):
        wanted_old[lane] = wanted[place]
        if wanted[place] == expect[lane]:
            wanted[place] = new[lane]
    old = np.zeros(LANES, dtype)
    got = memory.copy()
    per_thread(
        f"""
        mad.wide.u32 %rd10, %tid, 4, %rd5; ld.global.u32 %r1, [%rd10];
        mad.wide.u32 %rd10, %r1, {size}, %rd2;
        mad.wide.u32 %rd11, %tid, {size}, %rd3; ld.global.{kind} {bank}7, [%rd11];
        mad.wide.u32 %rd11, %tid, {size}, %rd4; ld.global.{kind} {bank}8, [%rd11];
        atom.global.cas.{kind} {bank}9, [%rd10], {bank}7, {bank}8;
        mad.wide.u32 %rd11, %tid, {size}, %rd6; st.global.{kind} [%rd11], {bank}9;
        mov.u32 %r0, 0;""",
        got,
        expect,
        new,
        where,
        old,
        block=LANES,
    )
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(old, wanted_old)


def test_red_is_atom_without_an_answer():
    counter = np.zeros(2, np.uint32)
    per_thread(
        "red.global.add.u32 [%rd2], 1; red.add.u32 [%rd2+4], %tid; mov.u32 %r0, 0;",
        counter,
        grid=7,
        block=50,
    )
    assert counter.tolist() == [350, 7 * sum(range(50))]


def test_half_precision_sums():
    """f16 rounds after every addition; f16x2 and bf16x2 add two numbers, each by itself."""
    start = np.float16([1.0, 2048.0, -3.0])
    plain, packed, coarse = start[:2].copy(), start[1:].copy(), np.uint16([0x4380, 0x3F80])
    once = np.uint16([0x4380, 0x3F80])
    per_thread(
        """
        mov.b16 %h1, 0x3c00; mov.b32 %r1, 0x3c003c00; mov.b32 %r2, 0x3f803f80;
        red.global.add.noftz.f16 [%rd2], %h1; atom.global.add.noftz.f16 %h2, [%rd2+2], %h1;
        red.global.add.noftz.f16x2 [%rd3], %r1; red.global.add.noftz.bf16x2 [%rd4], %r2;
        setp.ne.u32 %p1, %tid, 0; @%p1 bra Out;
        mov.b32 %r3, 0x40404040; red.global.add.noftz.bf16x2 [%rd5], %r3;
        Out: mov.u32 %r0, 0;""",
        plain,
        packed,
        coarse,
        once,
        block=8,
    )
    assert plain.tolist() == [9.0, 2048.0]  # 2048 + 1 rounds to even, eight times
    assert packed.tolist() == [2048.0, 5.0]
    assert coarse.tolist() == [0x4380, 0x4110]  # 256 + 1 rounds to even; 1 + 8 = 9
    assert once.tolist() == [0x4382, 0x4080]  # 256 + 3 rounds to even, up: 260; 1 + 3 = 4


def half_sum(a: int, b: int, brain: bool) -> int:
    """Two 16-bit patterns added exactly, in Python's own fractions, and rounded once."""
    if not brain:
        pair = np.array([a, b], np.uint16).view(np.float16).astype(np.float64)
        return int(np.float16(pair.sum()).view(np.uint16))  # a sum of two f16 is exact in f64
    pair = (np.array([a, b], np.uint32) << 16).view(np.float32).astype(np.float64)
    total = float(pair.sum())  # exact: exponents here lie close together
    low, high = (np.array([int(np.float32(total).view(np.uint32)) & 0xFFFF0000], np.uint32),) * 2
    high = low + np.uint32(0x10000)
    near = [abs(float(x.view(np.float32)[0]) - total) for x in (low, high)]
    choice = low if near[0] < near[1] or (near[0] == near[1] and not low[0] >> 16 & 1) else high
    return int(choice[0] >> 16)


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize(("kind", "width"), ATOMIC_VECTORS)
def test_vector_atomics(kind, width, answers, generic):
    """PTX ISA, "atom", "red": each element is an atomic of its own."""
    size = {"f32": 4, "f16x2": 4, "bf16x2": 4}.get(kind, 2)
    bank = {"f32": "%f", "f16": "%h", "bf16": "%h"}.get(kind, "%r")
    halves = kind != "f32"
    one = np.dtype("u2") if halves else np.dtype("f4")
    count = width * size // one.itemsize

    def some(rows):
        numbers = RANDOM.uniform(1, 4, (rows, count)).astype(np.float32)
        if not halves:
            return numbers
        if kind.startswith("b"):
            return (numbers.view(np.uint32) >> 16).astype(np.uint16)
        return numbers.astype(np.float16).view(np.uint16)

    memory, b = some(3), some(LANES)
    where = RANDOM.integers(0, 3, LANES).astype(np.uint32)
    wanted, wanted_old = memory.copy(), np.zeros_like(b)
    for lane, row in enumerate(where):
        wanted_old[lane] = wanted[row] if answers else 0
        for i in range(count):
            wanted[row, i] = (
                half_sum(wanted[row, i], b[lane, i], kind.startswith("b"))
                if halves
                else wanted[row, i] + b[lane, i]
            )
    old, got = np.zeros_like(b), memory.copy()
    step, bits = width * size, 8 * size
    given, taken = (", ".join(f"{bank}{i + n}" for i in range(width)) for n in (0, 8))
    name = f"{'' if generic else '.global'}.add{'.noftz' * halves}.v{width}.{kind}"
    loads = "".join(f"ld.global.b{bits} {bank}{i}, [%rd7+{i * size}];" for i in range(width))
    keeps = "".join(f"st.global.b{bits} [%rd7+{i * size}], {bank}{i + 8};" for i in range(width))
    op = (
        f"atom{name} {{{taken}}}, [%rd6], {{{given}}};"
        f"mad.wide.u32 %rd7, %tid, {step}, %rd5; {keeps}"
        if answers
        else f"red{name} [%rd6], {{{given}}};"
    )
    per_thread(
        f"""
        mad.wide.u32 %rd6, %tid, 4, %rd4; ld.global.u32 %r30, [%rd6];
        mad.wide.u32 %rd6, %r30, {step}, %rd2;
        mad.wide.u32 %rd7, %tid, {step}, %rd3; {loads} {op} mov.u32 %r0, 0;""",
        got,
        b,
        where,
        old,
        block=LANES,
    )
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(old, wanted_old)


def test_a_vector_atomic_misused():
    """At an address that is no multiple of its size, in shared memory, beyond the array, with the
    wrong number of values."""
    add = "red.global.add.v4.f32 [%rd3], {%f1, %f2, %f3, %f4}; mov.u32 %r0, 0;"
    memory = np.zeros(8, np.float32)
    with pytest.raises(MisalignedAddressError, match="16 bytes") as wrong:
        per_thread(
            "setp.eq.u32 %p1, %tid, 5; selp.b64 %rd3, 8, 0, %p1;add.u64 %rd3, %rd2, %rd3;" + add,
            memory,
        )
    assert wrong.value.location.thread[0] == 5
    with pytest.raises(MemoryAccessError, match="illegal address"):
        per_thread("add.u64 %rd3, %rd2, 32;" + add, memory)
    with pytest.raises(MemoryAccessError, match="only for global memory"):
        per_thread(
            "mov.u64 %rd3, tile; cvta.shared.u64 %rd3, %rd3;" + add.replace(".global", ""),
            memory,
            variables=".shared .align 16 .b8 tile[32];",
        )
    for text in (add.replace(".global", ".shared"), add.replace(", %f4", "")):
        with pytest.raises(PTXSyntaxError, match=r"vector atomics|3 values"):
            per_thread("mov.u64 %rd3, %rd2;" + text, memory)


def test_float_sums_round_at_every_step():
    """One lane after the other: not a pairwise sum, and not a sum in double precision."""
    sum_, x = np.zeros(1, np.float32), RANDOM.normal(0, 1, 256).astype(np.float32)
    per_thread(
        "mad.wide.u32 %rd4, %tid, 4, %rd3; ld.global.f32 %f1, [%rd4];"
        "red.global.add.f32 [%rd2], %f1; mov.u32 %r0, 0;",
        sum_,
        x,
        block=256,
    )
    wanted = np.float32(0)
    for value in x:
        wanted += value
    assert sum_[0] == wanted


SMALLEST = np.float32(2**-126)  # the smallest normal float32


@pytest.mark.parametrize(
    ("memory", "b", "in_global", "in_shared"),
    [
        (SMALLEST / 2, SMALLEST / 2, 0.0, SMALLEST),  # flushed before the sum
        (-SMALLEST / 2, -0.0, -0.0, -SMALLEST / 2),  # to a zero of the same sign
        (SMALLEST, -SMALLEST * np.float32(1.5), -0.0, -SMALLEST / 2),  # and after it
        (SMALLEST, SMALLEST, 2 * SMALLEST, 2 * SMALLEST),
    ],
)
def test_float32_sums_in_global_memory_flush_subnormal_numbers(memory, b, in_global, in_shared):
    """PTX ISA, "atom": ... and those in shared memory do not."""
    words = np.float32([memory, memory, 0])
    addend = np.float32([b])
    per_thread(
        """
        ld.global.f32 %f1, [%rd3]; ld.global.f32 %f2, [%rd2+4];
        atom.global.add.f32 %f3, [%rd2], %f1;
        st.shared.f32 [word], %f2; red.shared.add.f32 [word], %f1;
        ld.shared.f32 %f2, [word]; st.global.f32 [%rd2+4], %f2; st.global.f32 [%rd2+8], %f3;
        mov.u32 %r0, 0;""",
        words,
        addend,
        block=1,
        variables=".shared .align 4 .b8 word[4];",
    )
    np.testing.assert_array_equal(
        words.view(np.uint32), np.float32([in_global, in_shared, memory]).view(np.uint32)
    )


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_every_ticket_is_drawn_once(seed):
    counter = np.zeros(1, np.uint32)

    def draw():
        return per_thread("atom.global.inc.u32 %r0, [%rd2], 4294967295;", counter, grid=9, block=70)

    if seed is None:
        tickets = draw()
    else:
        with virtualgpu.schedule(seed):
            tickets = draw()
    assert sorted(tickets) == list(range(630))
    assert counter[0] == 630


def test_a_float_maximum_by_compare_and_swap():
    """The loop that CUDA code writes where the hardware has no instruction."""
    x = RANDOM.normal(0, 1, 500).astype(np.float32)
    best = np.float32([-np.inf])
    per_thread(
        """
        mad.wide.u32 %rd4, %gid, 4, %rd3; ld.global.f32 %f1, [%rd4];
        ld.global.b32 %r1, [%rd2];
        Again: mov.b32 %f2, %r1; setp.ge.f32 %p1, %f2, %f1; @%p1 bra Out;
        mov.b32 %r2, %f1; atom.global.cas.b32 %r3, [%rd2], %r1, %r2;
        setp.eq.u32 %p2, %r3, %r1; mov.u32 %r1, %r3; @!%p2 bra Again;
        Out: mov.u32 %r0, 0;""",
        best,
        x,
        grid=5,
        block=100,
    )
    assert best[0] == x.max()


@pytest.mark.parametrize("seed", [None, 11, 12])
def test_a_spin_lock_lets_everyone_in_once(seed):
    """Fair scheduling: the lane that holds the lock gets its turn while others spin."""
    lock, total = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    body = """
        Again: atom.global.acquire.cas.b32 %r1, [%rd2], 0, 1;
        setp.ne.u32 %p1, %r1, 0; @%p1 bra Again;
        ld.volatile.global.u32 %r2, [%rd3]; add.u32 %r2, %r2, 1;
        st.volatile.global.u32 [%rd3], %r2;
        membar.gl; atom.global.release.exch.b32 %r1, [%rd2], 0;
        mov.u32 %r0, 0;"""
    if seed is None:
        per_thread(body, lock, total, grid=3, block=40)
    else:
        with virtualgpu.schedule(seed):
            per_thread(body, lock, total, grid=3, block=40)
    assert (total[0], lock[0]) == (120, 0)


@pytest.mark.parametrize(
    "name",
    [
        "add.b32",
        "min.f32",
        "inc.s32",
        "inc.u64",
        "and.f32",
        "add.b64",
        "cas.f32",
        "exch.b16",
        "sub.u32",
        "add.u16",
        "u32",
        "add.b128",
        "min.v2.f32",
        "add.v2.u32",
        "add.v8.f32",
        "exch.v2.f32",
        "add.noftz.f64x2",
    ],
)
def test_what_no_device_has_is_named(name):
    with pytest.raises(UnsupportedInstruction, match=r"atom\.global"):
        per_thread(f"atom.global.{name} %r0, [%rd1], %r1;")
