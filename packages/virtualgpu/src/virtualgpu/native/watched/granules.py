"""Checks and records of each granule that an access touches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from virtualgpu.compilers.building import each_bit
from virtualgpu.native.values import I32, I64, Context, pointer_to, splat
from virtualgpu.native.watched.rules import ALL, MAP, NONE, OF_WARP, SEVERAL, WORD, Grain, Rules
from virtualgpu.operations.expression import Value

BAD = I64(1)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of access, of ``size`` bytes by each lane."""

    kind: str  # load, store or atomic
    strong: bool
    size: int
    space: str
    grain: Grain

    @property
    def reads(self) -> bool:
        return self.kind != "store"

    @property
    def may_be_free(self) -> bool:
        """Return True if the access need not be recorded in memory to which nothing stores."""
        return self.kind == "load" and not self.strong

    @property
    def name(self) -> str:
        grain = self.grain
        return "_".join(
            map(
                str,
                (
                    self.kind,
                    int(self.strong),
                    self.size,
                    self.space,
                    grain.global_,
                    grain.shared,
                    grain.local,
                    int(grain.strong),
                    int(grain.warps),
                ),
            )
        )


class Looker:
    """Code generator for the check of one access in one space, global or shared.

    ``site`` is the address of the instruction's words of the watched run.
    """

    def __init__(self, context: Context, kind: Kind, space: str, site: ir.Value):
        self.build, self.context, self.kind, self.space = context.build, context, kind, space
        self.words = words_of(context)
        self.site = Context(self.build, site)
        self.shift = kind.grain.of(space)
        self.width = max(1, kind.size >> self.shift)
        self.warp = self.build.trunc(context.load("warp"), I32)
        self.first = Value(self.build, self.build.shl(self.warp, I32(5)), "u32")

    def records(self, which: str) -> ir.Value:
        return self.words.load(WORD[f"{self.space}_{which}"])

    def several(self, lanes: int | None = None) -> Value:
        """Return the code for several lanes of this warp: one number, or one for each lane."""
        code = self.build.add(self.warp, I32(OF_WARP)) if self.kind.grain.warps else I32(SEVERAL)
        return Value(self.build, code if lanes is None else splat(self.build, code, lanes), "u32")

    def at(self, which: str, granule: ir.Value) -> ir.Value:
        """Return the address of a granule's record."""
        build = self.build
        return pointer_to(build, build.add(self.records(which), build.shl(granule, I64(2))))

    @contextmanager
    def unless_known(self, rules: Rules, reads: Callable[[], list[Value]]) -> Iterator[None]:
        """Skip the code emitted inside if one more load changes nothing.

        This is so if the records say that several threads have loaded from all these granules
        since the last barrier. Then no unordered store precedes this load, because those loads
        would have stopped at it, and a store after them would have stopped too.
        """
        if not self.kind.may_be_free:
            yield
            return
        build, (good, *others) = self.build, map(rules.holds, reads())
        for other in others:
            good = good & other
        assert good.lanes is not None
        bits = build.bitcast(good.node, ir.IntType(good.lanes))
        with build.if_then(build.icmp_unsigned("!=", bits, bits.type((1 << good.lanes) - 1))):
            yield

    def rules(self, code: Value, together: bool = False) -> Rules:
        return Rules(self.words, self.kind.grain, self.space, code, self.warp, together)

    def look(
        self,
        rules: Rules,
        fetch: Callable[[str], Value],
        keep: Callable[[str, Value, Value | None], None],
    ) -> tuple[Value, Value | None]:
        """Check and record one granule (of each lane).

        ``keep`` is called with the new record, and with the old one if the new one may stand for
        both. Returns the condition that the access is wrong and, for reads, the condition that
        nothing in this launch wrote the granule.
        """
        kind = self.kind
        writes = fetch("writes")
        wrong = rules.unordered(writes, False)
        strong = fetch("strong") if kind.grain.strong else None
        reads = fetch("reads") if kind.kind != "load" or not kind.strong else None
        if kind.kind != "load" and reads is not None:
            wrong = wrong | rules.unordered(reads, True)
        if strong is not None and not kind.strong:
            wrong = wrong | rules.unordered(strong, True)
        if kind.strong:
            assert strong is not None
            keep("strong", rules.joined(strong), strong)
        elif kind.kind == "load":
            assert reads is not None
            keep("reads", rules.joined(reads), reads)
        else:
            keep("writes", rules.mine(), None)
        if not kind.reads:
            return wrong, None
        unwritten = ~rules.fresh(writes)
        if strong is not None:
            unwritten = unwritten & ~rules.fresh(strong)
        if self.space == "shared":
            return wrong | unwritten, None
        return wrong, unwritten

    def read_before(self, granule: ir.Value) -> ir.Value:
        """Return True if a granule's bytes were written before the launch.

        The granule is given by its shifted address.
        """
        build = self.build
        kind = ir.IntType(8 << self.shift)
        address = build.shl(granule, I64(self.shift))
        at = pointer_to(build, build.add(self.site.load(MAP), address))
        whole = int.from_bytes(b"\1" * (1 << self.shift), "little")
        return build.icmp_unsigned("==", build.load(at, typ=kind, align=1), kind(whole))

    def demand_written(self, unwritten: ir.Value, granule: Callable[[ir.Value], ir.Value]) -> None:
        """Return 1 from the function if a granule in the mask ``unwritten`` was never written."""
        build = self.build
        known = self.site.load(MAP)
        with build.if_then(
            build.and_(
                build.icmp_unsigned("!=", known, I64(ALL)),
                build.icmp_unsigned("!=", unwritten, unwritten.type(0)),
            )
        ):
            with build.if_then(build.icmp_unsigned("==", known, I64(NONE))):
                build.ret(BAD)
            with (
                each_bit(build, unwritten) as lane,
                build.if_then(build.not_(self.read_before(granule(lane)))),
            ):
                build.ret(BAD)

    def leave_if(self, wrong: Value, mask: ir.Value | None = None) -> None:
        """Return 1 from the function if any lane (of the mask) is wrong."""
        build = self.build
        node = wrong.node
        if wrong.lanes is not None:
            node = build.bitcast(node, ir.IntType(wrong.lanes))
            if mask is not None:
                node = build.and_(node, mask)
            node = build.icmp_unsigned("!=", node, node.type(0))
        with build.if_then(node, likely=False):
            build.ret(BAD)


def words_of(context: Context) -> Context:
    return Context(context.build, pointer_to(context.build, context.load("watch")))
