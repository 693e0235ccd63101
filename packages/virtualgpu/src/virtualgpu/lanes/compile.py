"""Compiler from a linked module's kernel to a program for the interpreter."""

from __future__ import annotations

from virtualgpu.lanes import emit
from virtualgpu.program import liveness
from virtualgpu.program.decode import decode
from virtualgpu.program.linked_module import LinkedModule
from virtualgpu.program.program import Follow, Program


def compile_program(
    module: LinkedModule, entry: str, fine: bool = False, follow: Follow | None = None
) -> Program:
    """Return the program of ``entry``, each of its blocks compiled.

    The parameters and errors are those of :class:`~virtualgpu.program.program.Program`. An
    unsupported instruction raises UnsupportedInstruction.
    """
    program = Program(module, entry, fine, follow)
    for block in program.blocks:
        decode(program, block)
    for block in program.blocks:
        emit.prepare(program, block)
    liveness.solve(program)
    for block in program.blocks:
        block.run = emit.compile_block(block)
    return program
