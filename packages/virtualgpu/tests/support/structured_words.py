"""Where the words of random kernels lie: each block has its own, so that a launch is many cases."""

from __future__ import annotations

import numpy as np

CAPACITY = 24 << 10  # threads of a launch, at most
AREA = 1 << 10  # bytes that a warp's lanes share
SLOT = 4 * AREA  # bytes of a block's areas: of its warps, and what no thread reads but one word
PLANE = 8 * CAPACITY  # bytes; a plane for each width, in which threads have neighbouring elements
OWN = 32  # bytes of each thread, one thread's after the other's
NEVER = 1 << 31  # of a block, instead of the thread that goes wrong

# Numbers at the edges, of one, two, four and eight bytes: integers, and floats (NaN, infinite,
# subnormal, one, the largest, one beyond the integers).
NARROW = (0, 1, 127, 128, 255)
HALVES = (0, 1, 0xFFFF, 0x8000, 0x7FFF, 0x7E00, 0x7C01, 0x7C00, 0x03FF, 0x3C00)
WORDS = (
    0,
    1,
    0xFFFF_FFFF,
    0x8000_0000,
    0x7FFF_FFFF,
    0x7FC0_0000,
    0x7F80_0001,
    0xFFC0_1234,
    0x7F80_0000,
    0xFF80_0000,
    0x007F_FFFF,
    0x8000_0001,
    0x0080_0000,
    0x3F80_0000,
    0xBF80_0000,
    0x7F7F_FFFF,
    0x4F00_0000,
)
WIDE = (
    0,
    1,
    (1 << 64) - 1,
    1 << 63,
    (1 << 63) - 1,
    0x7FF8 << 48,
    (0x7FF0 << 48) + 1,
    0x7FF0 << 48,
    0xFFF0 << 48,
    (1 << 52) - 1,
    0x3FF0 << 48,
    0xBFF0 << 48,
    0x43E0 << 48,
    1 << 52,
    0x7FEF_FFFF_FFFF_FFFF,
)

# What a kernel begins with: %rd10 its thread's own words, %rd2 its warp's, %rd15 its block's,
# %rd16 to %rd19 its thread's elements of each plane, %r26 the warp's part of shared memory, %r8
# zero in the thread that goes wrong.
SET_UP = f"""
cvt.u32.u64 %r9, %rd4;  add.u32 %block, %block, %r9;  mov.u32 %r9, %ntid.x;
mad.lo.u32 %gid, %block, %r9, %tid;
mul.wide.u32 %rd10, %gid, {OWN};  add.u64 %rd10, %rd1, %rd10;
mul.wide.u32 %rd15, %block, {SLOT};  add.u64 %rd15, %rd2, %rd15;
ld.global.u32 %r8, [%rd15+{SLOT - 4}];  sub.u32 %r8, %tid, %r8;
shr.u32 %warp, %tid, 5;  mul.wide.u32 %rd2, %warp, {AREA};  add.u64 %rd2, %rd15, %rd2;
mov.u32 %r26, tile;  mad.lo.u32 %r26, %warp, {AREA}, %r26;  mad.wide.u32 %rd16, %gid, 1, %rd3;
mad.wide.u32 %rd17, %gid, 2, %rd3;  add.u64 %rd17, %rd17, {PLANE};
mad.wide.u32 %rd18, %gid, 4, %rd3;  add.u64 %rd18, %rd18, {2 * PLANE};
mul.wide.u32 %rd19, %gid, 8;  add.u64 %rd19, %rd3, %rd19;  add.u64 %rd19, %rd19, {3 * PLANE};
""".split("\n")[1:-1]
# What registers of a class hold in the beginning, and where they are kept at the end.
BEGIN = {
    "r": "mov.u32 %r10, %gid; ld.global.u32 %r11, [%rd10]; mov.u32 %r12, %laneid;"
    " ld.global.u32 %r13, [%rd2]; setp.gt.s32 %p0, %r11, 0; setp.eq.u32 %p13, %r13, %r12;",
    "f": "ld.global.f32 %f1, [%rd18]; ld.global.v2.f32 {%f2, %f3}, [%rd10+8];",
    "x": "ld.global.f64 %fd1, [%rd19]; cvt.rn.f64.s32 %fd2, %r11;",
    "d": "ld.global.u64 %rd30, [%rd19]; cvt.u64.u32 %rd31, %block;",
    "h": "ld.global.u16 %h1, [%rd17]; ld.global.u8 %h2, [%rd16]; cvt.u16.u32 %h3, %tid;",
}
END = {
    "r": "st.global.v4.b32 [%rd10], {%r10, %r11, %r12, %r13};",
    "f": "st.global.v2.f32 [%rd10+16], {%f1, %f3}; st.global.f32 [%rd18], %f2;",
    "x": "add.f64 %fd1, %fd1, %fd2; st.global.f64 [%rd10+24], %fd1;",
    "d": "xor.b64 %rd30, %rd30, %rd31; st.global.u64 [%rd19], %rd30;",
    "h": "st.global.u16 [%rd17], %h1; st.global.u8 [%rd16], %h2;",
}
VARIABLES = f""".shared .align 16 .b8 tile[{SLOT}]; .local .align 8 .b8 own[64];
  .reg .b32 %warp; .reg .pred %wild;"""


def inputs(seed: int, blocks: int, block: int) -> list[np.ndarray]:
    """What a launch of so many blocks of so many threads is given, each word of it by chance: a
    number at an edge, a small one, any. In one block of 125 a thread goes wrong if it can."""
    random = np.random.default_rng(seed)

    def some(size: int, edges: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        any_ = random.integers(0, 1 << 8 * dtype.itemsize, size, dtype=dtype)
        small = random.integers(-4, 40, size).astype(dtype)
        kind = random.random(size)
        return np.where(
            kind < 0.35,
            random.choice(np.array(edges, dtype), size),
            np.where(kind < 0.65, small, any_),
        )

    threads = blocks * block
    assert threads <= CAPACITY
    areas = some(blocks * SLOT // 4, WORDS, np.dtype("u4")).reshape(blocks, -1)
    wrong = random.random(blocks) < 0.008
    areas[:, -1] = np.where(wrong, random.integers(0, block, blocks), NEVER)
    planes = np.zeros((4, PLANE), np.uint8)
    for power, edges in enumerate((NARROW, HALVES, WORDS, WIDE)):
        planes[power, : threads << power] = some(threads, edges, np.dtype(f"u{1 << power}")).view(
            "u1"
        )
    return [some(threads * OWN // 4, WORDS, np.dtype("u4")), areas.reshape(-1), planes.reshape(-1)]


def by_block(contents: list[np.ndarray], blocks: int, block: int) -> np.ndarray:
    """The bytes of each block after a launch of :func:`inputs`, shape (blocks, bytes)."""
    own, areas, planes = (np.frombuffer(one, np.uint8) for one in contents)
    return np.concatenate(
        [
            own.reshape(blocks, -1),
            areas.reshape(blocks, -1),
            *(
                plane[: blocks * block << power].reshape(blocks, -1)
                for power, plane in enumerate(planes.reshape(4, PLANE))
            ),
        ],
        axis=1,
    )
