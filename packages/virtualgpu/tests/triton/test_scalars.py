"""Scalars of a Triton program under ``check()``: one program is one thread of control.

The bodies are what Triton 3.9.0 makes of the sources beside them, for four warps.
"""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices
from virtualgpu.triton.arguments import pack
from virtualgpu.triton.lines import mended

HEADER = """.version 8.7
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.visible .entry k(.param .u64 .ptr .global .align 1 k_param_0,
                  .param .u64 .ptr .global .align 1 k_param_1)
.reqntid THREADS
{
	.reg .pred 	%p<9>;
	.reg .b32 	%r<20>;
	.reg .b64 	%rd<9>;
	.loc	1 4 0
	ld.param.b64 	%rd1, [k_param_0];
	ld.param.b64 	%rd2, [k_param_1];
	mov.u32 	%r1, %tid.x;
	setp.eq.b32 	%p2, %r1, 0;
BODY
	ret;
}
	.file	1 "/triton/FILE.py"
"""
ADDED = """
	.loc	1 5 1
	mov.u32 %r7, 0x0;
	ld.global.b32 { %r7 }, [ %rd1 + 0 ];
	add.f32 	%r8, %r7, 0f3F800000;
	@%p2 st.global.b32 [ %rd1 + 0 ], { %r8 };"""
BODIES = {
    # tl.store(o, tl.load(o) + 1.)
    "one addition": ADDED,
    # tl.store(o, tl.load(o) + 1.), twice
    "two additions": ADDED + ADDED,
    # while tl.atomic_cas(lock, 0, 1) == 1: pass
    # tl.store(o, tl.load(o) + 1.); tl.debug_barrier(); tl.atomic_xchg(lock, 0)
    "under a lock": f"""
	mov.b32 	%r5, global_smem;
Again:
	bar.sync 	0;
	mov.b32 	%r3, 0;
	mov.b32 	%r4, 1;
	mov.u32 %r2, 0x0;
	@%p2 atom.global.acq_rel.gpu.cas.b32 %r2, [ %rd2 + 0 ], %r3, %r4;
	@%p2 st.shared::cta.b32 [ %r5 + 0 ], %r2;
	bar.sync 	0;
	ld.shared.b32 	%r6, [global_smem];
	setp.eq.b32 	%p1, %r6, 1;
	@%p1 bra 	Again;
	{ADDED}
	bar.sync 	0;
	bar.sync 	0;
	mov.u32 %r9, 0x0;
	@%p2 atom.global.gpu.acq_rel.exch.b32 %r9, [ %rd2 + 0 ], %r3;
	bar.sync 	0;""",
    # if tl.load(o) < 0.5: tl.store(o, 1.)
    "a test": """
	.loc	1 6 1
	mov.u32 %r5, 0x0;
	ld.global.b32 { %r5 }, [ %rd1 + 0 ];
	setp.geu.f32 	%p4, %r5, 0f3F000000;
	@%p4 bra 	Done;
	BARRIER
	mov.b32 	%r9, 1065353216;
	.loc	1 7 1
	@%p2 st.global.b32 [ %rd1 + 0 ], { %r9 };
Done:""",
    # i = tl.arange(0, 128); tl.store(o + i, tl.load(o + i + 1))
    "a shift": """
	.loc	1 8 1
	mad.wide.u32 	%rd3, %r1, 4, %rd1;
	mov.u32 %r5, 0x0;
	ld.global.b32 { %r5 }, [ %rd3 + 4 ];
	BARRIER
	.loc	1 9 1
	st.global.b32 [ %rd3 + 0 ], { %r5 };""",
}


def launch(name: str, programs: int = 1, threads: int = 128, barrier: str = ""):
    text = HEADER.replace("BODY", BODIES[name]).replace("THREADS", str(threads))
    text = text.replace("FILE", name.replace(" ", "_")).replace("BARRIER", barrier)
    with devices.use(devices.VirtualDevice()) as device:
        addresses = [device.allocate(1024) for _ in range(2)]
        for address in addresses:
            device.write(address, np.zeros(1024, np.uint8))

        class Pointer:
            def __init__(self, address: int):
                self.data_ptr = lambda: address

        with virtualgpu.check() as report:
            device.launch(
                device.load(mended(text)),
                "k",
                (programs, 1, 1),
                (threads, 1, 1),
                pack(["*fp32", "*i32"], [Pointer(address) for address in addresses]),
                16,
            )
        return report, float(device.read(addresses[0], 4).view(np.float32)[0])


@pytest.mark.parametrize("threads", [32, 128])
@pytest.mark.parametrize("name", ["one addition", "two additions"])
def test_a_program_adds_to_its_own_scalar(name, threads):
    report, value = launch(name, threads=threads)
    assert report.ok and value == 1 + (name == "two additions")


@pytest.mark.parametrize("threads", [32, 128])
def test_programs_add_to_a_scalar_under_a_lock(threads):
    report, value = launch("under a lock", programs=3, threads=threads)
    assert report.ok and value == 3


def test_programs_that_add_to_one_scalar_race():
    report, _ = launch("one addition", programs=3)
    (found,) = report.findings
    assert found.kind == "race"
    assert "program 0 writes" in found.message and "program 1 reads" in found.message
    assert "let one program do it" in found.message and "thread" not in str(report)


def test_a_scalar_that_other_warps_test_needs_a_barrier():
    report, _ = launch("a test")
    (found,) = report.findings
    assert "the same program" in found.message and "tl.debug_barrier()" in found.message
    assert "thread" not in str(report)
    assert launch("a test", barrier="bar.sync 0;")[0].ok
    assert launch("a test", threads=32)[0].ok


@pytest.mark.parametrize("threads", [32, 128])
def test_a_shift_within_a_program_races(threads):
    assert {found.line for found in launch("a shift", threads=threads)[0].findings} == {9}
    assert launch("a shift", threads=threads, barrier="bar.sync 0;")[0].ok
