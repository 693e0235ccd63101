"""Reading a file that another program may be saving at the moment.

Most Jupyter servers write a notebook in place: for 20 to 90 ms of each save it is empty or cut
short, and JupyterLab saves by itself too. So a file that is not whole is read again before anything
is said of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# So long a file is read again, from its last change on: ten times the longest save.
PATIENCE = 1.0
PAUSE = 0.05


def settled(path: Path, read: Callable[[], T], *broken: type[Exception]) -> T:
    """Call ``read()`` again while it raises `broken` during a save; return its result.

    A file that nobody has touched for a second is read once.
    """
    end = time.monotonic() + 2 * PATIENCE
    while True:
        try:
            return read()
        except broken:
            if time.monotonic() > end or not _changed_lately(path):
                raise
        time.sleep(PAUSE)


def _changed_lately(path: Path) -> bool:
    try:
        # A clock that is behind the file's is another machine's: wait as for a save.
        return time.time() - os.lstat(path).st_mtime < PATIENCE
    except OSError:
        return False
