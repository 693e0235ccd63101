"""``cupyx.errstate``: switches errors of linear algebra for a matrix's values on or off."""

from __future__ import annotations

import contextlib
import threading


class _State(threading.local):
    linalg = "ignore"


STATE = _State()


def geterr() -> dict:
    """Return the error settings: of ``linalg`` 'ignore' or 'raise', of the others nothing."""
    return {
        "divide": None,
        "over": None,
        "under": None,
        "invalid": None,
        "linalg": STATE.linalg,
    }


def seterr(*, divide=None, over=None, under=None, invalid=None, linalg=None) -> dict:
    """Ask ``cupy.linalg`` to raise LinAlgError (``linalg='raise'``) or not ('ignore')."""
    before = geterr()
    if any(one is not None for one in (divide, over, under, invalid)):
        raise NotImplementedError("CuPy has linalg= alone: the others are not implemented there")
    if linalg not in (None, "ignore", "raise"):
        raise NotImplementedError(f"linalg is 'ignore' or 'raise', not {linalg!r}")
    STATE.linalg = linalg or STATE.linalg
    return before


@contextlib.contextmanager
def errstate(**asked):
    """Apply :func:`seterr` inside the ``with``."""
    before = seterr(**asked)
    try:
        yield
    finally:
        seterr(linalg=before["linalg"])
