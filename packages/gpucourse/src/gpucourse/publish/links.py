"""Links in the repository's own texts: documents and notebooks that lead to one another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from gpucourse.course.problems import Problem

_FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1[`~]*\s*$", re.DOTALL | re.MULTILINE)
_INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
# The words may hold brackets of their own, and break over lines.
_LINK = re.compile(r"\]\(\s*<?([^()<>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)


def slug(heading: str) -> str:
    """The name of a heading's place, as GitHub and MyST give it."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def texts(path: Path) -> list[str]:
    """The Markdown of a document, or of each text cell of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return [text]
    cells = json.loads(text)["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


def places(path: Path) -> set[str]:
    """What ``#…`` behind a link to this document or notebook may say."""
    return _places(path, path.stat().st_mtime_ns)


@cache
def _places(path: Path, _changed: int) -> set[str]:
    found: set[str] = set()
    for text in texts(path):
        for heading in _HEADING.findall(_FENCED.sub("", text)):
            name, number = slug(heading), 1
            while name in found:  # a second heading of the same words
                name, number = f"{slug(heading)}-{number}", number + 1
            found.add(name)
        found.update(re.findall(r"""<a (?:id|name)=["']([^"']+)""", text))
    return found


def links(text: str) -> Iterator[str]:
    """The targets of a text's links and pictures, code left out."""
    prose = _FENCED.sub("", text)
    # Code may stand in a link's words, never in its target.
    for found in _LINK.finditer(_INLINE_CODE.sub("code", prose)):
        yield found[1]


def dead_links(root: Path, files: Iterable[Path]) -> list[Problem]:
    """Every link of ``files`` that leads to a file, or to a place in one, that does not exist."""
    problems = []
    for path in files:
        for text in texts(path):
            for target in links(text):
                if re.match(r"[a-z][a-z+.-]*:", target):
                    continue
                if reason := _dead(path, target):
                    problems.append(Problem(path.relative_to(root), None, reason))
    return problems


def _dead(path: Path, target: str) -> str | None:
    name, _, fragment = target.partition("#")
    there = (path.parent / unquote(name)).resolve() if name else path
    if not there.exists():
        return f"links to {target}, which does not exist"
    if fragment and there.suffix in (".md", ".ipynb") and unquote(fragment) not in places(there):
        return f"links to {target}: {there.name} has no such heading"
    return None
