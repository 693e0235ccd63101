"""Loads and stores of every type, space and width; and the faults, each with its name.

Above 500 lines: one text of PTX is varied by type, space, width and fault.
"""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from native_lab import agree
from ptx_lab import HEADER, entry, launch, per_thread
from virtualgpu import devices
from virtualgpu.errors import (
    LaunchError,
    MemoryAccessError,
    MisalignedAddressError,
    UnsupportedInstruction,
)
from virtualgpu.launch.limits import Budget

BYTES = np.random.default_rng(5).integers(0, 256, 64 * 16, np.uint8)


def fault(body: str, *inputs, kind=MemoryAccessError, grid=1, block=32, **options):
    with pytest.raises(kind) as caught:
        per_thread(body, *inputs, grid=grid, block=block, **options)
    return caught.value


# -- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "space", ["global", "shared", "local", "generic global", "generic shared", "generic local"]
)
@pytest.mark.parametrize(
    "kind", ["u8", "s8", "b8", "u16", "s16", "u32", "s32", "b32", "u64", "s64", "b64"]
)
def test_every_integer_type_in_every_space(kind, space):
    """Bytes go round by way of the space; narrow loads extend by their own sign to 64 bits."""
    size = int(kind[1:]) // 8
    name = space.split()[-1]
    word = "" if "generic" in space else f".{name}"
    to_generic = f"cvta.{name}.u64 %rd5, %rd5;" if "generic" in space and name != "global" else ""
    if name == "global":
        place = "mad.wide.u32 %rd5, %gid, 8, %rd3;"
    else:
        place = f"mov.u64 %rd5, room; {'mad.wide.u32 %rd5, %tid, 8, %rd5;' * (name == 'shared')}"
    room = {
        "shared": ".shared .align 8 .b8 room[512];",
        "local": ".local .align 8 .b8 room[8];",
    }.get(name, "")
    out = per_thread(
        f"""
        mad.wide.u32 %rd4, %gid, 8, %rd2;
        ld.global.u64 %rd6, [%rd4];
        {place} {to_generic}
        st{word}.{kind} [%rd5], %rd6;
        ld{word}.{kind} %rd7, [%rd5];
        """,
        BYTES[: 64 * 8].copy(),
        np.zeros(64, np.uint64),
        block=64,
        dtype=np.uint64,
        result="%rd7",
        variables=room,
    )
    narrow = (
        BYTES[: 64 * 8]
        .reshape(64, 8)[:, :size]
        .copy()
        .view(f"{'i' if kind[0] == 's' else 'u'}{size}")
        .ravel()
    )
    np.testing.assert_array_equal(out, narrow.astype(np.int64).view(np.uint64))


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("u8", 2),
        ("u8", 4),
        ("u16", 2),
        ("b16", 4),
        ("u32", 2),
        ("f32", 4),
        ("b32", 4),
        ("f64", 2),
        ("u64", 2),
    ],
)
@pytest.mark.parametrize("space", ["global", "shared", "local"])
def test_vectors(kind, count, space):
    size = int(kind[1:]) // 8
    bank = {
        "u8": "%h",
        "u16": "%h",
        "b16": "%h",
        "u32": "%r1",
        "b32": "%r1",
        "f32": "%f",
        "f64": "%fd",
        "u64": "%rd1",
    }[kind]
    names = [f"{bank}{i}" for i in range(count)]
    listed = "{" + ", ".join(names) + "}"
    back = "{" + ", ".join(reversed(names)) + "}"
    place = {
        "global": "mad.wide.u32 %rd5, %gid, 16, %rd3;",
        "shared": "mov.u64 %rd5, room; mad.wide.u32 %rd5, %tid, 16, %rd5;",
        "local": "mov.u64 %rd5, room;",
    }[space]
    result = np.zeros(64 * 16, np.uint8)
    per_thread(
        f"""
        mad.wide.u32 %rd4, %gid, 16, %rd2;
        mad.wide.u32 %rd6, %gid, 16, %rd3;
        {place}
        ld.global.v{count}.{kind} {listed}, [%rd4];
        st.{space}.v{count}.{kind} [%rd5], {back};
        ld.{space}.v{count}.{kind} {listed}, [%rd5];
        st.global.v{count}.{kind} [%rd6], {listed};
        mov.u32 %r0, 0;
        """,
        BYTES.copy(),
        result,
        block=64,
        variables=f".{space if space != 'global' else 'shared'} .align 16 .b8 room[1024];",
    )
    wanted = BYTES.reshape(64, 16)[:, : size * count].reshape(64, count, size)[:, ::-1]
    np.testing.assert_array_equal(result.reshape(64, 16)[:, : size * count], wanted.reshape(64, -1))


