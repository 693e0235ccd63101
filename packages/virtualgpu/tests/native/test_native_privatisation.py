"""Sums that each core keeps for itself: exact on any number of cores, and seen by nothing else."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import pytest

from native_lab import after
from ptx_lab import entry
from virtualgpu import native
from virtualgpu.devices import VirtualDevice
from virtualgpu.native.blocks import multicore
from virtualgpu.native.blocks.core import Core
from virtualgpu.native.context import ROOM

GRID, BLOCK = 600, 64
# Of each thread: %rd3 one of 64 elements of 8 bytes, %rd5 one of the block's own 8, %rd6 its own.
PLACES = """mul.lo.u32 %r1, %gid, 2654435761; shr.u32 %r1, %r1, 26;
  mul.wide.u32 %rd3, %r1, 8; add.u64 %rd3, %rd1, %rd3;
  and.b32 %r2, %tid, 7; mad.lo.u32 %r2, %block, 8, %r2;
  mul.wide.u32 %rd5, %r2, 8; add.u64 %rd5, %rd1, %rd5;
  mul.wide.u32 %rd6, %gid, 8; add.u64 %rd6, %rd2, %rd6;
"""


@pytest.fixture
def kept(monkeypatch) -> list[int]:
    """Of each batch on a core that is not alone, how many bytes have sums of their own at its end.
    Cores take turns: each has blocks, on a busy machine too."""
    found: list[int] = []
    run = Core.run

    def spy(core, first, count):
        result = run(core, first, count)
        if core.word("several"):
            found.append(core.word("own_span"))
            time.sleep(0.001)
        return result

    monkeypatch.setattr(Core, "run", spy)
    monkeypatch.setattr(multicore, "WORTH_SHARING", 0.0)
    monkeypatch.setattr(multicore, "SHARED", 1e-9)
    monkeypatch.setattr(multicore.Run, "_hinders", lambda *_: False)
    return found


def on_any(text: str, *arrays: np.ndarray, **options):
    """What a launch leaves, the same on 1, 2 and 4 cores and in the interpreter; and the
    error's words."""
    text = entry(PLACES + text, 2)
    there, wrong, _ = after(text, None, arrays, grid=GRID, block=BLOCK, **options)
    for cores in (1, 2, 4):
        here, error, code = after(
            text, native.natively, arrays, grid=GRID, block=BLOCK, cores=cores, **options
        )
        assert not isinstance(code, str) and not code.record.ordered
        assert error == wrong
        if wrong is None:
            assert [one.tobytes() for one in here] == [one.tobytes() for one in there]
    return here, wrong


