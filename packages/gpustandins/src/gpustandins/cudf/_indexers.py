"""``loc`` and ``iloc``."""

from __future__ import annotations

from ._wrapping import unwrap, wrap


class Indexer:
    """Rows (and columns) by label or by place, read and written."""

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
    """Give a class ``loc``, ``iloc``, ``at`` and ``iat``."""
    for kind in ("loc", "iloc", "at", "iat"):
        setattr(
            cls,
            kind,
            property(lambda self, kind=kind: Indexer(self, kind), doc=f"As pandas' ``{kind}``."),
        )
