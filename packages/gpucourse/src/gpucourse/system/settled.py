"""Reading of a file that another program may be saving.

Most Jupyter servers write a notebook in place, so for 20 to 90 ms of each save it is empty or cut
short, and JupyterLab also saves automatically. So an incomplete file is read again before an error
is reported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# Seconds after a file's last change during which it is read again: ten times the longest save.
PATIENCE = 1.0
PAUSE = 0.05


def settled(path: Path, read: Callable[[], T], *broken: type[Exception]) -> T:
    """Call ``read()`` again while it raises `broken` during a save; return its result.

    A file that has not changed for a second is read only once.
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
        # If the file's time is in the future, another machine's clock wrote it, so wait as for a
        # save.
        return time.time() - os.lstat(path).st_mtime < PATIENCE
    except OSError:
        return False
