"""Protocol of the device module from which a program is made."""

from __future__ import annotations

from typing import Protocol

from virtualgpu.ptx import Function, Variable


class LinkedModule(Protocol):
    """Module of a program: its functions, variables, names and addresses."""

    texts: list[str]
    variables: dict[str, Variable]
    debug: bool

    def function(self, name: str) -> Function | None: ...

    def function_at(self, offset: int) -> str | None: ...

    def functions_in_tables(self) -> list[str]: ...

    def display_name(self, entry: str) -> str: ...

    def address(self, name: str) -> int: ...

    def is_constant(self, address: int) -> bool: ...
