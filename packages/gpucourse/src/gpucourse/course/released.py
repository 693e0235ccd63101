"""Detection of a learner's work in a notebook, as opposed to the released state.

The build writes a digest of the cells into a notebook's metadata. Opening and saving the notebook
changes the file but not the cells. Editing or running it changes them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping


def cell_texts(notebook: Mapping) -> list[str]:
    """Return the source of each cell, which a file stores as a string or a list of lines."""
    return [
        text if isinstance(text := cell["source"], str) else "".join(text)
        for cell in notebook["cells"]
    ]


def digest(notebook: Mapping) -> str:
    """Return 16 hexadecimal digits that depend only on the types and sources of the cells."""
    kinds = [cell["cell_type"] for cell in notebook["cells"]]
    cells = [[kind, text] for kind, text in zip(kinds, cell_texts(notebook), strict=True)]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:16]


def release_of(notebook: Mapping) -> str | None:
    """Return the notebook's digest at its release, or None for a learner's own notebook."""
    mark = notebook.get("metadata", {}).get("gpucourse", {})
    return mark.get("released") if isinstance(mark, Mapping) else None


def is_untouched(notebook: Mapping) -> bool:
    """Return True if the notebook has been neither edited nor run."""
    if release_of(notebook) != digest(notebook):
        return False
    return not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook["cells"])


def parse(data: bytes) -> dict | None:
    """Parse a notebook's bytes as nbformat's JSON of version 4; None where they are none."""
    try:
        notebook = json.loads(data)
        digest(notebook)
        release_of(notebook)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return notebook