def test_parts_of_a_vector_that_nobody_wants():
    out = per_thread("ld.global.v4.u32 {_, _, %r0, _}, [%rd2];", BYTES.copy())
    assert (out == BYTES[8:12].view(np.uint32)[0]).all()


def test_a_float_goes_through_bit_registers():
    values = np.float32([0, -0.0, 1.5, np.inf, np.nan, 1e-45, 3e38, -7])
    out = per_thread(
        """
        mad.wide.u32 %rd3, %tid, 4, %rd2;
        ld.global.f32 %f1, [%rd3]; mov.b32 %r0, %f1;""",
        values,
        block=8,
    )
    np.testing.assert_array_equal(out, values.view(np.uint32))


@pytest.mark.parametrize(
    "words", ["volatile", "relaxed.gpu", "acquire.sys", "weak", "mmio.relaxed.sys"]
)
def test_orders_change_no_value(words):
    assert (per_thread(f"ld.{words}.global.u32 %r0, [%rd2];", np.uint32([7])) == 7).all()


@pytest.mark.parametrize(
    "words", ["global.ca", "global.nc", "global.L1::evict_last", "global.L2::256B", "global.lu"]
)
def test_cache_hints_change_no_value(words):
    assert (per_thread(f"ld.{words}.u32 %r0, [%rd2];", np.uint32([7])) == 7).all()


def test_what_loads_cannot_do_here_is_named():
    with pytest.raises(UnsupportedInstruction, match="f128"):
        per_thread("ld.global.f128 %rd5, [%rd1];")


# -- addresses ------------------------------------------------------------------------------------


def test_negative_offsets_and_offsets_on_top_of_lanes():
    a = np.arange(64, dtype=np.uint32)
    out = per_thread(
        """
        mad.wide.u32 %rd3, %tid, 4, %rd2;
        add.u64 %rd3, %rd3, 64;
        ld.global.u32 %r1, [%rd3+-64]; ld.global.u32 %r2, [%rd3+60]; ld.u32 %r3, [%rd3-4];
        mad.lo.u32 %r0, %r2, 100, %r1; mad.lo.u32 %r0, %r3, 10000, %r0;""",
        a,
    )
    t = np.arange(32)
    np.testing.assert_array_equal(out, t + 100 * (t + 31) + 10000 * (t + 15))


@pytest.mark.parametrize("offset", ["", "+16", "-4", "+2147483647", "-2147483648"])
@pytest.mark.parametrize("address", ["0", "4", "-4", "-16", "0x7fffffffffffffff", "1 << 63"])
@pytest.mark.parametrize("space", ["global", "shared", "local", "generic"])
def test_no_address_near_the_ends_of_the_world_is_legal(space, address, offset):
    """Sums wrap at 64 bits and land in no allocation (or on an odd address)."""
    word = "" if space == "generic" else f".{space}"
    value = str(eval(address))
    before = "mul.wide.u32 %rd6, %tid, 4; add.u64 %rd5, %rd5, %rd6;"
    for lanes in ("", before):  # all lanes at one address, and apart
        for access in (
            f"ld{word}.u32 %r0, [%rd5{offset}];",
            f"st{word}.u32 [%rd5{offset}], 1;",
            f"atom{word}.add.u32 %r0, [%rd5{offset}], 1;",
        ):
            if space == "local" and "atom" in access:
                continue
            error = fault(f"mov.u64 %rd5, {value}; {lanes} {access}")
            assert error.space == ("global" if space == "generic" else space)


