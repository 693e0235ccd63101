"""The indexers ``loc``, ``iloc``, ``at`` and ``iat``."""

from __future__ import annotations

from ._wrapping import unwrap, wrap


class Indexer:
    """Access to rows and columns by label or by position, for reading and writing."""

    def __init__(self, frame, kind: str):
        self._frame = frame
        self._kind = kind

    def __getitem__(self, key):
        return wrap(getattr(self._frame._as_pandas(True), self._kind)[unwrap(key)])

    def __setitem__(self, key, value):
        frame = self._frame._as_pandas(True).copy()
        getattr(frame, self._kind)[unwrap(key)] = unwrap(value)
        self._frame._write(wrap(frame))


def give_indexers(cls: type) -> None:
    """Add ``loc``, ``iloc``, ``at`` and ``iat`` to a class."""
    for kind in ("loc", "iloc", "at", "iat"):
        setattr(
            cls,
            kind,
            property(
                lambda self, kind=kind: Indexer(self, kind), doc=f"Indexer like pandas' ``{kind}``."
            ),
        )
