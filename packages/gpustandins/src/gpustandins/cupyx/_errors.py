"""``cupyx.errstate``: the setting for linear algebra errors about a matrix's values."""

from __future__ import annotations

import contextlib
import threading


class _State(threading.local):
    linalg = "ignore"


STATE = _State()


def geterr() -> dict:
    """Return the error settings: 'ignore' or 'raise' for ``linalg``, None for the others."""
    return {
        "divide": None,
        "over": None,
        "under": None,
        "invalid": None,
        "linalg": STATE.linalg,
    }


def seterr(*, divide=None, over=None, under=None, invalid=None, linalg=None) -> dict:
    """Set ``linalg`` to 'raise' for LinAlgErrors from ``cupy.linalg``, or to 'ignore'."""
    before = geterr()
    if any(one is not None for one in (divide, over, under, invalid)):
        raise NotImplementedError("CuPy implements only linalg=, not the other settings")
    if linalg not in (None, "ignore", "raise"):
        raise NotImplementedError(f"linalg must be 'ignore' or 'raise', not {linalg!r}")
    STATE.linalg = linalg or STATE.linalg
    return before


@contextlib.contextmanager
def errstate(**asked):
    """Apply :func:`seterr` inside the ``with`` block."""
    before = seterr(**asked)
    try:
        yield
    finally:
        seterr(linalg=before["linalg"])