def test_one_instruction_reaches_several_spaces_through_generic_addresses():
    """Lanes 0-9 go to global memory, 10-19 to shared, 20-29 to local."""
    data = np.arange(100, 132, dtype=np.uint32)
    out = per_thread(
        """
        mov.u64 %rd3, tile; cvta.shared.u64 %rd3, %rd3; mad.wide.u32 %rd3, %tid, 4, %rd3;
        mov.u64 %rd4, own; cvta.local.u64 %rd4, %rd4; add.u64 %rd4, %rd4, 8;
        mad.wide.u32 %rd5, %tid, 4, %rd2;
        add.u32 %r1, %tid, 1000; st.u32 [%rd3], %r1;
        add.u32 %r1, %tid, 2000; st.u32 [%rd4], %r1;
        setp.lt.u32 %p1, %tid, 10; setp.lt.u32 %p2, %tid, 20;
        selp.b64 %rd6, %rd3, %rd4, %p2; selp.b64 %rd6, %rd5, %rd6, %p1;
        ld.u32 %r2, [%rd6];
        add.u32 %r2, %r2, 5; st.u32 [%rd6], %r2;
        ld.v2.u32 {%r3, %r4}, [%rd4+-8];
        ld.u32 %r0, [%rd6+0];""",
        data,
        block=30,
        variables=".shared .align 4 .b8 tile[128]; .local .align 8 .b8 own[16];",
    )
    t = np.arange(30)
    wanted = np.select([t < 10, t < 20], [t + 105, t + 1005], t + 2005)
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(data[:10], t[:10] + 105)
    np.testing.assert_array_equal(data[10:], np.arange(110, 132))


def test_a_null_pointer_among_good_ones_is_named():
    error = fault("""
        setp.eq.u32 %p1, %tid, 3; selp.b64 %rd5, 0, %rd1, %p1; ld.u32 %r0, [%rd5];""")
    assert error.address == 0
    assert error.location.thread == (3, 0, 0)
    assert "null pointer" in error.message


def test_atomics_reach_several_spaces_too():
    counter = np.zeros(1, np.uint32)
    out = per_thread(
        """
        mov.u64 %rd3, tile; cvta.shared.u64 %rd3, %rd3;
        setp.eq.u32 %p0, %tid, 0; @%p0 st.shared.u32 [tile], 0;
        bar.sync 0;
        and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 1;
        selp.b64 %rd4, %rd3, %rd2, %p1;
        atom.add.u32 %r2, [%rd4], 1;
        bar.sync 0;
        ld.shared.u32 %r0, [tile];""",
        counter,
        block=33,
        variables=".shared .align 4 .b8 tile[4];",
    )
    assert (out == 16).all()
    assert counter[0] == 17


def test_cvta_and_isspacep_agree():
    out = per_thread(
        """
        mov.u64 %rd3, tile; cvta.shared.u64 %rd4, %rd3; cvta.to.shared.u64 %rd5, %rd4;
        setp.eq.u64 %p1, %rd3, %rd5;
        isspacep.shared %p2, %rd4; isspacep.global %p3, %rd4; isspacep.local %p4, %rd4;
        mov.u64 %rd3, own; cvta.local.u64 %rd4, %rd3; isspacep.local %p5, %rd4;
        isspacep.global %p6, %rd2; isspacep.shared %p7, %rd2;
        selp.u32 %r0, 1, 0, %p1; selp.u32 %r1, 2, 0, %p2; or.b32 %r0, %r0, %r1;
        selp.u32 %r1, 4, 0, %p3; or.b32 %r0, %r0, %r1; selp.u32 %r1, 8, 0, %p4;
        or.b32 %r0, %r0, %r1; selp.u32 %r1, 16, 0, %p5; or.b32 %r0, %r0, %r1;
        selp.u32 %r1, 32, 0, %p6; or.b32 %r0, %r0, %r1; selp.u32 %r1, 64, 0, %p7;
        or.b32 %r0, %r0, %r1;""",
        np.zeros(1),
        block=1,
        variables=".shared .align 4 .b8 tile[4]; .local .align 4 .b8 own[4];",
    )
    assert out[0] == 1 + 2 + 16 + 32


# -- who sees what --------------------------------------------------------------------------------


def test_lanes_that_write_one_address_leave_one_of_their_values():
    value = np.zeros(1, np.uint32)
    for body in ("st.global.u32 [%rd2], %tid;", "st.u32 [%rd2], %tid;"):
        per_thread(body + " mov.u32 %r0, 0;", value, block=64)
        assert value[0] == 63  # lockstep: the last lane wins


def test_one_lane_alone_and_one_value_for_all():
    """Groups of one lane and registers with one value for all lanes look alike; both are right."""
    out = per_thread(
        """
        mov.u32 %r0, 7;
        setp.eq.u32 %p1, %tid, 5; @!%p1 bra Out;
        ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd2+4], %r1;
        mad.wide.u32 %rd3, %tid, 4, %rd2; ld.global.u32 %r0, [%rd3];
        Out:""",
        data := np.arange(10, dtype=np.uint32) + 50,
    )
    assert out.tolist() == [55 if t == 5 else 7 for t in range(32)]
    assert data[1] == 50


