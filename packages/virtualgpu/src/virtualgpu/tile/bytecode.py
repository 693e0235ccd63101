"""Tile IR bytecode: header, sections and tables (Tile IR specification, "Bytecode").

Any damage in the bytes raises :class:`~virtualgpu.errors.BytecodeError` with the offset.
Everything that is read is checked against the number of available bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from virtualgpu.errors import BytecodeError, UnsupportedInstruction
from virtualgpu.tile import types
from virtualgpu.tile.types import TileType

MAGIC = b"\x7fTileIR\x00"
VERSIONS = ((13, 1), (13, 2), (13, 3), (13, 4))
SECTIONS = {1: "strings", 2: "functions", 3: "debug", 4: "constants", 5: "types", 6: "globals"}
MOST_ELEMENTS = 1 << 24  # elements of a tile, as in NVIDIA's own verifier
MOST_RANK = 16
MOST_BYTES = 1 << 28  # bytes of a module; a greater length means damage
DYNAMIC = -(1 << 63)  # a size or stride that is an operand

_PADDING = ("zero", "neg_zero", "nan", "pos_inf", "neg_inf")


class Cursor:
    """Reader of bytes from ``at`` to ``end``; errors name ``what``."""

    def __init__(self, raw: bytes, at: int, end: int, what: str):
        self.raw, self.at, self.end, self.what = raw, at, end, what

    def fail(self, why: str, at: int | None = None) -> BytecodeError:
        return damaged(self.at if at is None else at, self.what, why)

    def take(self, count: int) -> bytes:
        if count > self.end - self.at:
            raise self.fail(f"{count} bytes are wanted and {self.end - self.at} are left")
        self.at += count
        return self.raw[self.at - count : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        """Read a number with 7 bits per byte, at most 64 bits."""
        start, value = self.at, 0
        for shift in range(0, 70, 7):
            one = self.byte()
            value |= (one & 0x7F) << shift
            if one < 0x80:
                if value >> 64:
                    break
                return value
        raise self.fail("a number has more than 64 bits", start)

    def signed(self) -> int:
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def count(self, least: int = 1) -> int:
        """Read the number of items that follow, each of at least ``least`` bytes."""
        start, many = self.at, self.number()
        if many * least > self.end - self.at:
            raise self.fail(
                f"{many} items cannot lie in the {self.end - self.at} bytes that are left", start
            )
        return many

    def numbers(self) -> list[int]:
        return [self.number() for _ in range(self.count())]

    def integers(self, width: int) -> list[int]:
        """Read signed integers of ``width`` bytes each."""
        raw = self.take(self.count(width) * width)
        return list(struct.unpack(f"<{len(raw) // width}{'_bh_i___q'[width]}", raw))

    def align(self, to: int, start: int) -> None:
        self.take(-(self.at - start) % to)


def damaged(offset: int, what: str, why: str) -> BytecodeError:
    return BytecodeError(f"Tile IR bytecode, {what} at offset {offset:#x}: {why}", offset=offset)


@dataclass
class BytecodeSections:
    """The sections of one bytecode, as offsets into ``raw``."""

    raw: bytes
    version: tuple[int, int]
    places: dict[str, tuple[int, int]]
    strings: list[str]
    types: list
    constants: list[bytes]
    globals: dict[str, tuple[TileType, bytes]]

    def string(self, cursor: Cursor) -> str:
        return _at(self.strings, cursor, "string")

    def type(self, cursor: Cursor):
        return _at(self.types, cursor, "type")

    def constant(self, cursor: Cursor) -> bytes:
        return _at(self.constants, cursor, "constant")

    def tile(self, cursor: Cursor) -> TileType:
        start, found = cursor.at, self.type(cursor)
        if not isinstance(found, TileType):
            raise cursor.fail(f"the type is {found}, not a tile's", start)
        return found

    def cursor(self, section: str, what: str) -> Cursor:
        return Cursor(self.raw, *self.places[section], what)


def _at(table: list, cursor: Cursor, what: str):
    start, index = cursor.at, cursor.number()
    if index >= len(table):
        raise cursor.fail(f"{what} {index} of {len(table)}", start)
    return table[index]


def read(raw: bytes) -> BytecodeSections:
    """Return the sections of a bytecode. Raises BytecodeError, UnsupportedInstruction."""
    cursor = Cursor(raw, 0, len(raw), "the header")
    if cursor.take(len(MAGIC)) != MAGIC:
        raise cursor.fail("these bytes are not Tile IR: they begin with other bytes", 0)
    version = (cursor.byte(), cursor.byte())
    tag = int.from_bytes(cursor.take(2), "little")
    if version not in VERSIONS or tag:
        shown = f"{version[0]}.{version[1]}" + (f".{tag}" if tag else "")
        raise cursor.fail(
            f"version {shown} of the bytecode is not supported; versions 13.1 to 13.4 are", 8
        )
    places = _sections(cursor)
    module = BytecodeSections(raw, version, places, [], [], [], {})
    for needed in ("strings", "types", "functions"):
        if needed not in places:
            raise cursor.fail(f"there is no section of {needed}")
    for start, end in _items(module, "strings", 4):
        module.strings.append(raw[start:end].decode("utf-8", "replace"))
    for start, end in _items(module, "types", 4):
        module.types.append(_type(module, Cursor(raw, start, end, "a type")))
    if "constants" in places:
        for start, end in _items(module, "constants", 8):
            one = Cursor(raw, start, end, "a constant")
            module.constants.append(one.take(one.number()))
    if "globals" in places:
        _globals(module)
    return module


def _items(module: BytecodeSections, name: str, width: int) -> list[tuple[int, int]]:
    cursor = module.cursor(name, f"the section of {name}")
    return table(cursor, width, cursor.at)


def _sections(cursor: Cursor) -> dict[str, tuple[int, int]]:
    places: dict[str, tuple[int, int]] = {}
    while True:
        cursor.what, start = "a section", cursor.at
        code = cursor.byte()
        if code == 0:
            return places
        name = SECTIONS.get(code & 0x7F)
        if name is None or name in places:
            raise cursor.fail(f"section {code & 0x7F} is not known, or there twice", start)
        length = cursor.number()
        if code & 0x80:
            alignment = cursor.number()
            if not 0 < alignment <= 4096:
                raise cursor.fail(f"alignment {alignment}", start)
            cursor.align(alignment, 0)
        cursor.what = f"the section of {name}"
        first = cursor.at
        cursor.take(length)
        places[name] = first, cursor.at


def measured(at) -> int:
    """Return the length of a bytecode that is read byte by byte through ``at(offset)``.

    Returns 0 if its sections are inconsistent. A driver needs this because it gets an address
    without a length.
    """
    offset = 12

    def number() -> int:
        nonlocal offset
        value = shift = 0
        while shift < 70:
            one = at(offset)
            offset += 1
            value |= (one & 0x7F) << shift
            shift += 7
            if one < 0x80:
                break
        return value

    for _ in range(len(SECTIONS) + 1):
        code = at(offset)
        offset += 1
        if code == 0:
            return offset
        length = number()
        if code & 0x80:
            alignment = number()
            if not 0 < alignment <= 4096:
                return 0
            offset += -offset % alignment
        offset += length
        if (code & 0x7F) not in SECTIONS or offset > MOST_BYTES:
            return 0
    return 0


def table(cursor: Cursor, width: int, section: int) -> list[tuple[int, int]]:
    """Return the position of each item of a table: a count, the offsets, then the items.

    ``section`` is the offset at which its section begins.
    """
    many = cursor.count(width)
    cursor.align(width, section)
    offsets = [int.from_bytes(cursor.take(width), "little") for _ in range(many)]
    first = cursor.at
    return [(first + a, first + b) for a, b in spans(cursor, offsets, cursor.end - first)]


def spans(cursor: Cursor, starts: list[int], room: int) -> list[tuple[int, int]]:
    """Return start and end of consecutive parts, from their starts and the end of the last."""
    found = list(zip(starts, [*starts, room][1:], strict=True))
    if any(not start <= end <= room for start, end in found):
        raise cursor.fail("the offsets of its items do not rise, or lie outside")
    return found


def _globals(module: BytecodeSections) -> None:
    cursor = module.cursor("globals", "the section of globals")
    for _ in range(cursor.count(4)):
        name, tile, data = module.string(cursor), module.tile(cursor), module.constant(cursor)
        cursor.number()  # alignment
        if module.version >= (13, 3):
            cursor.byte()  # visibility
            cursor.number()  # constant
        module.globals[name] = tile, data


# -- types ---------------------------------------------------------------------------------------


def _type(module: BytecodeSections, cursor: Cursor):
    start, tag = cursor.at, cursor.number()
    if tag in types.ELEMENTS:
        return types.ELEMENTS[tag]
    if tag in types.LACKING:
        raise UnsupportedInstruction(
            f"Tile IR bytecode, a type at offset {start:#x}: the virtual GPU has no tiles of "
            f"{types.LACKING[tag]}"
        )
    if tag == 17:
        return types.Token()
    if tag == 12:
        if module.version >= (13, 4):
            _attribute(cursor, cursor.number(), ends=True)
        return types.pointer(_known(module, cursor, types.Element))
    if tag == 13:
        element = _known(module, cursor, types.Element)
        return types.TileType(element, _sizes(cursor, cursor.integers(8), start))
    if tag == 14:
        return _tensor(module, cursor, start)
    if tag in (15, 20, 21):
        return _view(module, cursor, tag, start)
    if tag == 16:
        return types.Signature(
            tuple(module.type(cursor) for _ in range(cursor.count())),
            tuple(module.type(cursor) for _ in range(cursor.count())),
        )
    raise cursor.fail(f"the tag {tag} of a type is not known", start)


def _attribute(cursor: Cursor, flags: int, ends: bool = False) -> None:
    if flags not in (0, 1):
        raise cursor.fail(f"flags {flags:#x} of a type are not known")


def _known(module: BytecodeSections, cursor: Cursor, kind: type):
    start, found = cursor.at, module.type(cursor)
    if not isinstance(found, kind):
        raise cursor.fail(f"{kind.__name__.lower()} is wanted, not {found}", start)
    return found


def _sizes(cursor: Cursor, sizes: list[int], start: int) -> tuple[int, ...]:
    total = 1
    for size in sizes:
        total *= size if size > 0 else MOST_ELEMENTS + 1
    if total > MOST_ELEMENTS or len(sizes) > MOST_RANK:
        raise cursor.fail(
            f"a tile of shape {tuple(sizes)}: sizes are from 1 up, and a tile has at "
            f"most {MOST_ELEMENTS} elements",
            start,
        )
    return tuple(sizes)


def _tensor(module: BytecodeSections, cursor: Cursor, start: int) -> types.TensorType:
    if module.version >= (13, 4):
        _attribute(cursor, cursor.number())
    element = _known(module, cursor, types.Element)
    shape, strides = cursor.integers(8), cursor.integers(8)
    if (
        len(shape) != len(strides)
        or len(shape) > MOST_RANK
        or any(size < 0 and size != DYNAMIC for size in shape)
    ):
        raise cursor.fail(f"a tensor of shape {shape} with strides {strides}", start)

    def sizes(given: list[int]) -> tuple[int | None, ...]:
        return tuple(None if one == DYNAMIC else one for one in given)

    return types.TensorType(element, sizes(shape), sizes(strides))


def _view(module: BytecodeSections, cursor: Cursor, tag: int, start: int) -> types.ViewType:
    unified = module.version >= (13, 3)
    flags = cursor.number() if unified else 0
    shape = _sizes(cursor, cursor.integers(4), start)
    # The dense dimensions of gathered rows are given by their start, in elements.
    steps = tuple(cursor.integers(4)) if tag == 21 else shape if tag == 15 else (1,) * len(shape)
    tensor = _known(module, cursor, types.TensorType)
    sparse = cursor.number() if tag == 20 else None
    dims = tuple(range(len(shape))) if tag == 20 else tuple(cursor.integers(4))
    if not unified:
        flags = cursor.number()
    padding = None
    if flags & 1:
        code = cursor.byte()
        if code >= len(_PADDING):
            raise cursor.fail(f"padding {code} is not known", start)
        padding = _PADDING[code]
    rank = len(tensor.shape)
    if (
        flags > 1
        or len(shape) != rank
        or len(steps) != rank
        or min(steps, default=1) < 1
        or sorted(dims) != list(range(rank))
        or (sparse is not None and sparse >= rank)
    ):
        raise cursor.fail(f"a view of tiles {shape} by {steps} along {dims} of {tensor}", start)
    kind = {15: "partition", 20: "gather_scatter", 21: "strided"}[tag]
    return types.ViewType(kind, shape, tensor, dims, steps, padding, sparse)
