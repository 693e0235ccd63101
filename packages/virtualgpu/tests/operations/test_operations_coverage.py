"""Every data instruction that the compilers write is in the table."""

from __future__ import annotations

import pytest

import operations_corpus
from virtualgpu import ptx
from virtualgpu.errors import UnsupportedInstruction
from virtualgpu.operations import compiler, lookup, opcodes

# What the machine itself does: memory, control flow, synchronisation, moves.
NOT_DATA = {
    "ld",
    "st",
    "mov",
    "cvta",
    "bra",
    "brx",
    "ret",
    "exit",
    "call",
    "bar",
    "barrier",
    "trap",
    "membar",
    "fence",
    "isspacep",
}


@pytest.fixture
def only_names(monkeypatch):
    """Expressions are built but not compiled: 1 ms per instruction instead of 8."""
    monkeypatch.setattr(compiler, "machine_code", lambda text, symbol: 0)
    monkeypatch.setattr(compiler, "_numpy_ufunc", lambda *arguments: None)


def data_instructions(texts):
    """Names and operand counts of the data instructions in PTX, each with one example."""
    found = {}
    for text in texts:
        for function in ptx.parse(text).functions.values():
            for item in function.body:
                if isinstance(item, ptx.Instruction) and item.opcode not in NOT_DATA:
                    key = (
                        item.opcode,
                        item.modifiers,
                        len(item.operands) - 1,
                        1 + (item.second is not None),
                    )
                    found.setdefault(key, item.text)
    return found


def missing(found):
    names = []
    for key, text in found.items():
        try:
            function = lookup.__wrapped__(*key).function
            if isinstance(function, compiler.LazyUfunc):
                function.compile()
        except UnsupportedInstruction as error:
            names.append(f"{text}: {error}")
    return names


@pytest.mark.rehearsal
def test_what_numba_writes_is_in_the_table(only_names):
    found = data_instructions(operations_corpus.numba_corpus())
    assert not missing(found)
    assert len(found) > 250
    assert {key[0] for key in found} >= {
        "add",
        "bfi",
        "brev",
        "clz",
        "copysign",
        "cvt",
        "div",
        "ex2",
        "fma",
        "lg2",
        "mad",
        "max",
        "madc",
        "mul",
        "popc",
        "prmt",
        "rcp",
        "rem",
        "rsqrt",
        "selp",
        "setp",
        "sqrt",
        "tanh",
    }


@pytest.mark.rehearsal
def test_what_nvrtc_writes_is_in_the_table(only_names):
    found = data_instructions(operations_corpus.cuda_corpus())
    assert not missing(found)
    assert len(found) > 350
    assert {key[0] for key in found} >= {
        "abs",
        "addc",
        "bfind",
        "dp2a",
        "dp4a",
        "fns",
        "lop3",
        "set",
        "shf",
        "sin",
        "subc",
        "vabsdiff4",
    }


def test_the_list_of_what_is_no_data_does_not_hide_operations():
    assert not NOT_DATA & opcodes()
