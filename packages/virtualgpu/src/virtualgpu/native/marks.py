"""Coverage marks in native code: executed basic blocks and branch directions.

A core stores to its own copy of :attr:`~virtualgpu.program.program.Program.ran`, because cores
would otherwise contend for a cache line. The launch merges the copies at its end. Only programs
whose lines are measured contain this code.
"""

from __future__ import annotations

from llvmlite import ir

from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.values import I32, Context, pointer_to
from virtualgpu.program.program import BLOCK_MARKS, FELL, RAN, TAKEN

I8 = ir.IntType(8)


class Marks:
    """Code generator for the stores that mark executed places and branch directions."""

    def __init__(self, build: ir.IRBuilder, context: Context, places: list[Place]):
        self.build, self.context, self.places = build, context, places

    def _mark(self, place: Place, word: int, value: ir.Value | None = None) -> None:
        build = self.build
        offset = ir.Constant(ir.IntType(64), BLOCK_MARKS * place.block.index + word)
        at = pointer_to(build, build.add(self.context.load("ran"), offset))
        build.store(
            I8(1) if value is None else build.or_(build.load(at, typ=I8), value), at, align=1
        )

    def ran(self, place: Place) -> None:
        """Mark a place as executed; the interpreter handles the place at which code stops."""
        self._mark(place, RAN)

    def went(self, place: Place, taken: bool) -> None:
        """Mark that lanes took the branch of a place, or fell through it."""
        self._mark(place, TAKEN if taken else FELL)

    def ended(self, target: int, lanes: ir.Value | None = None) -> None:
        """Mark the ending places from ``target`` on, which have no code.

        With ``lanes``, they are marked only if this mask is not zero.
        """
        some = None
        if lanes is not None:
            some = self.build.zext(self.build.icmp_unsigned("!=", lanes, I32(0)), I8)
        place = self.places[target]
        self._mark(place, RAN, some)
        while place.block.kind == "goto":
            place = self.places[place.target]
            self._mark(place, RAN, some)
