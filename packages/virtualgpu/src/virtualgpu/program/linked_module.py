"""What a program asks of the module on a device that it is made from."""

from __future__ import annotations

from typing import Protocol

from virtualgpu.ptx import Function, Variable


class LinkedModule(Protocol):
    """What a program asks of the module that it is in: functions, variables, names, addresses."""

    texts: list[str]
    variables: dict[str, Variable]
    debug: bool

    def function(self, name: str) -> Function | None: ...

    def function_at(self, offset: int) -> str | None: ...

    def functions_in_tables(self) -> list[str]: ...

    def display_name(self, entry: str) -> str: ...

    def address(self, name: str) -> int: ...

    def is_constant(self, address: int) -> bool: ...
