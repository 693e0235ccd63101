"""Cache of computed values by expression, with one level for each scope."""

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
        """Limit memoised computations inside the context to the context."""
        self.memos.append({})
        try:
            yield
        finally:
            self.memos.pop()

    def changed(self, what) -> None:
        """Invalidate values made from a buffer or local variable that has changed."""
        for memo in self.memos:
            for node in [node for node in memo if what in node.reads]:
                del memo[node]

    def forget(self, body: list) -> None:
        """Invalidate everything that the statements change."""
        for item in walk(body):
            if isinstance(item, Set):
                self.changed(item.name)
            elif isinstance(item, Store):
                self.changed(item.buffer)
