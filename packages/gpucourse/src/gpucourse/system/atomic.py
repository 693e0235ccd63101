"""Atomic writes, after which a file is complete or absent, even after a crash."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

#: Mode of files that only their owner may read, such as marks.
PRIVATE = 0o600


def free_path(wanted: Path) -> Path:
    """Return ``wanted``, or the name with -2, -3… if it exists already."""
    path, number = wanted, 2
    while os.path.lexists(path):
        path, number = wanted.with_stem(f"{wanted.stem}-{number}"), number + 1
    return path


def write_atomically(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Write ``content`` (text as UTF-8) to a temporary file and rename it to ``path``.

    Missing folders are created. If OSError is raised, the previous file is still there.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, mode)  # mkstemp creates files with the mode PRIVATE
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
