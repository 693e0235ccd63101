"""Thread block clusters: special registers, distributed shared memory, the cluster's barrier.

Expected values are counted in Python from the definitions of the PTX ISA ("Special Registers",
"mapa", "barrier.cluster").
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import virtualgpu
from ptx_lab import entry, launch, per_thread
from virtualgpu.errors import (
    BarrierError,
    LaunchError,
    MemoryAccessError,
    UnsupportedInstruction,
)

SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
SHARED = ".shared .align 8 .b32 s[64];\n"
# %r1: the thread's own place in `s`, %rd9 the same as an address of 64 bits.
OWN = "mov.u32 %r1, s; mad.lo.u32 %r1, %tid, 4, %r1; cvt.u64.u32 %rd9, %r1;\n"


def directed(text: str, words: str) -> str:
    return text.replace(")\n{", f") {words}\n{{", 1)


# -- who is where ---------------------------------------------------------------------------------

GRID, CLUSTER = (4, 6, 2), (2, 3, 2)


def expected(name: str) -> list[int]:
    """Of each block, in the order of `%ctaid`, x fastest."""
    values = []
    for z, y, x in itertools.product(*(range(n) for n in reversed(GRID))):
        index, axis = (x, y, z), "xyz".find(name[-1])
        inside = [i % c for i, c in zip(index, CLUSTER, strict=True)]
        values.append(
            {
                "%clusterid": index[axis] // CLUSTER[axis],
                "%nclusterid": GRID[axis] // CLUSTER[axis],
                "%cluster_ctaid": inside[axis],
                "%cluster_nctaid": CLUSTER[axis],
                "%cluster_ctarank": inside[0] + 2 * inside[1] + 6 * inside[2],
                "%cluster_nctarank": 12,
            }[name.split(".")[0]]
        )
    return values


@pytest.mark.parametrize(
    "name",
    [
        *(
            f"{register}.{axis}"
            for register in ("%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid")
            for axis in "xyz"
        ),
        "%cluster_ctarank",
        "%cluster_nctarank",
    ],
)
def test_registers_say_where_a_block_is(name):
    out = per_thread(f"mov.u32 %r0, {name};", grid=GRID, block=2, cluster=CLUSTER)
    np.testing.assert_array_equal(out, np.repeat(expected(name), 2))


def test_each_block_runs_once_wherever_its_cluster_lies():
    """More blocks than fit a wave, whose clusters are no runs of neighbouring blocks."""
    out = per_thread("mov.u32 %r0, %gid;", grid=(96, 2), block=512, cluster=(1, 2))
    np.testing.assert_array_equal(out, np.arange(96 * 2 * 512))


@pytest.mark.parametrize(
    ("cluster", "words", "explicit"),
    [
        (None, "", 0),
        ((1, 1, 1), "", 1),
        (None, ".reqnctapercluster 2", 1),
        (2, ".explicitcluster", 1),
    ],
)
def test_a_launch_in_clusters_knows_that_it_is_one(cluster, words, explicit):
    out = np.zeros(1, np.uint32)
    text = entry(
        "mov.pred %p1, %is_explicit_cluster; selp.u32 %r0, 1, 0, %p1; st.global.u32 [%rd1], %r0;", 1
    )
    launch(directed(text, words), 2, 1, [out], cluster=cluster)
    assert out == explicit


# -- distributed shared memory --------------------------------------------------------------------


@pytest.mark.parametrize(
    "way",
    [
        "mapa.shared::cluster.u32 %r2, %r1, %r3; ld.shared::cluster.u32 %r0, [%r2];",
        "mapa.shared::cluster.u64 %rd8, %rd9, %r3; ld.shared::cluster.u32 %r0, [%rd8];",
        "cvta.shared.u64 %rd8, %rd9; mapa.u64 %rd8, %rd8, %r3; ld.u32 %r0, [%rd8];",
        "mapa.shared::cluster.u64 %rd8, %rd9, %r3; cvta.shared::cluster.u64 %rd8, %rd8; "
        "ld.u32 %r0, [%rd8];",
        "mapa.shared::cluster.u32 %r2, %r1, %r3; atom.shared::cluster.add.u32 %r0, [%r2], 0;",
        "mapa.shared::cluster.u32 %r2, %r1, %r3; mapa.shared::cluster.u32 %r2, %r2, %r3; "
        "ld.shared::cluster.u32 %r0, [%r2];",
    ],
)
def test_a_block_reads_the_next_ones_shared_memory(way):
    """The next of four, around: block b of a cluster reads what block (b + 1) % 4 wrote."""
    out = per_thread(
        OWN
        + f"""
        st.shared.u32 [%r1], %gid;
        {SYNC}
        mov.u32 %r3, %cluster_ctarank; add.u32 %r3, %r3, 1; and.b32 %r3, %r3, 3;
        {way}
        {SYNC}""",
        grid=8,
        block=64,
        variables=SHARED,
        cluster=4,
    )
    gid = np.arange(512).reshape(2, 4, 64)
    np.testing.assert_array_equal(out, np.roll(gid, -1, axis=1).reshape(-1))


def test_blocks_write_and_count_in_anothers_shared_memory():
    """All four blocks add their ranks to a word of rank 2, and rank 0 stores beside it."""
    out = per_thread(
        f"""
        mov.u32 %r1, s; mov.u32 %r2, 0;
        st.shared.v2.u32 [%r1], {{%r2, %r2}};
        {SYNC}
        mov.u32 %r3, %cluster_ctarank;
        mapa.shared::cluster.u32 %r4, %r1, 2;
        red.relaxed.cluster.shared::cluster.add.u32 [%r4], %r3;
        setp.eq.u32 %p1, %r3, 0;
        @%p1 st.shared::cluster.u32 [%r4+4], 77;
        {SYNC}
        ld.shared.v2.u32 {{%r5, %r6}}, [%r1];
        mad.lo.u32 %r0, %r6, 1000, %r5;""",
        grid=4,
        block=32,
        variables=SHARED,
        cluster=4,
    )
    np.testing.assert_array_equal(
        out.reshape(4, 32),
        np.broadcast_to(np.array([[0], [0], [77 * 1000 + 32 * (0 + 1 + 2 + 3)], [0]]), (4, 32)),
    )


def test_an_address_means_the_same_to_all_threads_of_the_cluster():
    """Rank 1 hands an address of its own to rank 0, through rank 0's memory."""
    out = per_thread(
        f"""
        mov.u32 %r1, s; mov.u32 %r2, %cluster_ctarank;
        add.u32 %r3, %r2, 500; st.shared.u32 [%r1+8], %r3;
        mapa.shared::cluster.u32 %r4, %r1, %r2;
        {SYNC}
        mapa.shared::cluster.u32 %r5, %r1, 0;
        setp.eq.u32 %p1, %r2, 1;
        @%p1 st.shared::cluster.u32 [%r5], %r4;
        {SYNC}
        ld.shared::cluster.u32 %r6, [%r5]; ld.shared::cluster.u32 %r0, [%r6+8];
        {SYNC}""",
        grid=2,
        block=1,
        variables=SHARED,
        cluster=2,
    )
    assert out.tolist() == [501, 501]