def test_shared_memory_is_the_blocks_own_and_local_the_threads():
    out = per_thread(
        """
        st.local.u32 [own], %gid;
        setp.eq.u32 %p1, %tid, 0; @%p1 st.shared.u32 [tile], %block;
        bar.sync 0;
        ld.shared.u32 %r1, [tile]; ld.local.u32 %r2, [own];
        mad.lo.u32 %r0, %r1, 1000, %r2;""",
        grid=20,
        block=40,
        variables=".shared .align 4 .b8 tile[4]; .local .align 4 .b8 own[4];",
    )
    g = np.arange(800)
    np.testing.assert_array_equal(out, g // 40 * 1000 + g)


def test_fresh_shared_and_local_memory_is_poison():
    out = per_thread(
        "ld.shared.u32 %r1, [tile]; ld.local.u32 %r2, [own]; and.b32 %r0, %r1, %r2;",
        variables=".shared .align 4 .b8 tile[4]; .local .align 4 .b8 own[4];",
    )
    assert (out == 0xFEFEFEFE).all()


def test_all_dynamic_shared_arrays_are_one():
    before = ".extern .shared .align 8 .b8 one[]; .extern .shared .align 4 .b8 two[];"
    out = per_thread(
        """
        st.shared.u32 [fixed], 1;
        mad.lo.u32 %r1, %tid, 4, 0; cvt.u64.u32 %rd3, %r1; mov.u64 %rd4, one;
        add.u64 %rd4, %rd4, %rd3; st.shared.u32 [%rd4], %tid;
        bar.sync 0;
        ld.shared.u32 %r2, [two+124]; mov.u32 %r3, %dynamic_smem_size;
        mov.u32 %r4, %total_smem_size;
        mad.lo.u32 %r0, %r3, 1000, %r2; mad.lo.u32 %r0, %r4, 1000000, %r0;""",
        before=before,
        variables=".shared .align 4 .b8 fixed[4];",
        shared_bytes=128,
    )
    assert (out == 132 * 1000000 + 128 * 1000 + 31).all()


def test_dynamic_shared_memory_as_mlir_names_it():
    """A variable of one byte, in the kernel: numba-cuda-mlir's ``shared.array(0)``."""
    out = per_thread(
        """
        mul.wide.u32 %rd3, %tid, 4; mov.u64 %rd4, __dynamic_shmem__0;
        add.u64 %rd4, %rd4, %rd3; st.shared.u32 [%rd4], %tid;
        bar.sync 0; ld.shared.u32 %r0, [__dynamic_shmem__0+124];""",
        variables=".shared .align 16 .b8 __dynamic_shmem__0;",
        shared_bytes=128,
    )
    assert (out == 31).all()


def test_addresses_of_one_thread_mean_its_own_local_memory():
    """A local address handed to another thread reaches that thread's own bytes."""
    out = per_thread(
        """
        mov.u64 %rd3, own; cvta.local.u64 %rd3, %rd3; st.local.u32 [own], %tid;
        setp.eq.u32 %p1, %tid, 0; @%p1 st.shared.u64 [tile], %rd3;
        bar.sync 0;
        ld.shared.u64 %rd4, [tile]; ld.u32 %r0, [%rd4];""",
        variables=".shared .align 8 .b8 tile[8]; .local .align 4 .b8 own[4];",
    )
    assert out.tolist() == list(range(32))


# -- constants, initial values, parameters --------------------------------------------------------


def test_initial_values_of_module_variables():
    before = """
        .const .align 4 .u32 weights[4] = {10, 20, 30};
        .global .align 1 .b8 packed[10] = {7, 0xFF(generic(numbers)+4), 0xFF00(generic(numbers)+4),
            0xFF0000(numbers), 0xFF000000(numbers), 0xFF00000000(numbers), 0xFF0000000000(numbers),
            0xFF000000000000(numbers), 0xFF00000000000000(numbers), 9};
        .global .align 8 .u64 pointer = numbers;
        .global .align 8 .u64 further[2] = {generic(numbers)+4, weights};
        .global .f32 numbers[3] = {0f3F800000, 2.0, 0fC0400000};
        .global .b32 bits = 0f40800000;
        .global .s8 small[4] = {-1, 127, -128};
        .global .f64 wide = 0d3FF8000000000000;
        .global .align 4 .b8 nothing[4];"""
    out = per_thread(
        """
        ld.const.u32 %r1, [weights+4]; ld.const.u32 %r2, [weights+12];
        mad.lo.u32 %r0, %r2, 1000, %r1;
        ld.global.u64 %rd3, [pointer]; ld.f32 %f1, [%rd3+8];
        ld.global.u64 %rd4, [further]; ld.global.f32 %f2, [%rd4];
        ld.global.u64 %rd5, [further+8]; ld.u32 %r3, [%rd5+8]; add.u32 %r0, %r0, %r3;
        add.f32 %f1, %f1, %f2; cvt.rzi.s32.f32 %r4, %f1; add.s32 %r0, %r0, %r4;
        ld.global.f32 %f3, [bits]; cvt.rzi.s32.f32 %r5, %f3; add.s32 %r0, %r0, %r5;
        ld.global.s8 %r6, [small+2]; add.s32 %r0, %r0, %r6;
        ld.global.f64 %fd1, [wide]; cvt.rzi.s32.f64 %r7, %fd1; add.s32 %r0, %r0, %r7;
        ld.global.u32 %r8, [nothing]; add.u32 %r0, %r0, %r8;""",
        before=before,
        dtype=np.int32,
    )
    assert (out == 20 + 30 + (-3 + 2) + 4 - 128 + 1).all()
    out = per_thread(
        """
        mov.u64 %rd3, 0; mov.u64 %rd4, packed; mov.u32 %r1, 8;
        Byte: cvt.u64.u32 %rd5, %r1; add.u64 %rd5, %rd5, %rd4; ld.global.u8 %rd6, [%rd5];
        shl.b64 %rd3, %rd3, 8; or.b64 %rd3, %rd3, %rd6;
        sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra Byte;
        ld.f32 %f1, [%rd3]; cvt.rzi.s32.f32 %r0, %f1;""",
        before=before,
    )
    assert (out == 2).all()  # the address came together from its bytes


def test_module_variables_live_on_between_launches():
    text = entry(
        """
        ld.global.u32 %r1, [count]; add.u32 %r1, %r1, 1; st.global.u32 [count], %r1;
        st.global.u32 [%rd1], %r1;""",
        1,
        before=".visible .global .u32 count = 40;",
    )
    module = virtualgpu.Module.from_ptx(text)
    out = np.zeros(1, np.uint32)
    for _ in range(3):
        module.launch("k", 1, 1, [out])
    assert out[0] == 43


def test_parameters_of_every_size_and_by_index():
    text = f"""{HEADER}
        .visible .entry k(.param .u64 out, .param .u8 a, .param .s16 b, .param .f32 c,
                          .param .align 8 .b8 s[24])
        {{
            .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<3>;
            ld.param.u64 %rd1, [out];
            ld.param.u8 %r1, [a]; st.global.u32 [%rd1], %r1;
            ld.param.s16 %r2, [b]; st.global.u32 [%rd1+4], %r2;
            ld.param.f32 %f1, [c]; st.global.f32 [%rd1+8], %f1;
            ld.param.v2.u32 {{%r3, %r4}}, [s+8]; st.global.u32 [%rd1+12], %r4;
            mov.b64 %rd2, s; mov.u32 %r5, %tid.x; mul.wide.u32 %rd3, %r5, 8;
            add.u64 %rd2, %rd2, %rd3; ld.param.u64 %rd4, [%rd2];
            add.u64 %rd5, %rd1, %rd3; st.global.u64 [%rd5+16], %rd4;
            ret;
        }}"""
    out = np.zeros(10, np.uint32)
    struct = np.array([1 << 40, 77 << 32, 3], np.uint64)
    launch(text, 1, 3, [out, np.uint8(200), np.int16(-2), 1.5, struct.tobytes()])
    assert out[:2].view(np.int32).tolist() == [200, -2]
    assert out[2:3].view(np.float32)[0] == 1.5
    assert out[3] == 77
    assert out[4:].view(np.uint64).tolist() == struct.tolist()


def test_structs_go_by_value_into_functions_and_out():
    """And ``param0`` means another variable in every call, as NVVM writes it."""
    before = """
        .func (.param .align 8 .b8 ret[16]) pair(.param .b64 a)
        { .reg .b64 %x<3>; ld.param.u64 %x1, [a]; add.u64 %x2, %x1, 1;
          st.param.b64 [ret], %x1; st.param.b64 [ret+8], %x2; ret; }
        .func (.param .b64 ret) sum(.param .align 8 .b8 a[16], .param .b32 b)
        { .reg .b64 %x<5>; .reg .b32 %r1; ld.param.v2.u64 {%x1, %x2}, [a]; ld.param.u32 %r1, [b];
          cvt.u64.u32 %x3, %r1; add.u64 %x1, %x1, %x2; add.u64 %x1, %x1, %x3;
          mov.b64 %x4, a; ld.param.u64 %x3, [%x4+8]; add.u64 %x1, %x1, %x3;
          st.param.b64 [ret], %x1; ret; }"""
    out = per_thread(
        """
        cvt.u64.u32 %rd5, %tid;
        { .param .b64 param0; .param .align 8 .b8 retval0[16];
          st.param.b64 [param0], %rd5; call.uni (retval0), pair, (param0);
          ld.param.v2.b64 {%rd6, %rd7}, [retval0]; }
        { .param .align 8 .b8 param0[16]; .param .b32 param1; .param .b64 retval0;
          st.param.b64 [param0], %rd6; st.param.b64 [param0+8], %rd7; st.param.b32 [param1], 1000;
          call.uni (retval0), sum, (param0, param1); ld.param.b64 %rd8, [retval0]; }""",
        before=before,
        dtype=np.uint64,
        result="%rd8",
    )
    t = np.arange(32)
    np.testing.assert_array_equal(out, t + 2 * (t + 1) + 1000)


# -- faults ---------------------------------------------------------------------------------------


def test_a_fault_names_kernel_block_thread_and_address():
    error = fault(
        "mad.wide.u32 %rd3, %gid, 4, %rd2; ld.global.u32 %r0, [%rd3];",
        np.zeros(300, np.uint32),
        grid=(2, 3),
        block=(16, 4),
    )
    assert error.space == "global"
    assert error.location.kernel == "k"
    # 300 = 4 * 64 + 44
    assert (error.location.block, error.location.thread) == ((0, 2, 0), (12, 2, 0))
    said = "reads 4 bytes of global memory, 0 bytes after the end of an array of 1,200 bytes"
    assert said in str(error)
    assert "(83 more threads do the same)" in error.message


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (16, "0 bytes after the end of an array of 16 bytes"),
        (-4, "4 bytes before the start of an array of 16 bytes"),
        (1 << 28, "far from every array"),
    ],
)
@pytest.mark.parametrize("verb", ["reads", "writes", "updates"])
def test_just_outside_an_array(verb, offset, words):
    access = {
        "reads": "ld.global.u32 %r0, [%rd3];",
        "writes": "st.global.u32 [%rd3], 1;",
        "updates": "red.global.add.u32 [%rd3], 1;",
    }[verb]
    with devices.use(virtualgpu.VirtualDevice(1 << 20)):  # no array of another test anywhere
        error = fault(f"add.u64 %rd3, %rd2, {offset}; {access}", np.zeros(4, np.uint32))
    assert f"{verb} 4 bytes of global memory, {words}" in error.message


