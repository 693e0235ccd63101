"""Loads that the compiler moved before the condition that guards their use.

``x = tile[0] if there else 0.0`` becomes a load by every thread and a ``selp`` that discards most
of the results, because a load does no harm and a branch costs more. The program does not use the
discarded values, so no checker may report them. A GPU does load them, so they are counted.

The condition is found by following the value from its uses back to the load, within code without
branches: through arithmetic to ``selp``, ``and.pred`` and ``or.pred``. Instructions for the
condition that the compiler placed after the load are moved before it. This order changes no value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from virtualgpu.program.steps import registers_in
from virtualgpu.ptx import Address, Instruction, Register
from virtualgpu.ptx.opcodes import has_result, traits

# Condition under which a value is used: always, never, if a predicate is true (its name, after ! if
# it must be false), or ("and" | "or", a condition, another).
Condition = bool | str | tuple[str, Any, Any]
LARGEST = 8  # predicates in one condition; a value with a larger one counts as used


def arrange(
    body: Sequence[Instruction], starts: Sequence[int]
) -> tuple[list[Instruction], dict[int, Condition]]:
    """Reorder a function's body within the stretches between ``starts``.

    Also returns, by instruction ``id``, the condition under which each conditional load's value is
    used.
    """
    found: dict[int, Condition] = {}
    if not any(map(_selects, body)):
        return list(body), found
    readers = Counter(name for one in body for name in reads(one))
    arranged: list[Instruction] = []
    for start, end in zip(starts, [*starts[1:], len(body)], strict=True):
        stretch = list(body[start:end])
        if any(map(_selects, stretch)):
            for load, condition in list(_conditions(stretch, readers)):
                if _put_before(stretch, load, condition):
                    found[id(load)] = condition
        arranged += stretch
    return arranged, found


def reads(instruction: Instruction) -> set[str]:
    """Return the names of the registers that an instruction reads."""
    operands = instruction.operands[_written(instruction) :]
    names = {register.name for register in registers_in(operands)}
    return names if instruction.guard is None else {*names, instruction.guard[0].name}


def writes(instruction: Instruction) -> set[str]:
    second = [] if instruction.second is None else [instruction.second]
    return {
        register.name
        for register in registers_in([*instruction.operands[: _written(instruction)], *second])
    }


def _written(instruction: Instruction) -> int:
    """Return the number of operands that are results: one or none."""
    operands = instruction.operands
    return int(has_result(instruction) and bool(operands) and not isinstance(operands[0], Address))


def predicates(condition: Condition) -> Iterator[str]:
    """Return the predicate names in a condition, without the ``!``."""
    if isinstance(condition, str):
        yield condition.removeprefix("!")
    elif isinstance(condition, tuple):
        yield from predicates(condition[1])
        yield from predicates(condition[2])


def _selects(instruction: Instruction) -> bool:
    return instruction.opcode == "selp" or (
        instruction.opcode in ("and", "or") and instruction.modifiers == ("pred",)
    )


def _early(instruction: Instruction) -> bool:
    modifiers = set(instruction.modifiers)
    return (
        instruction.opcode == "ld"
        and instruction.guard is None
        and bool(modifiers & {"shared", "global", "local"})
        and not modifiers & {"volatile", "relaxed", "acquire"}
    )


def _computes(instruction: Instruction) -> bool:
    """Return True if an instruction only computes a value, the same at any position."""
    return (
        traits(instruction).pure
        and instruction.guard is None
        and instruction.opcode not in ("addc", "subc", "madc")
        and "cc" not in instruction.modifiers
        and "%clock" not in instruction.text
        and "%globaltimer" not in instruction.text
    )


def _conditions(
    stretch: list[Instruction], readers: Counter[str]
) -> Iterator[tuple[Instruction, Condition]]:
    """Yield the conditionally used loads of a stretch, each with its condition."""
    inside = Counter(name for one in stretch for name in reads(one))
    loaded: set[str] = set()  # registers that depend on memory that is loaded here
    for one in stretch:
        if traits(one).loads or reads(one) & loaded:
            loaded |= writes(one)
    needed: dict[str, Condition] = {
        name: True for name, count in readers.items() if count > inside[name]
    }
    for one in reversed(stretch):
        used: Condition = False
        for name in writes(one):
            used = _join("or", used, needed.pop(name, False))
        if _early(one) and not isinstance(used, bool):
            yield one, used
        for name in reads(one):
            through = _through(one, name, used, loaded) if _computes(one) else True
            needed[name] = _join("or", needed.get(name, False), through)


def _through(instruction: Instruction, name: str, used: Condition, loaded: set[str]) -> Condition:
    """Return the condition under which an instruction uses the value in ``name``.

    ``used`` is the condition under which the instruction's own result is used.
    """
    if not _selects(instruction):
        return used
    first, second, *decides = instruction.operands[1:]
    at = [
        operand.name.removeprefix("!") == name if isinstance(operand, Register) else False
        for operand in (first, second, *decides)
    ]
    if sum(at) != 1 or at[2:] == [True]:
        return used
    decider = decides[0] if decides else (second if at[0] else first)
    if not isinstance(decider, Register) or decider.name.removeprefix("!") in loaded:
        return used  # the deciding predicate may be unwritten itself
    holds = at[0] if decides else instruction.opcode == "and"
    return _join("and", decider.name if holds else _negated(decider.name), used)


def _negated(name: str) -> str:
    return name[1:] if name.startswith("!") else f"!{name}"


def _join(how: str, one: Condition, other: Condition) -> Condition:
    if isinstance(other, bool):
        one, other = other, one
    if isinstance(one, bool):
        return one if one == (how == "or") else other
    if one == other:
        return one
    both: Condition = (how, one, other)
    return both if sum(1 for _ in predicates(both)) <= LARGEST else True


def _put_before(stretch: list[Instruction], load: Instruction, condition: Condition) -> bool:
    """Move the predicates of a condition before a load; return False if that is impossible."""
    at = next(place for place, one in enumerate(stretch) if one is load)
    makers: dict[str, list[int]] = {}
    for place, one in enumerate(stretch):
        for name in writes(one):
            makers.setdefault(name, []).append(place)
    moved: set[int] = set()
    pending = list(predicates(condition))
    while pending:
        name = pending.pop()
        made = makers.get(name, [])
        if len(made) > 1:
            return False
        if not made or made[0] < at or made[0] in moved:
            continue
        one = stretch[made[0]]
        # Each result has one value in the stretch: no earlier instruction reads another one.
        if not _computes(one) or any(
            makers[result] != made or any(result in reads(before) for before in stretch[: made[0]])
            for result in writes(one)
        ):
            return False
        moved.add(made[0])
        pending += reads(one)
    later = [one for place, one in enumerate(stretch) if place >= at and place not in moved]
    stretch[at:] = [*(stretch[place] for place in sorted(moved)), *later]
    return True
