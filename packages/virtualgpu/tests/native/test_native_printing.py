"""``printf`` in native code: the lines that the interpreter prints, each of them once."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import virtualgpu
from native_lab import after, counted
from ptx_lab import entry
from virtualgpu import native
from virtualgpu.lanes import intrinsics
from virtualgpu.launch import standstill
from virtualgpu.native import intrinsics as provided
from virtualgpu.native import run
from virtualgpu.native.blocks import deadlock, multicore
from virtualgpu.native.compiled import NativeKernel

PRINTF = """
.extern .func (.param .b32 status) vprintf (.param .b64 text, .param .b64 values);
.global .align 1 .b8 text[32] = {{{text}}};
"""


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


def printing(format_: str) -> str:
    raw = [*format_.encode(), 0]
    return PRINTF.format(text=", ".join(map(str, raw)))


# Prints %rd10 and %fd1 from the thread's own memory.
CALL = """ {
    .param .b64 f; .param .b64 a; .param .b32 s; .reg .b64 %rf, %ra;
    st.local.b64 [values], %rd10; st.local.f64 [values+8], %fd1;
    mov.u64 %rf, text; cvta.global.u64 %rf, %rf; st.param.b64 [f], %rf;
    mov.u64 %ra, values; cvta.local.u64 %ra, %ra; st.param.b64 [a], %ra;
    call.uni (s), vprintf, (f, a); ld.param.b32 %r20, [s]; } """
ROOM = ".local .align 8 .b8 values[16];"
VALUE = """cvt.u64.u32 %rd10, %gid; cvt.rn.f64.u32 %fd1, %tid;
    mul.f64 %fd1, %fd1, 0d3FE0000000000000;"""
OUT = """ mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3; add.u32 %r20, %r20, 5;
    st.global.u32 [%rd3], %r20;"""
LOOP = f"""mov.u32 %r1, 0;
    Next: cvt.u64.u32 %rd10, %r1; setp.gt.u32 %p2, %tid, %r1; @!%p2 bra Skip; {CALL}
    Skip: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5; @%p1 bra Next;"""


def kernel(body: str, format_: str = "%lld: %g\n") -> str:
    return entry(VALUE + body + OUT, 1, before=printing(format_), variables=ROOM)


def printed(capsys, text: str, native, count: int = 128, **options):
    """What a launch prints, the threads' results, its error and the native code."""
    contents, error, code = after(text, native, [np.zeros(count, np.uint32)], **options)
    return capsys.readouterr().out, contents[0].tobytes(), error, code


@pytest.mark.parametrize(
    "body",
    [
        CALL,
        f"setp.lt.u32 %p1, %tid, 3; @%p1 bra On; {CALL} On:",
        f"and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra Odd; {CALL} Odd: {CALL}",
        f"mov.u64 %rd10, 7; {CALL} bar.sync 0; mov.u64 %rd10, 8; {CALL}",
        LOOP,
    ],
    ids=["all", "some", "in two ways", "around a barrier", "in a loop"],
)
@pytest.mark.parametrize("block", [32, 19])
def test_a_warp_s_lines(capsys, body, block):
    text = kernel(body)
    there = printed(capsys, text, None, block=block, grid=1)
    here = printed(capsys, text, native.natively, block=block, grid=1)
    assert isinstance(here[3], NativeKernel), here[3]
    assert here[:3] == there[:3]
    assert there[0].count("\n") > 10


def test_lines_of_many_warps_are_in_the_order_of_blocks_and_warps(capsys):
    text = kernel(f"cvt.u64.u32 %rd10, %gid; {CALL} mov.u64 %rd10, 1000; {CALL}", "%lld,")
    there = printed(capsys, text, None, block=70, grid=3, count=210)
    here = printed(capsys, text, native.natively, block=70, grid=3, count=210, cores=4)
    assert here[1:3] == there[1:3]
    assert sorted(here[0].split(",")) == sorted(there[0].split(","))
    numbers = [int(number) for number in here[0].split(",")[:-1]]
    assert [n for n in numbers if n < 1000] == list(range(210))
    assert numbers[:64] == [*range(32), *[1000] * 32]  # the first warp's


def test_a_function_s_frame_and_strings(capsys):
    """%s reads global memory; the arguments lie in the frame of the function that prints."""
    device = (
        printing("%s %d\n")
        + f"""
        .global .align 1 .b8 word[4] = {{97, 98, 99, 0}};
        .func say (.param .b32 number) {{ .reg .b32 %r<4>; .reg .b64 %rd<8>; {ROOM}
        mov.u64 %rd1, word; cvta.global.u64 %rd1, %rd1; st.local.b64 [values], %rd1;
        ld.param.b32 %r1, [number]; st.local.b32 [values+8], %r1;
        mov.u64 %rd2, text; cvta.global.u64 %rd2, %rd2;
        mov.u64 %rd3, values; cvta.local.u64 %rd3, %rd3;
        {{ .param .b64 f; .param .b64 a; .param .b32 s; st.param.b64 [f], %rd2;
        st.param.b64 [a], %rd3; call.uni (s), vprintf, (f, a); }} ret; }}"""
    )
    text = entry(
        """st.local.b32 [mine], %tid; { .param .b32 n; st.param.b32 [n], %gid;
        call.uni say, (n); } ld.local.b32 %r20, [mine];"""
        + OUT,
        1,
        before=device,
        variables=".local .align 8 .b8 mine[24];",
    )
    there = printed(capsys, text, None, block=32, grid=2)
    here = printed(capsys, text, native.natively, block=32, grid=2)
    assert isinstance(here[3], NativeKernel), here[3]
    assert here[:3] == there[:3]
    assert here[0].startswith("abc 0\nabc 1\n")