@pytest.mark.parametrize("spread", ["", "mad.wide.u32 %rd3, %tid, 4, %rd3;"])
def test_a_vector_that_runs_past_the_end(spread):
    error = fault(
        f"add.u64 %rd3, %rd2, 16; {spread} ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%rd3];",
        np.zeros(5, np.uint32),
        block=1,
    )
    assert "reads 16 bytes" in error.message
    assert "run past the end of an array of 20 bytes" in error.message


@pytest.mark.parametrize("lanes", [1, 40])
@pytest.mark.parametrize(
    "access",
    [
        "ld.global.u32 %r2, [%rd3];",
        "st.global.u32 [%rd3], 1;",
        "atom.global.add.u32 %r2, [%rd3], 1;",
        "ld.u32 %r2, [%rd3];",
        "ld.global.u32 %r2, [%rd3+4];",
    ],
)
def test_a_loop_that_walks_off_the_end(access, lanes):
    """An instruction that was right many times is checked the next time too."""
    error = fault(
        f"""
        mul.wide.u32 %rd4, %tid, 8; add.u64 %rd3, %rd2, %rd4;
        Next: {access} add.u64 %rd3, %rd3, 4; bra Next;""",
        np.zeros(1000, np.uint32),
        block=lanes,
    )
    assert "0 bytes after the end of an array of 4,000 bytes" in error.message
    assert error.location.thread == (lanes - 1, 0, 0)


