"""mma, wmma, ldmatrix and stmatrix against matrices that are laid out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_lab import entry, launch
from tensor_reference import (
    BITS,
    C16,
    LAYOUTS,
    WIDTH,
    collected,
    in_memory,
    numbers,
    product,
    registers,
    size_of,
    spread,
)


def in_registers(
    form: str, given: list[np.ndarray], nbytes: int, wide: bool, threads=32
) -> np.ndarray:
    """Run an instruction on each lane's words; ``{0}``, ``{1}``… stand for their registers, ``{d}``
    for those of ``nbytes`` bytes of result."""
    size, kind, letter = (8, "b64", "rd") if wide else (4, "b32", "r")
    names, loads, at = [], [], 10
    for number, words in enumerate(given):
        part = words.reshape(threads, -1)
        count = part.shape[1] // size
        registers = [f"%{letter}{at + i}" for i in range(count)]
        at += count
        names.append("{" + ", ".join(registers) + "}")
        loads.append(f"mad.wide.u32 %rd9, %tid, {count * size}, %rd{number + 2};")
        loads += [f"ld.global.{kind} {one}, [%rd9+{i * size}];" for i, one in enumerate(registers)]
    results = [f"%{letter}{at + i}" for i in range(nbytes // size)]
    stores = [f"mad.wide.u32 %rd9, %tid, {nbytes}, %rd1;"] + [
        f"st.global.{kind} [%rd9+{i * size}], {one};" for i, one in enumerate(results)
    ]
    body = form.format(*names, d="{" + ", ".join(results) + "}")
    out = np.zeros((threads, nbytes), np.uint8)
    launch(
        entry("\n".join([*loads, body, *stores]), 1 + len(given)),
        1,
        threads,
        [out, *(np.ascontiguousarray(one) for one in given)],
    )
    return out


MMA = [
    *[(shape, d, "f16", "f16", d, "") for shape in ("m16n8k8", "m16n8k16") for d in ("f16", "f32")],
    *[(shape, "f32", "bf16", "bf16", "f32", "") for shape in ("m16n8k8", "m16n8k16")],
    *[(shape, "f32", "tf32", "tf32", "f32", "") for shape in ("m16n8k4", "m16n8k8")],
    *[
        (shape, "f64", "f64", "f64", "f64", mode)
        for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")
        for mode in ("", ".rn")
    ],
    *[("m16n8k8", "f64", "f64", "f64", "f64", mode) for mode in (".rz", ".rm", ".rp")],
    *[
        (shape, "s32", a, b, "s32", end)
        for shape in ("m8n8k16", "m16n8k16", "m16n8k32")
        for a in ("s8", "u8")
        for b in ("s8", "u8")
        for end in ("", ".satfinite")
    ],
]


@pytest.mark.parametrize("edges", [0.02, 0.4])
@pytest.mark.parametrize(("shape", "d", "a", "b", "c", "option"), MMA)
def test_mma_of_matrices_laid_out_by_hand(shape, d, a, b, c, option, edges):
    chance = np.random.default_rng([len(shape + a + b + d + option), int(edges * 100)])
    m, n, k = size_of(shape)
    layouts = LAYOUTS[WIDTH[a], shape]
    given = [
        numbers(chance, a, (m, k), edges),
        numbers(chance, b, (k, n), edges),
        numbers(chance, c, (m, n), edges),
    ]
    form = f"mma.sync.aligned.{shape}.row.col{option}.{d}.{a}.{b}.{c} {{d}}, {{0}}, {{1}}, {{2}};"
    nbytes = m * n * np.dtype(BITS[d]).itemsize // 32
    out = in_registers(
        form,
        [spread(one, two) for one, two in zip(given, layouts, strict=True)],
        nbytes,
        d == "f64",
    )
    mode = option[1:] if option[1:] in ("rn", "rz", "rm", "rp") else "rn"
    np.testing.assert_array_equal(
        collected(out, layouts[2], (m, n), BITS[d]),
        product(*given, (d, a, b, c), mode, option == ".satfinite"),
    )


def test_each_warp_multiplies_its_own():
    chance = np.random.default_rng(5)
    layouts = LAYOUTS["16", "m16n8k16"]
    given = [
        [numbers(chance, t, size, 0.1) for _ in range(3)]
        for t, size in (("f16", (16, 16)), ("f16", (16, 8)), ("f32", (16, 8)))
    ]
    words = [
        np.concatenate([spread(one, layout) for one in some])
        for some, layout in zip(given, layouts, strict=True)
    ]
    out = in_registers(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {0}, {1}, {2};",
        words,
        16,
        False,
        threads=96,
    )
    for warp, three in enumerate(zip(*given, strict=True)):
        np.testing.assert_array_equal(
            collected(out[32 * warp : 32 * warp + 32], C16, (16, 8), "u4"),
            product(*three, ("f32", "f16", "f16", "f32")),
        )


# -- wmma: what is in memory before and after ------------------------------------------------------

WMMA = [
    *[
        (shape, d, "f16", "f16", c)
        for shape in ("m16n16k16", "m8n32k16", "m32n8k16")
        for d in ("f16", "f32")
        for c in ("f16", "f32")
    ],
    *[(shape, "f32", "bf16", "bf16", "f32") for shape in ("m16n16k16", "m8n32k16", "m32n8k16")],
    ("m16n16k8", "f32", "tf32", "tf32", "f32"),
    ("m8n8k4", "f64", "f64", "f64", "f64"),
    *[
        (shape, "s32", a, a, "s32")
        for shape in ("m16n16k16", "m8n32k16", "m32n8k16")
        for a in ("s8", "u8")
    ],
]


@pytest.mark.parametrize(
    ("layouts", "space"),
    [
        (("row", "col", "row"), ".shared"),
        (("col", "row", "col"), ".global"),
        *(
            pytest.param(*one, marks=pytest.mark.rehearsal)
            for one in ((("row", "row", "row"), ""), (("col", "col", "col"), ".shared"))
        ),
    ],
)
@pytest.mark.parametrize(("shape", "d", "a", "b", "c"), WMMA)
def test_wmma_of_matrices_in_memory(shape, d, a, b, c, layouts, space):
    chance = np.random.default_rng([len(shape + d + c), len(a + space), layouts[0] == "row"])
    m, n, k = size_of(shape)
    given = [
        numbers(chance, type_, size, 0.05)
        for type_, size in ((a, (m, k)), (b, (k, n)), (c, (m, n)))
    ]
    pad = [0 if space == ".global" else 16 // one.itemsize for one in given]
    stored = [in_memory(*one) for one in zip(given, layouts, pad, strict=True)]
    wide, letter = d == "f64", "rd" if d == "f64" else "r"
    names, at, lines = {}, 10, []
    for role, type_ in zip("abcd", (a, b, c, d), strict=True):
        count = registers(role, shape, type_)
        names[role] = "{" + ", ".join(f"%{letter}{at + i}" for i in range(count)) + "}"
        at += count
    place = 0
    for number, (role, type_, layout) in enumerate(zip("abc", (a, b, c), layouts, strict=True), 2):
        memory, stride = stored[number - 2]
        where = f"%rd{number}"
        if space == ".shared":  # all threads write the same
            lines += [
                f"ld.global.b32 %r1, [{where}+{i}]; st.shared.b32 [tile+{place + i}], %r1;"
                for i in range(0, memory.nbytes, 4)
            ]
            lines.append("bar.sync 0;")
            where, place = f"tile+{place}", place + -(-memory.nbytes // 32) * 32
        lines.append(
            f"wmma.load.{role}.sync.aligned.{layout}.{shape}{space}.{type_} "
            f"{names[role]}, [{where}]{'' if space == '.global' else f', {stride}'};"
        )
    types = f"{d}.{c}" if a == "f16" else f"{d}.{a}.{b}.{c}"
    lines.append(
        f"wmma.mma.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}.{types} "
        f"{names['d']}, {names['a']}, {names['b']}, {names['c']};"
    )
    lines.append(
        f"wmma.store.d.sync.aligned.{layouts[2]}.{shape}.{d} [%rd1], {names['d']}, "
        f"{(n if layouts[2] == 'row' else m)};"
    )
    out = np.zeros((m, n) if layouts[2] == "row" else (n, m), BITS[d])
    assert wide or at <= 64
    launch(
        entry("\n".join(lines), 4, variables=".shared .align 32 .b8 tile[8192];"),
        1,
        32,
        [out, *(memory for memory, _ in stored)],
    )
    np.testing.assert_array_equal(
        out if layouts[2] == "row" else out.T, product(*given, (d, a, b, c))
    )


# -- ldmatrix and stmatrix -------------------------------------------------------------------------


def cells(lane: int, transposed: bool) -> list[tuple[int, int]]:
    """Where a lane's two elements are in a matrix of 8 by 8."""
    row, column = lane // 4, lane % 4 * 2
    both = [(row, column), (row, column + 1)]
    return [(j, i) for i, j in both] if transposed else both