def test_where_an_address_lies_is_known():
    """Ranks of the own and of a mapped address, and whether each is the block's own."""
    out = per_thread(
        """
        mov.u32 %r1, s; mov.u32 %r2, s; cvt.u64.u32 %rd8, %r2;
        cvta.shared.u64 %rd8, %rd8; mapa.u64 %rd7, %rd8, 1;
        getctarank.u64 %r2, %rd8; getctarank.u64 %r3, %rd7;
        mapa.shared::cluster.u32 %r4, %r1, 1; getctarank.shared::cluster.u32 %r5, %r4;
        isspacep.shared %p1, %rd7; selp.u32 %r6, 1, 0, %p1;
        isspacep.shared::cta %p2, %rd8; selp.u32 %r7, 1, 0, %p2;
        isspacep.shared::cluster %p3, %rd7; selp.u32 %r8, 1, 0, %p3;
        isspacep.shared::cluster %p4, %rd1; selp.u32 %r9, 1, 0, %p4;
        mad.lo.u32 %r0, %r2, 10, %r3; mad.lo.u32 %r0, %r0, 10, %r5; mad.lo.u32 %r0, %r0, 10, %r6;
        mad.lo.u32 %r0, %r0, 10, %r7; mad.lo.u32 %r0, %r0, 10, %r8; mad.lo.u32 %r0, %r0, 10, %r9;
        """,
        grid=2,
        block=1,
        variables=SHARED,
        cluster=2,
    )
    assert [f"{value:07}" for value in out] == ["0110110", "1111110"]


def test_a_thread_arrives_at_anothers_mbarrier():
    """Rank 0 waits for one arrival of each block, and then has both values."""
    out = per_thread(
        f"""
        mov.u32 %r1, s; mov.u32 %r2, %cluster_ctarank; mov.u32 %r0, 0;
        mbarrier.init.shared.b64 [%r1], 2;
        {SYNC}
        mapa.shared::cluster.u32 %r3, %r1, 0;
        add.u32 %r4, %r2, 40; mad.lo.u32 %r5, %r2, 4, %r3;
        st.shared::cluster.u32 [%r5+8], %r4;
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
        setp.ne.u32 %p1, %r2, 0;
        @%p1 bra END;
        WAIT: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [%r1], 0;
        @!%p2 bra WAIT;
        ld.shared.u32 %r6, [%r1+8]; ld.shared.u32 %r7, [%r1+12]; mad.lo.u32 %r0, %r7, 100, %r6;
        END: {SYNC}""",
        grid=2,
        block=1,
        variables=SHARED,
        cluster=2,
    )
    assert out.tolist() == [4140, 0]