@pytest.mark.parametrize("space", ["shared", "local"])
def test_a_loop_that_walks_off_its_own_arrays(space):
    error = fault(
        f"""
        mov.u64 %rd3, room;
        Next: st.{space}.u32 [%rd3], 1; add.u64 %rd3, %rd3, 4; bra Next;""",
        variables=f".{space} .align 4 .b8 room[64];",
    )
    assert error.address == 64
    assert error.space == space


def test_nothing_is_written_where_one_lane_fails():
    """The launch stops at the instruction: lanes beside the bad one have not written."""
    gpu = virtualgpu.VirtualDevice(1 << 20)
    address = gpu.allocate(4 * 40)
    gpu.fill(address, 0, 160)
    module = gpu.load(
        entry(
            (
                "mad.wide.u32 %rd3, %tid, 4, %rd1; st.global.u32 [%rd3], 1; st.global.u32 "
                "[%rd3+128], 2;"
            ),
            1,
        )
    )
    with pytest.raises(MemoryAccessError):
        gpu.launch(module, "k", (1, 1, 1), (32, 1, 1), [np.uint64(address).tobytes()])
    assert gpu.read(address, 160).view(np.uint32).tolist() == [1] * 32 + [0] * 8


def test_use_after_free_and_between_arrays():
    gpu = virtualgpu.VirtualDevice(1 << 20)
    module = gpu.load(entry("ld.global.u32 %r0, [%rd1];", 1))
    address, other = gpu.allocate(64), gpu.allocate(64)

    def read(where):
        gpu.launch(module, "k", (1, 1, 1), (1, 1, 1), [np.uint64(where).tobytes()])

    read(address)
    gpu.free(address)
    with pytest.raises(MemoryAccessError, match="was freed"):
        read(address)
    read(other)
    with pytest.raises(MemoryAccessError, match="before the start of an array of 64 bytes"):
        read(other - 8)


