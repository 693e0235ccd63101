"""Cache of computed values by expression, with one level for each scope."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxpile.expressions import Expr
from jaxpile.program import Set, Store, walk


class Memos:
    """Base class of the writers; ``memos`` begins with the outermost scope."""

    def __init__(self) -> None:
        self.memos: list[dict[Expr, Any]] = [{}]

    @contextmanager
    def fresh(self) -> Iterator[None]:
        """Discard values that are computed inside the context when it ends."""
        self.memos.append({})
        try:
            yield
        finally:
            self.memos.pop()

    def changed(self, what) -> None:
        """Invalidate values that depend on a changed buffer or local variable."""
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
