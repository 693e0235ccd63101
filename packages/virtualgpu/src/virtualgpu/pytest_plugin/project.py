"""Stand-ins that a project's own metadata lists.

Many libraries test if cuDF or CuPy is installed (``try: import cudf``) and behave differently if
it is. A stand-in for a package that the project never listed would therefore change its tests.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from virtualgpu.standins.finder import NAMES, chosen

_NAME = re.compile(r"\s*([A-Za-z][\w.-]*)")
# setup.py and setup.cfg are searched as text: for a name in quotes, or first on its line.
_WRITTEN = re.compile(
    r"""(?:^\s*|["'])(cupy|cudf|pycuda)(?=[\w.-]*\s*(?:[\[<>=!~;"',]|$))""", re.MULTILINE
)


def standins_of(root: Path) -> list[str] | None:
    """Return the stand-ins for packages that the project lists or that are installed.

    Returns None, which means all stand-ins, if the metadata does not list requirements.
    """
    texts = [*_metadata(root)]
    if not texts:
        return None
    installed = {name for name in NAMES if PathFinder.find_spec(name) is not None}
    asked = {name for text in texts for name in NAMES if text.lower().startswith(name)}
    return chosen(sorted(asked | installed))


def _metadata(root: Path) -> Iterator[str]:
    """Yield the names of a project's requirements, or "" for a file that lists none."""
    if (file := root / "pyproject.toml").is_file():
        tables = tomllib.loads(file.read_text(encoding="utf-8", errors="replace"))
        if "project" in tables or "poetry" in tables.get("tool", {}):
            yield ""
        yield from _requirements(tables.get("project", {}).get("dependencies", ()))
        yield from _requirements(tables.get("project", {}).get("optional-dependencies", {}))
        yield from _requirements(tables.get("dependency-groups", {}))
        poetry = tables.get("tool", {}).get("poetry", {})
        for group in (poetry, *poetry.get("group", {}).values()):
            yield from group.get("dependencies", ())
    for name in ("setup.cfg", "setup.py"):
        if (file := root / name).is_file():
            yield ""
            yield from _WRITTEN.findall(file.read_text(encoding="utf-8", errors="replace"))
    for file in sorted(root.glob("requirements*.txt")):
        yield ""
        yield from _requirements(file.read_text(encoding="utf-8", errors="replace").splitlines())


def _requirements(listed: Any) -> Iterator[str]:
    """Yield the names of packages in lists of requirements, and in tables of such lists."""
    if isinstance(listed, dict):
        for group in listed.values():
            yield from _requirements(group)
        return
    for text in listed if isinstance(listed, list) else ():
        if isinstance(text, str) and (found := _NAME.match(text)):
            yield found[1]
