"""What random programs are made of: who accesses which element, how, and what orders it."""

from __future__ import annotations

# Which threads take part in an access: a predicate in %p1 from the thread's number %tid.
WHO = {
    "all": "setp.ge.u32 %p1, %tid, 0;",
    "one": "setp.eq.u32 %p1, %tid, 5;",
    "other": "setp.eq.u32 %p1, %tid, 37;",
    "even": "and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 0;",
    "first warp": "setp.lt.u32 %p1, %tid, 32;",
    "second warp": "setp.ge.u32 %p1, %tid, 32;",
    "low half": "and.b32 %r1, %tid, 16; setp.eq.u32 %p1, %r1, 0;",
    "first block": "setp.eq.u32 %p1, %block, 0;",
}
# Which element: a number in %r2.
WHERE = {
    "own": "mov.u32 %r2, %tid;",
    "same": "mov.u32 %r2, 3;",
    "neighbour": "xor.b32 %r2, %tid, 1;",
    "across": "xor.b32 %r2, %tid, 63;",
    "half warp": "xor.b32 %r2, %tid, 15;",
    "other half": "xor.b32 %r2, %tid, 31;",
    "pair": "shr.u32 %r2, %tid, 1;",
    "of the grid": "mov.u32 %r2, %gid;",
}
# What: instructions on the byte address %rd9 of the element in the array.
WHAT = {
    "load": "ld.{space}.u32 %r3, [%rd9];",
    "store": "st.{space}.u32 [%rd9], %tid;",
    "load byte": "ld.{space}.u8 %r3, [%rd9+1];",
    "store byte": "st.{space}.u8 [%rd9+2], %tid;",
    "atomic": "red.{space}.add.u32 [%rd9], 1;",
    "volatile load": "ld.volatile.{space}.u32 %r3, [%rd9];",
    "volatile store": "st.volatile.{space}.u32 [%rd9], %tid;",
    "acquire": "ld.acquire.gpu.{space}.u32 %r3, [%rd9];",
    "release": "st.release.gpu.{space}.u32 [%rd9], %tid;",
}
ORDER = {
    "barrier": "bar.sync 0;",
    "syncwarp": "bar.warp.sync -1;",
    "half warps": "and.b32 %r4, %tid, 16; shl.b32 %r5, 65535, %r4; bar.warp.sync %r5;",
    "warp barrier": "shr.u32 %r4, %tid, 5; add.u32 %r4, %r4, 1; barrier.sync %r4, 32;",
    "shuffle": "shfl.sync.bfly.b32 %r4, %tid, 1, 31, -1;",
    "fence": "membar.gl;",
    "fence of the block": "membar.cta;",
}
PLAIN = ("load", "store", "load byte", "store byte")


def access(who: str, where: str, what: str, space: str) -> str:
    base = "%rd1" if space == "global" else "%rd8"
    return (
        f"{WHO[who]} {WHERE[where]} mul.wide.u32 %rd9, %r2, 4; add.u64 %rd9, %rd9, {base};\n"
        f"@!%p1 bra L#; {WHAT[what].format(space=space)}\nL#:\n"
    )
