"""Log of launches and compilers, through Python's logging under the name ``virtualgpu``.

``VIRTUALGPU_LOG=info`` writes to standard error which back end ran each launch, why a launch did
not use native code, what was compiled and how long that took. A program that configures logging
itself does not need the variable.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger("virtualgpu")


def show_where_asked() -> None:
    """Write the log to standard error if ``VIRTUALGPU_LOG`` names a level."""
    if not (asked := os.environ.get("VIRTUALGPU_LOG")):
        return
    level = logging.getLevelNamesMapping().get(asked.upper())
    if level is None:
        warnings.warn(
            f"VIRTUALGPU_LOG is {asked!r}, so nothing is logged: set it to info or debug",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False  # the root's handlers would write each line again


@contextmanager
def timed(message: str, *words: object) -> Iterator[None]:
    """Log the duration of the work inside the context, in seconds."""
    if not logger.isEnabledFor(logging.INFO):
        yield
        return
    start = time.perf_counter()
    yield
    logger.info(f"{message} in %.3f s", *words, time.perf_counter() - start)


show_where_asked()
