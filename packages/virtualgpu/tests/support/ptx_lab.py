"""Small PTX kernels for tests: one value per thread in, one value per thread out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import virtualgpu

HEADER = ".version 8.4\n.target sm_90\n.address_size 64\n"
REGISTERS = """
  .reg .pred %p<16>;
  .reg .b16 %h<16>;
  .reg .b32 %r<64>;
  .reg .f32 %f<16>;
  .reg .b64 %rd<64>;
  .reg .f64 %fd<16>;
"""
#: Types and widths of vector atomics.
ATOMIC_VECTORS = [
    *(("f32", width) for width in (2, 4)),
    *((kind, width) for kind in ("f16x2", "bf16x2") for width in (2, 4)),
    *((kind, width) for kind in ("f16", "bf16") for width in (2, 4, 8)),
]
# %tid and %ctaid in linear order, x fastest; %gid counts the threads of the grid.
PLACE = """
  .reg .b32 %tid, %block, %gid, %size;
  .reg .b64 %at;
  mov.u32 %tid, %tid.z;   mov.u32 %size, %ntid.y;   mov.u32 %gid, %tid.y;
  mad.lo.u32 %tid, %tid, %size, %gid;
  mov.u32 %size, %ntid.x;   mov.u32 %gid, %tid.x;
  mad.lo.u32 %tid, %tid, %size, %gid;
  mov.u32 %block, %ctaid.z;   mov.u32 %size, %nctaid.y;   mov.u32 %gid, %ctaid.y;
  mad.lo.u32 %block, %block, %size, %gid;
  mov.u32 %size, %nctaid.x;   mov.u32 %gid, %ctaid.x;
  mad.lo.u32 %block, %block, %size, %gid;
  mov.u32 %size, %ntid.x;   mov.u32 %gid, %ntid.y;   mul.lo.u32 %size, %size, %gid;
  mov.u32 %gid, %ntid.z;   mul.lo.u32 %size, %size, %gid;
  mad.lo.u32 %gid, %block, %size, %tid;
"""


def entry(body: str, parameters: int = 0, before: str = "", variables: str = "") -> str:
    """A module with the kernel ``k``: pointers ``%rd1``, ``%rd2``, ... and the thread's place.

    ``before`` stands at module level, ``variables`` at the top of the kernel.
    """
    listed = ", ".join(f".param .u64 p{i}" for i in range(1, parameters + 1))
    loads = "".join(f"  ld.param.u64 %rd{i}, [p{i}];\n" for i in range(1, parameters + 1))
    return (
        f"{HEADER}{before}\n.visible .entry k({listed})\n{{{REGISTERS}{variables}{PLACE}"
        f"{loads}{body}\n  ret;\n}}\n"
    )


def launch(text: str, grid=1, block=32, args: Sequence = (), **options) -> None:
    """Load PTX and launch its kernel ``k``."""
    virtualgpu.Module.from_ptx(text).launch("k", grid, block, args, **options)


def per_thread(
    body: str,
    *inputs: np.ndarray,
    grid=1,
    block=32,
    dtype=np.uint32,
    result="%r0",
    before: str = "",
    variables: str = "",
    **options,
) -> np.ndarray:
    """Run ``body`` in every thread; what it leaves in ``result``, shape (threads,).

    ``inputs`` are arrays, their addresses in ``%rd2``, ``%rd3``, ... (and changed in place).
    A thread that ends early leaves 0xABAB....
    """
    dtype = np.dtype(dtype)
    count = int(np.prod(grid)) * int(np.prod(block))
    out = np.full(count * dtype.itemsize, 0xAB, np.uint8).view(dtype)
    kind = f"b{8 * dtype.itemsize}"
    store = (
        f"\n  mad.wide.u32 %at, %gid, {dtype.itemsize}, %rd1;\n  st.global.{kind} [%at], {result};"
    )
    launch(
        entry(body + store, 1 + len(inputs), before, variables),
        grid,
        block,
        [out, *inputs],
        **options,
    )
    return out
