"""Atomics of 16 bits, of halves and of vectors: native code against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import sampling
from native_lab import agree, checked, counted
from ptx_lab import ATOMIC_VECTORS, entry
from virtualgpu import native
from virtualgpu.native import run
from virtualgpu.native.compiled import NativeKernel

SIZES = {"f32": 4, "f16x2": 4, "bf16x2": 4, "f16": 2, "bf16": 2, "b16": 2}
TILE = ".shared .align 16 .b8 tile[1024];"


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


def kernel(kind: str, width: int, answers: bool, space: str, shift: int = 0) -> str:
    """Each thread adds its elements to those of one of four places, ``shift`` bytes further."""
    size = SIZES[kind]
    bank = {"f32": "%f"}.get(kind, "%r" if size == 4 else "%h")
    given, taken = ([f"{bank}{i + first}" for i in range(width)] for first in (0, 8))

    def several(names):
        return names[0] if width == 1 else f"{{{', '.join(names)}}}"

    loads = "".join(
        f"ld.global.b{8 * size} {name}, [%rd7+{i * size}];" for i, name in enumerate(given)
    )
    keeps = (
        "".join(f"st.global.b{8 * size} [%rd7+{i * size}], {name};" for i, name in enumerate(taken))
        if answers
        else ""
    )
    where = "" if space == "generic" else f".{space}"
    verb = "cas" if kind == "b16" else "add" + ".noftz" * (kind != "f32")
    name = f"{'atom' if answers else 'red'}{where}.{verb}{f'.v{width}' * (width > 1)}.{kind}"
    result = f"{several(taken)}, " * answers
    value = f"{several(given)}, %h1" if kind == "b16" else several(given)
    place = "%rd6" if space != "shared" else "%r21"
    return entry(
        f"""
        and.b32 %r20, %tid, 3; mul.lo.u32 %r20, %r20, {size * width};
        mov.u32 %r21, tile; add.u32 %r21, %r21, %r20; cvt.u64.u32 %rd5, %r20;
        add.u64 %rd6, %rd2, %rd5; add.u64 %rd6, %rd6, {shift}; mov.b16 %h1, 0x1234;
        mad.wide.u32 %rd7, %gid, {size * width}, %rd1; {loads}
        st.shared.u32 [tile], 0x3f803f80; st.shared.u32 [tile+4], 0x3c003c00;
        {name} {result}[{place}], {value}; {keeps}
        ld.shared.u32 %r22, [tile]; st.global.u32 [%rd2+64], %r22;""",
        2,
        variables=TILE,
    )


def arrays(kind: str, width: int) -> list[np.ndarray]:
    """Operands, with infinities and NaN among them, and memory."""
    random = np.random.default_rng(width)
    count = 96 * SIZES[kind] * width // 2
    bits = random.integers(0, 1 << 16, count, dtype=np.uint16)
    bits[: count // 2] = bits[: count // 2] & 0x0FFF | 0x3800  # numbers of one size
    return [bits, random.integers(0x3800, 0x4400, 64, dtype=np.uint16)]


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("kind", ["f16", "bf16", "f16x2", "bf16x2"])
def test_sums_of_halves(kind, answers, space):
    agree(kernel(kind, 1, answers, space), *arrays(kind, 1), grid=3, block=32)


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_compare_and_swap_of_16_bits(space):
    data = arrays("b16", 1)
    data[0][::3] = data[1][0]
    agree(kernel("b16", 1, True, space), *data, grid=3, block=32)


@pytest.mark.parametrize(
    ("vector", "answers", "space"),
    sampling.each(5, ATOMIC_VECTORS, [True, False], ["global", "generic"]),
)
def test_vectors(vector, answers, space):
    kind, width = vector
    agree(kernel(kind, width, answers, space), *arrays(kind, width), grid=3, block=27)


@pytest.mark.parametrize("shift", [4, 96, 1 << 21])
def test_vectors_that_are_refused(shift):
    """Misaligned, past the end, in no array: the same words."""
    agree(kernel("f16", 4, True, "global", shift), *arrays("f16", 4), grid=3, block=32)
    agree(kernel("f16", 4, True, "generic", shift), *arrays("f16", 4), grid=3, block=32)


def test_a_vector_in_shared_memory():
    text = kernel("f32", 2, True, "generic").replace(
        "add.u64 %rd6, %rd2, %rd5;", "cvt.u64.u32 %rd6, %r21; cvta.shared.u64 %rd6, %rd6;"
    )
    agree(text, *arrays("f32", 2), grid=3, block=32)


@pytest.mark.parametrize(("kind", "width"), [("f16", 1), ("bf16x2", 4), ("f32", 2)])
def test_what_is_counted_and_found_is_the_same(kind, width):
    text, data = kernel(kind, width, True, "global"), arrays(kind, width)
    there, _, _ = counted(text, None, data, grid=1)
    here, error, code = counted(text, native.natively, data, grid=1)
    assert isinstance(code, NativeKernel), code
    assert error is None and here == there
    races = (
        "st.global.u32 [%rd2+64], %r22;",
        "st.shared.u32 [tile], 0x3f803f80;",
        "st.shared.u32 [tile+4], 0x3c003c00;",
        "ld.shared.u32 %r22, [tile];",
    )
    for store in races:
        text = text.replace(store, "")
    there, _ = checked(text, None, data, grid=1)
    here, code = checked(text, native.natively, data, grid=1)
    assert isinstance(code, NativeKernel), code
    assert here == there
