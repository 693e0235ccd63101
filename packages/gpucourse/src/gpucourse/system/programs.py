"""Paths of this Python environment's programs, for callers that use bare names."""

from __future__ import annotations

import os
import sysconfig


def search_path() -> str:
    """Return PATH with this environment's programs first, because nbgrader calls ``alembic``."""
    return os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