@pytest.mark.parametrize("space", [".global", ""], ids=["global", "generic"])
@pytest.mark.parametrize(("dtype", "added"), [(np.uint32, "%r3"), (np.uint64, "%rd7")])
def test_sums_wrap_and_are_exact(kept, dtype, added, space):
    """Each sum passes the largest number many times: what is added is nearly as large."""
    bits = 8 * np.dtype(dtype).itemsize
    values = np.arange(64 * 8 // np.dtype(dtype).itemsize, dtype=dtype) - dtype(7)
    (bins, _), _ = on_any(
        f"sub.u32 %r3, 4294967000, %gid; cvt.u64.u32 %rd7, %r3; shl.b64 %rd7, %rd7, 31;"
        f"red{space}.add.u{bits} [%rd3], {added};",
        values,
        np.zeros(1),
    )
    assert kept and set(kept) == {512}
    gid = np.arange(GRID * BLOCK, dtype=np.uint64)
    bins = bins.view(dtype)
    own = (np.uint64(4294967000) - gid) << np.uint64(0 if bits == 32 else 31)
    places = (gid * np.uint64(2654435761) % np.uint64(1 << 32)) >> np.uint64(26)
    expected = values.copy()
    np.add.at(expected, (places * np.uint64(64 // bits)).astype(int), own.astype(dtype))
    assert (bins == expected).all()


@pytest.mark.parametrize(
    "text",
    [
        "red.global.add.u64 [%rd5], 1; bar.sync 0; ld.global.u64 %rd7, [%rd5];",
        "ld.global.u64 %rd8, [%rd5]; bar.sync 0; red.global.add.u64 [%rd5], 1; bar.sync 0;"
        "ld.global.u64 %rd7, [%rd5]; add.u64 %rd7, %rd7, %rd8;",
        "setp.lt.u32 %p2, %block, 40; @%p2 bra On; red.global.add.u64 [%rd5], 1;"
        "On: bar.sync 0; ld.global.u64 %rd7, [%rd5];",
        "red.global.add.u64 [%rd5], 1; bar.sync 0; st.global.u64 [%rd5], %rd5; mov.u64 %rd7, 1;",
        "red.global.add.u64 [%rd5], 5; bar.sync 0; red.global.max.u64 [%rd5], 40; bar.sync 0;"
        "red.global.add.u64 [%rd5], 1; mov.u64 %rd7, 1;",
        "red.global.add.u64 [%rd5], 4294967295; bar.sync 0; red.global.add.u32 [%rd5], 9;"
        "mov.u64 %rd7, 1;",
    ],
    ids=[
        "a load after",
        "loads before and after",
        "a load, in earlier blocks alone",
        "a store",
        "the largest",
        "another width",
    ],
)
def test_what_else_reaches_them_sees_every_sum(kept, text):
    """Each block has elements of its own: nothing races."""
    bins = np.zeros(ROOM // 8, np.uint64)
    assert 8 * GRID > bins.size  # blocks past 511 have nothing to add to
    on_any(
        "setp.ge.u32 %p1, %block, 512; @%p1 ret;" + text + "st.global.u64 [%rd6], %rd7;",
        bins,
        np.zeros(GRID * BLOCK, np.uint64),
    )
    assert kept and not any(kept)


def test_what_is_too_wide_for_a_core_s_cache_stays_shared(kept):
    on_any("red.global.add.u64 [%rd3], 1;", np.zeros(ROOM // 8 + 1, np.uint64), np.zeros(1))
    assert kept and not any(kept)


@pytest.mark.parametrize(
    "text",
    [
        "setp.ge.u32 %p1, %block, 400; @%p1 trap;",
        "setp.ge.u32 %p1, %block, 400; @%p1 mov.u64 %rd3, 64; @%p1 red.global.add.u64 [%rd3], 1;",
    ],
    ids=["a trap", "past the end"],
)
def test_a_fault_in_the_midst_leaves_all_sums_before_it(kept, monkeypatch, text):
    monkeypatch.setattr(multicore.Run, "_replay", lambda *_: None)
    body = entry(
        PLACES + "setp.gt.u32 %p2, %block, 400; @%p2 ret;red.global.add.u64 [%rd3], 1;" + text, 2
    )
    for cores in (1, 4):
        (bins, _), wrong, _ = after(
            body,
            native.natively,
            [np.zeros(64, np.uint64), np.zeros(1)],
            grid=GRID,
            block=BLOCK,
            cores=cores,
        )
        assert "block 400" in wrong
        assert bins.view(np.uint64).sum() == 400 * BLOCK + 32  # its first warp's too
    assert any(kept)


def test_a_long_loop_gives_its_sums_away(kept, monkeypatch):
    """Others may wait to see them."""
    seen: list[int] = []
    note = Core._note

    def spy(core):
        note(core)
        if core.word("several") and core.word("own_span"):
            seen.append(sum((ctypes.c_uint64 * 64).from_address(core.word("own_room"))))

    monkeypatch.setattr(Core, "_note", spy)
    on_any(
        """red.global.add.u64 [%rd3], 1; mov.u32 %r4, 0;
      Again: add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 300; @%p1 bra Again;""",
        np.zeros(64, np.uint64),
        np.zeros(1),
    )
    assert seen and not any(seen)


def test_contexts_of_all_cores_serve_the_next_launch(kept, monkeypatch):
    """Which is handed other memory, and may keep sums again though the one before had to stop."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    made: list[Core] = []
    begin = Core.__init__
    monkeypatch.setattr(
        Core, "__init__", lambda core, *given: (made.append(core), begin(core, *given))[0]
    )
    device = VirtualDevice(1 << 24)
    device.cores = 3
    module = device.load(
        entry(
            PLACES
            + """red.global.add.u64 [%rd3], 1;
      setp.ne.u32 %p1, %tid, 0; @%p1 ret; ld.global.u64 %rd7, [%rd2];""",
            2,
        )
    )

    def launch(bins: int, other: int) -> int:
        device.fill(bins, 0, 512)
        kept.clear()
        device.launch(
            module,
            "k",
            (GRID, 1, 1),
            (BLOCK, 1, 1),
            [place.to_bytes(8, "little") for place in (bins, other)],
        )
        return int(device.read(bins, 512).view(np.uint64).sum())

    one, other = device.allocate(512), device.allocate(512)
    for _ in range(2):
        assert launch(one, other) == GRID * BLOCK
        assert set(kept) == {512} and len(made) == 3
    assert launch(one, one) == GRID * BLOCK
    assert not any(kept)
    third = [device.allocate(4096) for _ in range(9)][-1]
    assert launch(third, other) == GRID * BLOCK
    assert set(kept) == {4096} and len(made) == 3