@pytest.mark.parametrize("kind", ["u16", "u32", "u64", "v2.u32", "v4.u32"])
@pytest.mark.parametrize("space", ["global", "shared", "local"])
def test_misaligned(kind, space):
    size = {"u16": 2, "u32": 4, "u64": 8, "v2.u32": 8, "v4.u32": 16}[kind]
    target = {"v2.u32": "{%r0, %r1}", "v4.u32": "{%r0, %r1, %r2, %r3}", "u64": "%rd5"}.get(
        kind, "%r0"
    )
    base = "mov.u64 %rd4, %rd1;" if space == "global" else "mov.u64 %rd4, room;"
    error = fault(
        f"{base} add.u64 %rd4, %rd4, {size // 2}; ld.{space}.{kind} {target}, [%rd4];",
        kind=MisalignedAddressError,
        variables=".shared .align 16 .b8 sroom[64];"
        f".{space if space != 'global' else 'shared'} .align 16 .b8 room[64];",
    )
    assert f"not a multiple of {size}" in error.message
    assert error.address % size


def test_one_misaligned_lane_among_many():
    error = fault(
        "mad.wide.u32 %rd3, %tid, 4, %rd2; setp.eq.u32 %p1, %tid, 9;"
        "@%p1 add.u64 %rd3, %rd3, 2; ld.global.u32 %r0, [%rd3];",
        np.zeros(64, np.uint32),
        kind=MisalignedAddressError,
    )
    assert error.location.thread == (9, 0, 0)


@pytest.mark.parametrize("offset", [-4, 16, 20, 1023, 1024, 1 << 20])
def test_around_a_shared_array(offset):
    """Also between two arrays, where hardware would hit the neighbour."""
    error = fault(
        f"mov.u64 %rd3, one; add.u64 %rd3, %rd3, {offset & -4};ld.shared.u32 %r0, [%rd3];",
        variables=".shared .align 4 .b8 one[16]; .shared .align 4 .b8 two[16];",
    )
    assert error.space == "shared"
    assert "16 bytes" in error.message
    if offset in (-4, 16, 20):
        assert {
            -4: "4 bytes before the start",
            16: "0 bytes after the end",
            20: "4 bytes after the end",
        }[offset] in error.message


def test_shared_memory_that_nobody_declared():
    error = fault(
        "mov.u64 %rd3, d; ld.shared.u32 %r0, [%rd3];", before=".extern .shared .align 4 .b8 d[];"
    )
    assert "dynamic shared array of 0 bytes" in error.message


@pytest.mark.parametrize("offset", [16, 20, 4096, -4])
def test_around_local_arrays(offset):
    error = fault(
        f"mov.u64 %rd3, own; add.u64 %rd3, %rd3, {offset}; st.local.u32 [%rd3], 1;",
        variables=".local .align 4 .b8 own[16];",
    )
    assert error.space == "local"


