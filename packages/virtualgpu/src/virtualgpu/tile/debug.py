"""Source lines of operations ("Debug Info Section" of the Tile IR specification)."""

from __future__ import annotations

from virtualgpu.ptx import SourceLine
from virtualgpu.tile.bytecode import BytecodeSections, Cursor, spans, table

_FILE, _BLOCK, _LINE, _SUBPROGRAM, _CALL = 2, 3, 4, 5, 6


class DebugLines:
    """Source lines of a module's functions."""

    def __init__(self, module: BytecodeSections):
        self.module = module
        self.items: list[tuple[int, int]] = []
        self.functions: list[list[int]] = []
        self._found: dict[int, SourceLine | None] = {}
        if "debug" not in module.places:
            return
        cursor = module.cursor("debug", "the section of debug information")
        section, many = cursor.at, cursor.count(4)
        cursor.align(4, section)
        starts = [int.from_bytes(cursor.take(4), "little") for _ in range(many)]
        total = cursor.count(8)
        cursor.align(8, section)
        numbers = [int.from_bytes(cursor.take(8), "little") for _ in range(total)]
        self.functions = [numbers[start:end] for start, end in spans(cursor, starts, total)]
        self.items = table(cursor, 4, section)

    def of(self, number: int) -> list[SourceLine | None]:
        """Return the line of a function and of each of its operations; ``number`` starts at 1."""
        if not 0 < number <= len(self.functions):
            return []
        return [self.line(one) for one in self.functions[number - 1]]

    def line(self, item: int) -> SourceLine | None:
        """Return the line of the innermost call, in the user's code."""
        if item not in self._found:
            self._found[item] = self._line(item)
        return self._found[item]

    def _line(self, item: int, depth: int = 0) -> SourceLine | None:
        if not 0 < item <= len(self.items) or depth > 64:
            return None
        cursor = Cursor(self.module.raw, *self.items[item - 1], "a line of the source")
        tag = cursor.number()
        if tag == _CALL:
            return self._line(cursor.number(), depth + 1)
        if tag == _LINE:
            cursor.number()
            name = self.module.string(cursor)
            return SourceLine(name, cursor.number())
        if tag == _SUBPROGRAM:
            file, line = cursor.number(), cursor.number()
            name = self._file(file)
            return SourceLine(name, line) if name else None
        return None

    def _file(self, item: int) -> str:
        if not 0 < item <= len(self.items):
            return ""
        cursor = Cursor(self.module.raw, *self.items[item - 1], "a file of the source")
        if cursor.number() != _FILE:
            return ""
        base, folder = self.module.string(cursor), self.module.string(cursor)
        return f"{folder}/{base}" if folder else base
