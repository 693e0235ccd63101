"""What a writer of code has computed and is still so: values by expression, a level a scope."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxpile.expressions import Expr
from jaxpile.program import Set, Store, walk


class Memos:
    """Base of the writers: ``memos``, the outermost scope first."""

    def __init__(self) -> None:
        self.memos: list[dict[Expr, Any]] = [{}]

    @contextmanager
    def fresh(self) -> Iterator[None]:
        """What is computed within holds only there."""
        self.memos.append({})
        try:
            yield
        finally:
            self.memos.pop()

    def changed(self, what) -> None:
        """A buffer or a local variable is not what it was: values made of it are computed anew."""
        for memo in self.memos:
            for node in [node for node in memo if what in node.reads]:
                del memo[node]

    def forget(self, body: list) -> None:
        """Everything that the statements change."""
        for item in walk(body):
            if isinstance(item, Set):
                self.changed(item.name)
            elif isinstance(item, Store):
                self.changed(item.buffer)