def test_local_memory_that_nobody_declared():
    for address in (0, 4, 1 << 40):
        assert fault(f"mov.u64 %rd3, {address}; ld.local.u32 %r0, [%rd3];").space == "local"


def test_a_function_may_touch_its_callers_arrays_through_pointers_only():
    before = """
        .func poke(.param .b64 p)
        { .local .align 8 .b8 own[16]; .reg .b64 %x1; ld.param.u64 %x1, [p];
          st.u32 [%x1], 9; st.local.u32 [own+12], 1; ret; }"""
    out = per_thread(
        """
        mov.u64 %rd3, mine; cvta.local.u64 %rd3, %rd3; st.local.u32 [mine], 5;
        st.local.u32 [mine+4], 6;
        { .param .b64 param0; st.param.b64 [param0], %rd3; call poke, (param0); }
        ld.local.u32 %r1, [mine]; ld.local.u32 %r2, [mine+4]; mad.lo.u32 %r0, %r1, 10, %r2;
        """,
        before=before,
        variables=".local .align 8 .b8 mine[8];",
    )
    assert (out == 96).all()


def test_limits_of_shared_and_local_memory():
    with pytest.raises(LaunchError, match="shared memory"):
        per_thread("mov.u32 %r0, 0;", shared_bytes=300_000)
    with pytest.raises(LaunchError, match="local memory"):
        per_thread("st.local.u32 [own], 1;", variables=".local .align 4 .b8 own[600000];")


def test_large_memories_make_smaller_waves():
    """30,000 threads run in one wave; with 4 kB each it would be past this budget."""
    with devices.use(virtualgpu.VirtualDevice(64 << 20, Budget(nbytes=16 << 20))):
        out = per_thread(
            "st.local.u32 [own+4092], %gid; ld.local.u32 %r0, [own+4092];",
            variables=".local .align 4 .b8 own[4096];",
            grid=30,
            block=1000,
        )
        np.testing.assert_array_equal(out, np.arange(30_000))
        out = per_thread(
            "st.shared.u32 [tile+47996], %block; ld.shared.u32 %r0, [tile+47996];",
            variables=".shared .align 4 .b8 tile[48000];",
            grid=2000,
            block=1,
        )
        np.testing.assert_array_equal(out, np.arange(2000))


def test_recursion_without_end_is_a_stack_overflow():
    before = ".func f() { .local .align 8 .b8 own[4096]; st.local.u32 [own], 1; call f; ret; }"
    with pytest.raises(LaunchError, match="local memory"):
        per_thread("call f; mov.u32 %r0, 0;", before=before)


# -- addresses of 32 bits ------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["shared", "local"])
@pytest.mark.parametrize(
    "body",
    [
        "st.{0}.u32 [%r1+256], %gid; ld.{0}.u32 %r0, [%r1+256];",
        "atom.shared.add.u32 %r0, [%r1+256], 5; bar.sync 0; ld.shared.u32 %r0, [%r1+256];",
    ],
)
def test_a_register_below_zero_and_a_constant_wrap_at_32_bits(space: str, body: str) -> None:
    """``sh[c - tx - 1]``: the compiler adds the constant part of the index last."""
    if space == "local" and "atom" in body:
        return
    text = entry(
        f"""
        mul.lo.u32 %r1, %gid, 4; sub.u32 %r1, %r1, 256; mov.u32 %r2, 0;
        {"st.shared.u32 [%r1+256], %gid; bar.sync 0;" if "atom" in body else ""}
        {body.format(space)} mad.wide.u32 %at, %gid, 4, %rd1; st.global.u32 [%at], %r0;""",
        1,
        variables=f".{space} .align 4 .b8 room[256];",
    )
    out = np.zeros(64, np.uint32)
    agree(text, out, grid=1, block=64)
    launch(text, 1, 64, [out])
    assert (out == np.arange(64) + (5 if "atom" in body else 0)).all()


def test_an_address_below_zero_is_illegal_all_the_same() -> None:
    text = entry(
        "mov.u32 %r1, -16; ld.shared.u32 %r0, [%r1+8]; st.global.u32 [%rd1], %r0;",
        1,
        variables=".shared .align 4 .b8 room[256];",
    )
    with pytest.raises(MemoryAccessError):
        launch(text, 1, 32, [np.zeros(1, np.uint32)])
    agree(text, np.zeros(1, np.uint32), grid=1, block=32)
