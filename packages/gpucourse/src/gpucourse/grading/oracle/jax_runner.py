"""Execution of a student's JAX program in a process that has run none of the student's code.

The student's worker traces a function for the types of its arguments and sends the program as data
(:mod:`gpucourse.grading.sandbox.jax_programs`). A separate worker in the same sandbox receives the
values, counts the operations and runs the program. No count and no result therefore comes from a
process that the student's code can change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpucourse.grading.contract import PropertyFailed
from gpucourse.grading.oracle import gate
from gpucourse.grading.oracle.conversation import Conversation
from gpucourse.grading.sandbox.wire import ProtocolError


@dataclass(frozen=True)
class JaxProgram:
    """A traced JAX function.

    Attributes
    ----------
    name
        Name of the function, for messages.
    described
        Its operations; see :func:`gpucourse.grading.sandbox.jax_programs.describe`.
    constants
        The arrays that the description refers to.
    structure
        The result, with indices instead of its arrays.
    wide
        True if it was traced with 64-bit types (``jax_enable_x64``).
    """

    name: str
    described: Any
    constants: list[np.ndarray]
    structure: Any
    wide: bool


def program_of(name: str, done: Any, arrays: list[np.ndarray]) -> JaxProgram:
    """Return the program in a worker's reply. Raises PropertyFailed for anything else."""
    try:
        return JaxProgram(
            name, done["program"], arrays, gate.value(done["structure"], []), done["wide"] is True
        )
    except (KeyError, TypeError, ProtocolError, gate.Refused):
        raise PropertyFailed(f"'{name}' cannot be traced by JAX") from None


def blank(value: object) -> object:
    """Return a value of the same type and shape, without the original data."""
    if isinstance(value, np.ndarray | np.generic):
        return np.zeros_like(value)[()]
    return type(value)() if isinstance(value, int | float | complex) else value


class JaxRunner:
    """Counter and executor of programs; `conversation` is used for no student's code."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    def close(self) -> None:
        self.conversation.close()

    def operations(self, program: JaxProgram, elements: str = "") -> dict[str, int]:
        """Count each primitive of the program, or the elements that it produces.

        Raises PropertyFailed.
        """
        counted, _ = self._ask(program, None, elements)
        try:
            return gate.counts(counted)
        except ProtocolError:
            raise PropertyFailed(f"'{program.name}' cannot be traced by JAX") from None

    def run(
        self, program: JaxProgram, values: list[np.ndarray], squeezed: float | None = None
    ) -> object:
        """Return the program's result for these inputs, as NumPy arrays.

        `squeezed` is the parameter of :func:`gpucourse.grading.testing.verbs.call`. Raises
        PropertyFailed.
        """
        _, arrays = self._ask(program, values, squeezed=squeezed)

        def put(part: Any) -> object:
            if isinstance(part, list | tuple):
                return type(part)(map(put, part))
            if isinstance(part, dict):
                return {key: put(item) for key, item in part.items()}
            if part is not None and type(part) is not int:
                raise TypeError
            return None if part is None else arrays[part]

        try:
            return put(program.structure)
        except (IndexError, TypeError):
            raise PropertyFailed(f"'{program.name}' cannot be traced by JAX") from None

    def _ask(
        self,
        program: JaxProgram,
        values: list[np.ndarray] | None,
        elements: str = "",
        squeezed: float | None = None,
    ) -> tuple[dict, list]:
        if self.conversation.worker is None:
            self.conversation.start()
        try:
            reply, arrays = self.conversation.request(
                {
                    "do": "run",
                    "program": program.described,
                    "wide": program.wide,
                    "constants": len(program.constants),
                    "count": values is None,
                    "elements": elements,
                    "squeezed": squeezed,
                },
                [*program.constants, *(values or ())],
                f"the JAX program of '{program.name}'",
            )
        except RecursionError:  # programs nested more deeply than json can write
            reply, arrays = {}, []
        if "done" not in reply:
            raise PropertyFailed(f"JAX's trace of '{program.name}' cannot be run by itself")
        return reply["done"], arrays
