"""The one table of opcodes, and every opcode of it through everything that reads the table."""

from __future__ import annotations

import pytest

from virtualgpu import operations
from virtualgpu.lanes import control
from virtualgpu.program import forms
from virtualgpu.ptx import Immediate, Instruction, Register
from virtualgpu.ptx.opcodes import BARRIERS, COLLECTIVES, OPCODES, has_result, waits_for_warp
from virtualgpu.watch import counters, orderless

# The table has them, for what their operands look like; nothing runs them.
NOT_RUN = {"tld4", "sured"}


def written(opcode: str, *modifiers: str) -> Instruction:
    operands = (Register("%r1"), Immediate(0))
    return Instruction(opcode, modifiers, operands, None, None, None, f"{opcode} %r1, 0;")


def test_the_table_has_the_data_opcodes_that_operations_compute() -> None:
    assert {name for name, one in OPCODES.items() if one.family == "data"} == set(
        operations.opcodes()
    )


@pytest.mark.parametrize("opcode", sorted(OPCODES))
def test_every_opcode_is_decoded(opcode: str) -> None:
    family = OPCODES[opcode].family
    decoded = family in ("data", "move", "memory", "hint", "control", "fence") or (
        bool(forms._rows(opcode if opcode != "barrier" else "bar"))
        and (family == "idle" or opcode in control._HANDLERS)
    )
    assert decoded != (opcode in NOT_RUN)


@pytest.mark.parametrize("opcode", sorted(OPCODES))
def test_every_opcode_has_a_class_that_profiles_show(opcode: str) -> None:
    shown = {
        "integer",
        "float",
        "special",
        "logic",
        "comparison",
        "conversion",
        "move",
        "memory",
        "parameter",
        "atomic",
        "control",
        "synchronisation",
        "tensor",
        "warp",
        "other",
    }
    for type_ in ("u32", "f32", "b64"):
        assert counters.class_of(written(opcode, type_)) in shown
    assert counters.class_of(written("ld", "param", "u64")) == "parameter"


@pytest.mark.parametrize("opcode", sorted(OPCODES))
def test_what_depends_on_its_operands_alone_tells_a_thread_nothing(opcode: str) -> None:
    """Such as bmsk and fns: a kernel that has them is launched once, not in ten orders."""
    if OPCODES[opcode].pure:
        assert orderless._silent(written(opcode, "u32"), None)
    elif opcode in COLLECTIVES or opcode in ("atom", "mbarrier", "cp", "tex"):
        assert not orderless._silent(written(opcode, "sync", "u32"), None)


def test_what_a_form_of_an_opcode_does() -> None:
    assert has_result(written("bar", "red", "popc", "u32"))
    assert not has_result(written("bar", "sync"))
    assert not has_result(written("nanosleep", "u32"))
    assert waits_for_warp(written("bar", "warp", "sync"))
    assert not waits_for_warp(written("bar", "sync"))
    assert waits_for_warp(written("shfl", "sync", "down", "b32"))
    assert not waits_for_warp(written("activemask", "b32"))
    assert {"bar", "barrier"} == BARRIERS
