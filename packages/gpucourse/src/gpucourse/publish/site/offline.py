"""Search for dead links and network loads in a folder of HTML that must work offline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from gpucourse.course.problems import Problem

# Element → attributes whose target a browser loads by itself.
_LOADS = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "embed": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "track": ("src",),
    "object": ("data",),
    "input": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}
# Values of <link rel=…> that load a file; others, such as "next", only name a page.
_FETCHED_LINKS = {
    "stylesheet",
    "icon",
    "preload",
    "modulepreload",
    "prefetch",
    "manifest",
    "dns-prefetch",
    "preconnect",
    "shortcut",
    "apple-touch-icon",
}
_CSS_URL = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")
_NETWORK = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)


class _Page(HTMLParser):
    """Ids of a page, and its links and loaded files as (line, target) pairs."""

    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.loads: list[tuple[int, str]] = []
        self.leads: list[tuple[int, str]] = []
        self._in_style = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        line = self.getpos()[0]
        self.ids.update(found[name] for name in ("id", "name") if found.get(name))
        self._in_style = tag == "style"
        for name in _LOADS.get(tag, ()):
            targets = found.get(name, "")
            if name == "srcset" and not targets.startswith("data:"):
                self.loads += [(line, part.split()[0]) for part in targets.split(",") if part]
            elif targets:
                self.loads.append((line, targets))
        if tag == "link" and "href" in found:
            fetched = _FETCHED_LINKS & set(found.get("rel", "").lower().split())
            (self.loads if fetched else self.leads).append((line, found["href"]))
        if tag in ("a", "area") and "href" in found:
            self.leads.append((line, found["href"]))
        self.loads += [(line, target) for target in css_targets(found.get("style", ""))]

    def handle_data(self, data: str) -> None:
        if self._in_style:
            line = self.getpos()[0]
            self.loads += [(line, target) for target in css_targets(data)]

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False


def css_targets(css: str) -> list[str]:
    """Return the files that a style sheet loads."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    return [(url or sheet).strip() for url, sheet in _CSS_URL.findall(css)]


def mistakes(folder: Path) -> list[Problem]:
    """Return every dead link and network load in the pages and styles of ``folder``."""
    folder = folder.resolve()
    read = {path: _Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    found: list[Problem] = []

    def look(path: Path, line: int | None, target: str, loads: bool) -> None:
        shown = path.relative_to(folder)
        if not _NETWORK.match(target):
            found.extend(Problem(shown, line, text) for text in _dead(path, target, folder, read))
        elif loads:
            found.append(Problem(shown, line, f"loads {target} from the network"))

    for path, page in sorted(read.items()):
        for line, target in page.loads:
            look(path, line, target, loads=True)
        for line, target in page.leads:
            look(path, line, target, loads=False)
    for path in sorted(folder.rglob("*.css")):
        for target in css_targets(path.read_text(encoding="utf-8")):
            look(path, None, target, loads=True)
    return found


def _dead(page: Path, target: str, folder: Path, read: dict[Path, _Page]) -> Iterator[str]:
    """Yield the reason why a link within the folder is dead, if it is."""
    if re.match(r"[a-z]+:", target):  # data:, mailto:, javascript:
        return
    name, _, fragment = target.partition("#")
    name = unquote(name.partition("?")[0])
    there = (page.parent / name).resolve() if name else page
    if not there.is_relative_to(folder):
        yield f"{target} leads out of the folder"
    elif not there.is_file():
        yield f"{target} leads nowhere"
    elif fragment and there in read and unquote(fragment) not in read[there].ids:
        yield f"{target}: no such place on that page"