@pytest.mark.parametrize("space", [".shared", ".shared::cta", ""])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("opcode", ["ldmatrix", "stmatrix"])
def test_rows_that_lanes_name(opcode, count, transposed, space):
    """64 rows of 16 bytes: 8 of each matrix, anywhere, by the lanes 8 * matrix + row."""
    chance = np.random.default_rng(count)
    threads, rows = 64, 64
    order = chance.permutation(rows).astype(np.uint32)  # of two warps: no row twice
    tile = chance.integers(0, 1 << 16, (rows, 8), np.uint16)
    words = chance.integers(0, 1 << 32, (threads, count), np.uint32)
    names = "{" + ", ".join(f"%r{10 + i}" for i in range(count)) + "}"
    trans = ".trans" if transposed else ""
    where = f"""mov.u64 %rd8, tile; {"" if space else "cvta.shared.u64 %rd8, %rd8;"}
        mad.wide.u32 %rd9, %tid, 4, %rd3; ld.global.b32 %r1, [%rd9];
        mad.wide.u32 %rd8, %r1, 16, %rd8;"""
    name = f"{opcode}.sync.aligned.m8n8.x{count}{trans}{space}.b16"
    fill = (
        "".join(
            f"ld.global.b32 %r2, [%rd2+{i}]; st.shared.b32 [tile+{i}], %r2;"
            for i in range(0, tile.nbytes, 4)
        )
        + "bar.sync 0;"
    )
    at = f"mad.wide.u32 %rd9, %tid, {4 * count}, %rd1;"
    if opcode == "ldmatrix":
        body = f"{fill}{where}{name} {names}, [%rd8];{at}" + "".join(
            f"st.global.b32 [%rd9+{4 * i}], %r{10 + i};" for i in range(count)
        )
        out = np.zeros((threads, count), np.uint32)
        given = tile
    else:
        loads = "".join(f"ld.global.b32 %r{10 + i}, [%rd10+{4 * i}];" for i in range(count))
        body = (
            f"{fill}{where} mad.wide.u32 %rd10, %tid, {4 * count}, %rd4; {loads}"
            f"{name} [%rd8], {names}; bar.sync 0;"
            + "".join(
                f"ld.shared.b32 %r2, [tile+{i}]; st.global.b32 [%rd1+{i}], %r2;"
                for i in range(0, tile.nbytes, 4)
            )
        )
        out = np.zeros_like(tile)
        given = tile.copy()
    launch(
        entry(body, 4, variables=f".shared .align 16 .b8 tile[{rows * 16}];"),
        1,
        threads,
        [out, given, order, words],
    )
    expected = np.zeros_like(out) if opcode == "ldmatrix" else tile.copy()
    for thread in range(threads):
        lane, first = thread % 32, thread // 32 * 32
        for number in range(count):
            for half, (row, column) in enumerate(cells(lane, transposed)):
                line = order[first + 8 * number + row]
                if opcode == "ldmatrix":
                    expected[thread, number] |= int(tile[line, column]) << (16 * half)
                else:
                    expected[line, column] = words[thread, number] >> (16 * half) & 0xFFFF
    np.testing.assert_array_equal(out, expected)