def test_the_buffer_of_printf_holds_as_much(capsys, monkeypatch):
    monkeypatch.setattr(intrinsics, "PRINTED", 100)
    monkeypatch.setattr(virtualgpu.launch.launch, "PRINTED", 100)
    text = kernel(CALL)
    there = printed(capsys, text, None, block=32, grid=2)
    assert printed(capsys, text, native.natively, block=32, grid=2)[:3] == there[:3]
    assert 100 <= len(there[0]) < 120


def test_an_error_repeats_no_line(capsys):
    text = kernel(CALL + "setp.eq.u32 %p1, %gid, 40; @%p1 st.global.u32 [%rd1+65536], %r20;")
    there = printed(capsys, text, None, block=32, grid=2)
    here = printed(capsys, text, native.natively, block=32, grid=2)
    assert isinstance(here[3], NativeKernel), here[3]
    assert here[0] == there[0]
    assert here[2] == there[2]
    assert "illegal address" in here[2]


def test_the_look_at_lanes_that_wait_prints_nothing(capsys, monkeypatch):
    """Thread 70 prints and works; the others wait for it, and the interpreter looks at a copy."""
    monkeypatch.setattr(standstill, "FIRST", 1e-4)
    looks = []
    monkeypatch.setattr(deadlock, "look", lambda *a, look=deadlock.look: looks.append(look(*a)))
    text = kernel(
        f"""setp.ne.u32 %p1, %gid, 70; @%p1 bra Wait; mov.u32 %r5, 0;
        Work: ld.volatile.global.u32 %r6, [%rd1+4104]; mad.lo.u32 %r6, %r6, 5, %r5;
        st.volatile.global.u32 [%rd1+4104], %r6; add.u32 %r5, %r5, 1; and.b32 %r7, %r5, 3;
        setp.ne.u32 %p2, %r7, 0; @%p2 bra On; cvt.u64.u32 %rd10, %r5; {CALL}
        On: setp.lt.u32 %p3, %r5, 4000; @%p3 bra Work;
        st.volatile.global.u32 [%rd1+4096], 5; bra Done;
        Wait: ld.volatile.global.u32 %r4, [%rd1+4096]; setp.ne.u32 %p2, %r4, 5; @%p2 bra Wait;
        Done: mov.u32 %r20, 1;""",
        "%lld\n",
    )
    here = printed(capsys, text, native.natively, count=2048)
    assert isinstance(here[3], NativeKernel), here[3]
    assert looks
    assert here[0] == "".join(f"{4 * i}\n" for i in range(1, 1001))
    assert here[0] == printed(capsys, text, None, count=2048)[0]


def test_what_is_counted_is_the_same(capsys):
    text = kernel(LOOP)
    arrays = [np.zeros(128, np.uint32)]
    there, _, _ = counted(text, None, arrays)
    first = capsys.readouterr().out
    here, error, code = counted(text, native.natively, arrays)
    assert isinstance(code, NativeKernel), code
    assert error is None
    assert sorted(capsys.readouterr().out.split("\n")) == sorted(first.split("\n"))
    assert here == there


def test_what_prints_is_interpreted_under_check():
    """It could not be taken back."""
    text = kernel(CALL)
    with virtualgpu.check() as report:
        virtualgpu.Module.from_ptx(text).launch("k", 2, 64, [np.zeros(128, np.uint32)])
    assert not report.findings


@pytest.mark.usefixtures("active")
def test_numba_s_print(capsys, cuda, monkeypatch):
    natively = []
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    monkeypatch.setattr(
        multicore.Run,
        "run",
        lambda self, first, run=multicore.Run.run: (natively.append(first), run(self, first)),
    )

    @cuda.jit
    def tell(array):
        i = cuda.grid(1)
        if i < array.size:
            print("thread", i, "has", array[i])

    tell[1, 32](np.arange(20) * 0.25)
    cuda.synchronize()
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"thread {i} has {i / 4:f}" for i in range(20)]
    assert natively == [0]


def test_control_c_in_the_midst_of_a_line_stops_the_kernel(monkeypatch):
    """It is heard by the function that prints, which native code has called."""

    def interrupted(*_):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setitem(provided.FUNCTIONS, "vprintf", lambda group, text, values: interrupted())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as stop:
            after(kernel(CALL), native.natively, [np.zeros(128, np.uint32)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert stop.value.__notes__ == ["stopped in kernel k, thread 0 of block 0"]