# -- what may not be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        ("mapa.shared::cluster.u32 %r2, %r1, 2;", MemoryAccessError, "2 blocks has no rank 2"),
        ("mapa.u64 %rd8, %rd1, 0;", MemoryAccessError, "declare the variable __shared__"),
        ("getctarank.u64 %r2, %rd1;", MemoryAccessError, "no block's shared memory"),
        (
            "mapa.shared::cluster.u32 %r2, %r1, 1; ld.shared.u32 %r0, [%r2]; " + SYNC,
            MemoryAccessError,
            r"accesses the block's own .* in that of block 1",
        ),
        (
            "mapa.shared::cluster.u32 %r2, %r1, 1; ld.shared::cluster.u32 %r0, [%r2+256]; " + SYNC,
            MemoryAccessError,
            "0 bytes after the end of s, a shared array of 256 bytes",
        ),
        (
            "barrier.cluster.arrive; barrier.cluster.arrive;",
            BarrierError,
            r"thread 0 of block 0 arrives .* again",
        ),
        ("barrier.cluster.wait;", BarrierError, "thread 0 of block 0 waits .* has not arrived"),
        (
            "setp.eq.u32 %p1, %cluster_ctarank, 1; @%p1 exit; mapa.shared::cluster.u32 %r2, "
            "%r1, 1; "
            "ld.shared::cluster.u32 %r0, [%r2];",
            MemoryAccessError,
            "of block 1, which has ended",
        ),
        ("barrier.cluster.sync;", UnsupportedInstruction, "barrier.cluster.sync"),
    ],
)
def test_misuse_is_an_error(body, error, words):
    with pytest.raises(error, match=words):
        per_thread(
            OWN + "setp.eq.u32 %p0, %tid, 0;\n" + body,
            grid=2,
            block=32,
            variables=SHARED,
            cluster=2,
        )


@pytest.mark.parametrize(
    ("grid", "cluster", "words", "message"),
    [
        (6, 4, "", "must be a multiple"),
        ((4, 3), (2, 2), "", "must be a multiple"),
        (17, 17, "", "at most 16"),
        (4, (2, 0), "", "at least 1"),
        (4, 2, ".reqnctapercluster 4", r"compiled for clusters of \(4, 1, 1\)"),
        (4, 4, ".maxclusterrank 2", "compiled for at most 2"),
        (4, None, ".explicitcluster", "must be launched in clusters"),
    ],
)
def test_clusters_that_no_device_takes(grid, cluster, words, message):
    with pytest.raises(LaunchError, match=message):
        launch(directed(entry(""), words), grid, 32, cluster=cluster)


def test_clusters_of_more_than_eight_blocks_must_be_asked_for():
    from virtualgpu.cuda.function import CudaFunction

    function = CudaFunction(virtualgpu.Module.from_ptx(entry("")), "k")
    with pytest.raises(LaunchError, match="non_portable"):
        function.run((16,), (1,), [], cluster=(16, 1, 1))
    function.large_clusters = True
    function.run((16,), (1,), [], cluster=(16, 1, 1))


# -- what the checkers say ------------------------------------------------------------------------


def test_an_arrival_without_order_orders_nothing():
    body = (
        OWN
        + f"""
        {SYNC}
        st.shared.u32 [%r1], %gid;
        barrier.cluster.arrive%s; barrier.cluster.wait;
        xor.b32 %r3, %r3, 0; mov.u32 %r3, %cluster_ctarank; xor.b32 %r3, %r3, 1;
        mapa.shared::cluster.u32 %r2, %r1, %r3; ld.shared::cluster.u32 %r0, [%r2];
        {SYNC}"""
    )
    for words, kinds in ((".release", []), (".relaxed", ["race"])):
        with virtualgpu.check() as report:
            per_thread(body.replace("%s", words), grid=2, block=32, variables=SHARED, cluster=2)
        assert [finding.kind for finding in report.findings] == kinds, words


def test_native_code_leaves_clusters_alone(monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    out = per_thread(
        OWN + f"{SYNC} mov.u32 %r0, %cluster_nctarank;",
        grid=4,
        block=32,
        variables=SHARED,
        cluster=2,
    )
    assert (out == 2).all()
    out = per_thread(
        OWN + f"{SYNC} mapa.shared::cluster.u32 %r2, %r1, 0; "
        "st.shared::cluster.u32 [%r2], %gid; ld.shared.u32 %r0, [%r1];",
        grid=2,
        block=32,
        variables=SHARED,
    )
    np.testing.assert_array_equal(out, np.arange(64))
