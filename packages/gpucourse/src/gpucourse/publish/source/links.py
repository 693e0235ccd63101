"""Links and anchors in the repository's documents and notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from gpucourse.course.problems import Problem

_FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1[`~]*\s*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(rf"(?:{_FENCED.pattern})|(`+)(?!`).+?(?<!`)\2(?!`)", _FENCED.flags)
# The text of a link may contain brackets and code, and line breaks. The target of a link, or of a
# picture in HTML, is never code.
_TARGET = re.compile(
    rf"""{_CODE.pattern}|(?P<before>\]\(\s*<?|<img\b[^>]*?\bsrc=["'])(?P<target>[^()<>\s"']+)"""
    r"""(?=>?(?:\s+"[^"]*")?\s*\)|["'])""",
    _FENCED.flags,
)
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
_HEADING_OR_CODE = re.compile(
    r"(?P<code>^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[`~]*[ ]*$)"
    r"|^(?P<level>#{1,6})[ ]+(?P<words>[^\n]+?)[ ]*#*[ ]*$",
    _FENCED.flags,
)


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST define it."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def texts(path: Path) -> list[str]:
    """Return the Markdown of a document, or of each text cell of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return [text]
    cells = json.loads(text)["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


def places(path: Path) -> set[str]:
    """Return the anchors that links to this document or notebook may use after ``#``."""
    return _places(path, path.stat().st_mtime_ns)


def _free(name: str, taken: set[str]) -> str:
    """Return ``name``, with a number if earlier headings have the same words."""
    numbered = (name, *(f"{name}-{number}" for number in range(1, len(taken) + 1)))
    return next(one for one in numbered if one not in taken)


@cache
def _places(path: Path, _changed: int) -> set[str]:
    found: set[str] = set()
    for text in texts(path):
        for heading in _HEADING.findall(_FENCED.sub("", text)):
            found.add(_free(slug(heading), found))
        found.update(re.findall(r"""<a (?:id|name)=["']([^"']+)""", text))
    return found


#: The markers of an answer begin with ###, so Markdown takes them for headings.
_REGIONS = ("BEGIN SOLUTION", "END SOLUTION")
_ANCHOR = re.compile(r'^<a id="[^"]+"></a>\n(?=#)', re.MULTILINE)


def one_folder_up(text: str) -> str:
    """Return Markdown of a project's folder with links that work from the parent folder."""
    return text.replace("](../../", "](../")


def anchored(sources: Iterable[str]) -> list[str]:
    """Return a notebook's text cells with an anchor of our own above each section heading.

    JupyterLab's anchors of headings differ from GitHub's, but it also follows explicit anchors.
    """
    found: set[str] = set()

    def anchor(heading: re.Match[str]) -> str:
        if heading["code"] or heading["words"] in _REGIONS:
            return heading[0]
        name = _free(slug(heading["words"]), found)
        found.add(name)
        return f'<a id="{name}"></a>\n{heading[0]}' if heading["level"] != "#" else heading[0]

    return [_HEADING_OR_CODE.sub(anchor, source) for source in sources]


def without_anchors(source: str) -> str:
    """Return a text cell as it was before :func:`anchored`, because the site needs no anchors."""
    return _ANCHOR.sub("", source)


def without_code(text: str) -> str:
    """Return a text without its code, in which nothing is a link or a picture."""
    return _CODE.sub("", text)


def links(text: str) -> Iterator[str]:
    """Yield the targets of a text's links and pictures, except those in code."""
    return (found["target"] for found in _TARGET.finditer(text) if found["target"])


def relinked(text: str, moved: Callable[[str], str]) -> str:
    """Return the text with the targets of links and pictures changed by ``moved``."""
    return _TARGET.sub(
        lambda found: found["before"] + moved(found["target"]) if found["target"] else found[0],
        text,
    )


def dead_links(root: Path, files: Iterable[Path]) -> list[Problem]:
    """Return every link of ``files`` to a missing file, or to a missing heading in one."""
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
