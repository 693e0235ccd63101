"""Bytecode that is damaged, of another version, or whose types do not fit: offset and operation are
named."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tile_fuzz
from virtualgpu.errors import BytecodeError, UnsupportedInstruction
from virtualgpu.tile.module import TileModule


@pytest.fixture
def add(arrays) -> bytes:
    import tile_kernels

    x = arrays.zeros(32, np.float32)
    return tile_fuzz.bytecode(tile_kernels.add, x, x, x, 16)


def refusal(raw: bytes) -> str:
    with pytest.raises(BytecodeError) as raised:
        TileModule(raw)
    return str(raised.value)


def test_what_cutile_writes_is_read_in_every_version(arrays):
    import tile_kernels

    x = arrays.zeros((32, 32), np.float32)
    for version in ("13.1", "13.2", "13.3", "13.4"):
        raw = tile_fuzz.bytecode(tile_kernels.softmax, x, x, 32, version=version)
        (kernel,) = TileModule(raw).kernels.values()
        assert kernel.source.filename.endswith("tile_kernels.py")


def test_other_bytes_and_other_versions_are_refused(add):
    assert "these bytes are not Tile IR" in refusal(b"\x7fELF" + bytes(60))
    newer = bytearray(add)
    newer[9] = 9
    assert "version 13.9 of the bytecode is not supported" in refusal(bytes(newer))
    preview = bytearray(add)
    preview[10] = 1
    assert "version 13.4.1" in refusal(bytes(preview))


def test_a_cut_names_the_section_and_the_offset(add):
    for length in range(12, len(add) - 1, 7):
        assert re.search(r"at offset 0x[0-9a-f]+: ", refusal(add[:length])), length


def test_an_unknown_operation_is_named_by_number_and_offset(add):
    module = TileModule(add)
    (kernel,) = module.kernels.values()
    sums = next(one for one in kernel.body.operations if one.name == "addf")
    other = bytearray(add)
    other[sums.offset] = 119 + 8  # no opcode
    said = refusal(bytes(other))
    assert f"at offset {sums.offset:#x}: opcode 127 is not known" in said
    other[sums.offset] = 114
    with pytest.raises(UnsupportedInstruction, match=f"mmaf_scaled.*{sums.offset:#x}"):
        TileModule(bytes(other))


def test_types_that_do_not_fit_are_shown(add):
    (kernel,) = TileModule(add).kernels.values()
    sums = next(one for one in kernel.body.operations if one.name == "addf")
    other = bytearray(add)
    other[sums.offset] = 3  # addi of floats
    said = refusal(bytes(other))
    assert "operation addi" in said and f"{sums.offset:#x}" in said
    assert "tile<16xf32>" in said


def test_damage_never_breaks_the_reader(arrays):
    ended = tile_fuzz.fuzz(tile_fuzz.corpus(arrays), seed=37, cases=1000)
    assert ended["damaged"] > 500 and ended["ran"] > 50, ended
