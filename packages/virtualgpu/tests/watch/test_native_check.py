"""What ``check()`` reports is the same where native code runs a launch, and what it leaves too."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import sampling
from labelled.everything import CASES
from native_lab import checked
from ptx_lab import entry
from race_programs import ORDER, WHAT, WHERE, WHO, access
from virtualgpu import devices, native
from virtualgpu.launch import launch
from virtualgpu.native import run, watched_launch
from virtualgpu.native.compiled import NativeKernel

LINES = '.file 1 "k.py"\n'
TABLE = ".shared .align 8 .b8 table[1024]; .local .align 8 .b8 own[64];"
# Each thread's element of the first two arrays and of the table, and a number in %r0.
PLACE = """mul.wide.u32 %rd3, %gid, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
    mov.u64 %rd6, table; mul.wide.u32 %rd7, %tid, 4; add.u64 %rd8, %rd6, %rd7; mov.u32 %r0, %tid;"""
BEGIN = "st.shared.u32 [%rd8], %tid; bar.sync 0;"
LAST = "setp.eq.u32 %p9, %gid, 120;"  # one thread of a late block
SUSPECT = "a checker may have something to report"


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")


def arrays() -> list[np.ndarray]:
    return [np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)]


def both(body: str, native=native.natively, **options):
    """The interpreter's answer, which must be native code's too; and that code."""
    text = entry(with_lines(PLACE + body), 2, variables=TABLE) + LINES
    there, _ = checked(text, None, arrays(), **options)
    here, code = checked(text, native, arrays(), **options)
    assert here == there
    return there, code


def with_lines(body: str) -> str:
    """Each instruction on a line of its own."""
    return ";".join(
        f"\n.loc 1 {number} 1\n{part}" if part.strip() and "{" not in part else part
        for number, part in enumerate(body.split(";"), 1)
    )


# Loads that are looked at together: one element for a row, and rows at one stride and at several.
TOGETHER = """shr.u32 %r1, %tid, 3; and.b32 %r1, %r1, 3; mad.wide.u32 %rd9, %r1, 32, %rd6;
    and.b32 %r1, %tid, 7; mad.wide.u32 %rd10, %r1, 4, %rd6; mov.u64 %rd11, %rd10;""" + " ".join(
    f"ld.shared.u32 %r2, [%rd{base}+{offset}];"
    for base, offsets in ((9, [*range(0, 28, 4), 36]), (10, range(64, 160, 32)), (11, (64, 72, 96)))
    for offset in offsets
)
CLEAN = {
    "loads together": f"{BEGIN} {TOGETHER} {TOGETHER} bar.sync 0; st.shared.u32 [%rd8], %r2;",
    "own elements": "ld.global.u32 %r1, [%rd4]; st.global.u32 [%rd5], %r1;",
    "in place": "ld.global.u32 %r1, [%rd4]; add.u32 %r1, %r1, 1; st.global.u32 [%rd4], %r1;",
    "one for all": "ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd5], %r1;",
    "after a barrier": f"{BEGIN} xor.b32 %r1, %tid, 1; mad.wide.u32 %rd9, %r1, 4, %rd6;"
    "ld.shared.u32 %r2, [%rd9]; bar.sync 0; st.shared.u32 [%rd8], %r2;",
    "after a barrier of the warp": f"""{BEGIN} xor.b32 %r1, %tid, 1;
        mad.wide.u32 %rd9, %r1, 4, %rd6; ld.shared.u32 %r2, [%rd9]; bar.warp.sync -1;
        st.shared.u32 [%rd8], %r2; bar.warp.sync -1; ld.shared.u32 %r2, [%rd9];""",
    "atomics": f"""{BEGIN} red.global.add.u32 [%rd2], 1; atom.shared.add.u32 %r1, [table], 1;
        bar.sync 0; ld.shared.u32 %r1, [table]; setp.eq.u32 %p1, %tid, 3;
        @%p1 st.global.u32 [%rd5+64], %r1;""",
    "bytes": """cvt.u64.u32 %rd9, %gid; add.u64 %rd9, %rd9, %rd2; st.global.u8 [%rd9], %tid;
        ld.global.u8 %r1, [%rd9]; shr.u32 %r2, %gid, 1; cvt.u64.u32 %rd9, %r2;
        add.u64 %rd9, %rd9, %rd1; ld.global.u8 %r1, [%rd9];""",
    "vectors": """and.b32 %r1, %gid, 60; mad.wide.u32 %rd9, %r1, 4, %rd1;
        ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd9]; st.global.u32 [%rd5], %r3;""",
    "narrow loads of what words wrote": """st.global.u32 [%rd5], %tid; ld.global.u8 %r1, [%rd5+1];
        ld.global.u16 %h1, [%rd5+2];""",
    "every other": """mad.wide.u32 %rd9, %gid, 8, %rd1; shr.u32 %r1, %gid, 7;
        setp.eq.u32 %p1, %r1, 0; @%p1 ld.global.u32 %r1, [%rd9]; @%p1 st.global.u32 [%rd9+4], %r1;
        """,
    "generic": f"""{BEGIN} cvta.shared.u64 %rd9, %rd8; and.b32 %r1, %tid, 1;
        setp.eq.u32 %p1, %r1, 0; selp.b64 %rd10, %rd9, %rd5, %p1; ld.u32 %r2, [%rd10];
        st.u32 [%rd10], %r2; mov.u64 %rd11, own; cvta.local.u64 %rd11, %rd11; st.u32 [%rd11], %r2;
        selp.b64 %rd10, %rd11, %rd9, %p1; ld.u32 %r2, [%rd10];""",
    "own memory": "st.local.u32 [own+4], %tid; ld.local.u32 %r1, [own+4];",
    "rounds": f"""{BEGIN} mov.u32 %r3, 0; Next: xor.b32 %r1, %tid, 1;
        mad.wide.u32 %rd9, %r1, 4, %rd6; ld.shared.u32 %r2, [%rd9]; bar.sync 0;
        st.shared.u32 [%rd8], %r2; bar.sync 0; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 9;
        @%p1 bra Next;""",
    "rows of eight": """xor.b32 %r1, %gid, 8; mad.wide.u32 %rd9, %r1, 4, %rd2;
        st.global.u32 [%rd9], %tid; ld.global.u32 %r2, [%rd9];""",
    "rows that read the same, and one element for each": f"""{BEGIN} and.b32 %r1, %tid, 7;
        mad.wide.u32 %rd9, %r1, 4, %rd6; ld.shared.u32 %r2, [%rd9]; shr.u32 %r1, %tid, 3;
        mad.wide.u32 %rd9, %r1, 4, %rd6; ld.shared.u32 %r3, [%rd9]; bar.sync 0;
        st.shared.u32 [%rd8], %r3;""",
    "volatile": "st.volatile.global.u32 [%rd5], %tid; ld.volatile.global.u32 %r1, [%rd5];",
    "a shuffle": "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1; st.global.u32 [%rd5], %r1;",
    "a shuffle from one lane": "shfl.sync.idx.b32 %r1, %r0, 9, 31, -1;",
}


@pytest.mark.parametrize("block", [64, 42])
@pytest.mark.parametrize("body", CLEAN.values(), ids=CLEAN)
def test_clean_kernels_stay_native(body, block):
    (_, findings, *_), code = both(body, block=block, grid=3, launches=2)
    assert not findings
    assert isinstance(code, NativeKernel), code


# Rows of eight lanes that have elements of their own, in three rounds, and then go where others do:
# by then code knows the variable.
ROUNDS = """mov.u32 %r3, 0; Next: xor.b32 %r1, %tid, 8; {then} setp.eq.u32 %p1, %r3, 3;
    selp.b32 %r1, %r2, %r1, %p1; mad.wide.u32 %rd9, %r1, 4, %rd6; {access}
    add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 4; @%p2 bra Next;"""
OWN = "xor.b32 %r1, %tid, 8; mad.wide.u32 %rd9, %r1, 4, %rd6; st.shared.u32 [%rd9], %tid;"
FAULTY = {
    "rows that meet": ROUNDS.format(
        then="and.b32 %r2, %tid, 55;", access="st.shared.u32 [%rd9], %tid;"
    ),
    "a row that another row reads": BEGIN
    + ROUNDS.format(then="and.b32 %r2, %tid, 55;", access="ld.shared.u32 %r4, [%rd9];")
    + OWN,
    "one element for a row": BEGIN
    + ROUNDS.format(then="shr.u32 %r2, %tid, 3;", access="ld.shared.u32 %r4, [%rd9];")
    + OWN,
    "rows that nothing wrote": ROUNDS.format(
        then="or.b32 %r2, %tid, 64;",
        access="setp.lt.u32 %p3, %r3, 1; @%p3 st.shared.u32 [%rd9], %tid;"
        "ld.shared.u32 %r4, [%rd9];",
    ),
    **{
        f"loads together, and then element {number}": (
            f"{BEGIN} {TOGETHER} {LAST} @%p9 st.shared.u32 [table+{4 * number}], %r2;"
        )
        for number in (3, 5, 14, 38)
    },
    **{
        f"loads together, a barrier, a store to element {number}, the loads again": (
            f"{BEGIN} {TOGETHER} bar.sync 0; setp.eq.u32 %p9, %gid, 69;"
            f"@%p9 st.shared.u32 [table+{4 * number}], %r2; {TOGETHER}"
        )
        for number in (5, 38)
    },
    "one address": "st.global.u32 [%rd2], %tid;",
    "lanes of one instruction": "shr.u32 %r1, %gid, 1; mad.wide.u32 %rd9, %r1, 4, %rd2;"
    "st.global.u32 [%rd9], %tid;",
    "write after read": "ld.global.u32 %r1, [%rd4+4]; st.global.u32 [%rd4], %r1;",
    "of another block": f"{LAST} ld.global.u32 %r1, [%rd2+16]; @%p9 st.global.u32 [%rd2+16], %r1;",
    "of another block, after a barrier": "setp.eq.u32 %p1, %gid, 5;"
    "@%p1 st.global.u32 [%rd2+16], %tid; bar.sync 0;"
    f"{LAST} @%p9 st.global.u32 [%rd2+16], %r1;",
    "read by many blocks": f"ld.global.u32 %r1, [%rd1]; {LAST} @%p9 st.global.u32 [%rd1], %r1;",
    "read once by each block": """setp.eq.u32 %p1, %tid, 5; @%p1 ld.global.u32 %r1, [%rd1];
        setp.eq.u32 %p2, %gid, 133; @%p2 st.global.u32 [%rd1], %r1;""",
    "read by pairs of lanes": f"""{BEGIN} and.b32 %r1, %tid, 62; mad.wide.u32 %rd9, %r1, 4, %rd6;
        ld.shared.u32 %r2, [%rd9]; and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 1;
        @%p1 st.shared.u32 [%rd9], %r2;""",
    "no barrier": "st.shared.u32 [%rd8], %tid; xor.b32 %r1, %tid, 33;"
    "mad.wide.u32 %rd9, %r1, 4, %rd6; ld.shared.u32 %r2, [%rd9];",
    "a barrier of the warp is not enough": f"""{BEGIN} xor.b32 %r1, %tid, 32;
        mad.wide.u32 %rd9, %r1, 4, %rd6; ld.shared.u32 %r2, [%rd9]; bar.warp.sync -1;
        st.shared.u32 [%rd8], %r2;""",
    "many, and then one of them": f"""{BEGIN} ld.shared.u32 %r1, [table];
        setp.eq.u32 %p1, %tid, 0; @%p1 st.shared.u32 [table], %r1;""",
    "beside an atomic": f"red.global.add.u32 [%rd2], 1; {LAST} @%p9 ld.global.u32 %r1, [%rd2];",
    "atomics after loads of many": "ld.global.u32 %r1, [%rd2]; red.global.add.u32 [%rd2], 1;",
    "a volatile store after loads of many": f"{BEGIN} ld.shared.u32 %r1, [table];"
    "st.volatile.shared.u32 [table], %r1;",
    "unwritten shared": "ld.shared.u32 %r1, [%rd8];",
    "unwritten shared, updated": "red.shared.add.u32 [table], 1;",
    "unwritten of its own": "st.local.u32 [own], %tid; ld.local.u64 %rd9, [own];",
    "missed a barrier": "setp.gt.u32 %p1, %tid, 40; @%p1 ret; bar.sync 0;",
    "past the end": "ld.global.u32 %r1, [%rd4]; add.u32 %r1, %r1, 1; st.global.u32 [%rd4], %r1;"
    f"{LAST} @%p9 ld.global.u32 %r1, [%rd4+2048];",
    "misaligned": f"{LAST} @%p9 st.global.u32 [%rd4+2], %tid;",
    "a gap of shared memory": f"{BEGIN} {LAST} @%p9 ld.shared.u32 %r1, [%rd8+1024];",
    "a trap": f"st.global.u32 [%rd5], %tid; {LAST} @%p9 trap;",
}


@pytest.mark.parametrize("body", FAULTY.values(), ids=FAULTY)
def test_faults_have_the_same_words(body):
    (_, findings, *_), code = both(body, grid=3, launches=2)
    assert findings
    assert code == SUSPECT


def test_a_short_warp_has_no_last_lane():
    (_, findings, *_), code = both("shfl.sync.idx.b32 %r1, %r0, 31, 31, -1;", block=42, grid=3)
    assert len(findings) == 1
    assert code == SUSPECT


UNWRITTEN = {
    "all of it": "st.global.u32 [%rd5], %tid; ld.global.u32 %r1, [%rd5];",
    "a part": "setp.lt.u32 %p1, %gid, 70; @%p1 st.global.u32 [%rd5], %tid;",
    "every other": "and.b32 %r1, %gid, 1; setp.eq.u32 %p1, %r1, 0; @%p1 st.global.u32 [%rd5], %r1;",
    "bytes": "cvt.u64.u32 %rd9, %gid; add.u64 %rd9, %rd9, %rd2; st.global.u8 [%rd9], %tid;",
    "read": "ld.global.u32 %r1, [%rd5];",
    "updated": "red.global.add.u32 [%rd5], 1;",
    "a part, read at last": f"setp.lt.u32 %p1, %gid, 70; @%p1 st.global.u32 [%rd5], %tid; {LAST}"
    "@%p9 ld.global.u32 %r1, [%rd5];",
}


@pytest.mark.parametrize("body", UNWRITTEN.values(), ids=UNWRITTEN)
def test_what_was_written_is_known(body):
    (_, findings, _, left, _), code = both(body, empty=(1,), grid=3, launches=2)
    assert isinstance(code, NativeKernel) is not findings
    assert left[1] < 1024 or findings


@pytest.mark.parametrize("written", [192, 70])
def test_what_an_earlier_launch_wrote_may_be_read(written):
    """Of an array that is written in part: native code looks at the bytes themselves."""
    body = f"""ld.global.u32 %r1, [%rd4]; setp.eq.u32 %p1, %r1, 777; @%p1 bra Second;
        st.global.u32 [%rd4], 777; setp.lt.u32 %p2, %gid, {written};
        @%p2 st.global.u32 [%rd5], %tid; bra End;
        Second: ld.global.u32 %r2, [%rd5]; End:"""
    (_, findings, _, left, _), code = both(body, empty=(1,), grid=3, launches=2)
    assert bool(findings) is (written < 192) and 0 < left[1] < 1024
    assert code == SUSPECT if findings else isinstance(code, NativeKernel)


REFUSED = {
    "fences": "membar.gl; st.global.u32 [%rd5], %tid;",
    "release": "st.release.gpu.global.u32 [%rd5], %tid;",
    "companions": "mov.u32 %r1, -1; bar.warp.sync %r1;",
    "another barrier": "bar.sync 3; st.global.u32 [%rd5], %tid;",
    "a loop that waits": """Again: ld.volatile.global.u32 %r1, [%rd1+60]; setp.eq.u32 %p1, %r1, 0;
        @%p1 bra Again; st.global.u32 [%rd5], %r1;""",
    "atomics of the block": "red.cta.global.add.u32 [%rd2], 1;",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_other_order_stays_with_the_interpreter(body):
    _, code = both(body)
    assert "under check()" in str(code)


@pytest.fixture
def later(monkeypatch):
    """Native code from the second wave of 128 threads on."""
    monkeypatch.setattr(launch, "WAVE_LANES", 128)
    return lambda run, first: first > 0 and native.natively(run, first)


ACROSS = {
    "a store after a load": ("ld.global.u32 %r1, [%rd1]; {last} @%p9 st.global.u32 [%rd1], %r1;"),
    "a load after a store": "setp.eq.u32 %p1, %gid, 5; @%p1 st.global.u32 [%rd2], %tid;"
    "{last} @%p9 ld.global.u32 %r1, [%rd2];",
    "a byte after a word": "setp.eq.u32 %p1, %gid, 5; @%p1 st.global.u32 [%rd2], %tid;"
    "{last} @%p9 st.global.u8 [%rd2+2], %tid;",
    "a load after an atomic": "setp.eq.u32 %p1, %gid, 5; @%p1 red.global.add.u32 [%rd2], %tid;"
    "{last} @%p9 ld.global.u32 %r1, [%rd2];",
}


@pytest.mark.parametrize("body", ACROSS.values(), ids=ACROSS)
def test_races_with_blocks_that_were_interpreted(body, later):
    late = "setp.eq.u32 %p9, %gid, 250;"
    (_, findings, *_), code = both(body.format(last=late), later, grid=4)
    assert [kind for kind, *_ in findings] == ["race"]
    assert code == SUSPECT


def test_a_launch_that_changes_over_between_two_waves(later):
    (_, findings, *_), code = both(CLEAN["in place"], later, grid=4)
    assert not findings and isinstance(code, NativeKernel)


@pytest.mark.parametrize("times", [1, 4, 7])
@pytest.mark.parametrize(
    "body",
    [
        *CLEAN.values(),
        *(
            body
            for name, body in FAULTY.items()
            if "another block" in name or "many blocks" in name
        ),
    ],
)
def test_time_that_runs_out(body, times, monkeypatch):
    """Records are written anew in the midst of a launch, and say what they said."""
    before = watched_launch.Watch.__init__
    if "bar.warp" in body:  # of which three cannot pass in one block then
        times = max(times, 4)

    def short(self, *given):
        before(self, *given)
        self.words[watched_launch.WORD["end"]] = self.floor + times * watched_launch.TICK

    monkeypatch.setattr(watched_launch.Watch, "__init__", short)
    (_, findings, *_), code = both(body, grid=3)
    assert isinstance(code, NativeKernel) is not findings


def test_arrays_that_are_loaded_and_stored_to_are_tried_one_by_one(monkeypatch):
    monkeypatch.setattr(watched_launch, "ATTEMPTS", 1)
    body = CLEAN["in place"] + CLEAN["in place"].replace("%rd4", "%rd5")
    (_, findings, *_), code = both(body)
    assert not findings and isinstance(code, NativeKernel)


def random_body(random: Random) -> str:
    """Accesses and barriers; most race-free."""
    steps = [BEGIN, "st.shared.u32 [%rd8+256], %tid; bar.sync 0; mov.u64 %rd8, table;"]
    kind = random.choice([("load", "store"), ("load", "store", "atomic"), tuple(WHAT)[:7]])
    for number in range(random.randrange(2, 10)):
        if random.random() < 0.45:
            steps.append(ORDER[random.choice(["barrier", "barrier", "syncwarp", "shuffle"])])
            continue
        space = random.choice(["global", "shared"])
        where = random.choice(
            list(WHERE)
            if random.random() < 0.5
            else (
                ["of the grid"] if space == "global" else ["own", "own", "neighbour", "half warp"]
            )
        )
        step = access(random.choice(list(WHO)), where, random.choice(kind), space)
        steps.append(step.replace("#", str(number)))
    return "\n".join(steps)


@pytest.mark.parametrize("seed", range(16))
def test_random_kernels(seed):
    """A race is never passed, and what is clean is never suspected."""
    (_, findings, *_), code = both(random_body(Random(seed)))
    assert code == SUSPECT if findings else isinstance(code, NativeKernel)


def test_random_kernels_are_of_both_kinds():
    found = [bool(both(random_body(Random(seed)), native=None)[0][1]) for seed in range(16)]
    assert 3 < sum(found) < 13


@pytest.mark.parametrize("name", sampling.each(2, sorted(CASES)[::5]))
def test_labelled_kernels(name, monkeypatch):
    """The whole report, word for word; all of them under ``python -m lab.evidence.labelled``."""
    assert CASES[name].same_in_native_code(devices.current(), monkeypatch.setenv) == ""
