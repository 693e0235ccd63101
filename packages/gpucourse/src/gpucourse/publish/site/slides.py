"""Slides of each lecture (``make slides``), made from its executed cells for offline use.

A deck is one HTML file beside reveal.js's own files. The page contains a lecture as blocks:
paragraphs, pieces of code, outputs. ``docs/site/deck.js`` distributes them over slides when the
deck is opened, because their heights are known only then, so no slide is larger than the screen. A
``##`` heading, or a part of the tutorial, begins a new column of slides. An exercise's answer
follows the exercise. The output that learners predict and its explanation each appear with a
further key press. The notes for the instructor are the speaker notes (key S) of the first slide.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from gpucourse.course.checkout import notebook_path
from gpucourse.course.projects import read_projects
from gpucourse.course.registry import Course, Lecture
from gpucourse.exercises.outcomes import marked_up
from gpucourse.publish.notebooks.derive import cell_id, starter
from gpucourse.publish.site.showcase import Shown
from gpucourse.publish.source.questions import asked
from gpucourse.publish.source.reader import SET_UP

#: Folder, in the site-packages of the site's tools, with the files that a browser needs.
REVEAL = Path("sphinx_revealjs") / "_static" / "revealjs"
MATHJAX = Path("sphinx-mathjax-offline") / "static" / "mathjax" / "tex-svg-full.js"
_REVEAL_FILES = (
    "dist/reset.css",
    "dist/reveal.css",
    "dist/reveal.js",
    "plugin/notes/notes.js",
    "LICENSE",
)
_OWN_FILES = ("deck.css", "deck.js")
_ERROR_LINES = 24
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def assets(python: Path) -> Path:
    """Return the folder of installed packages of the environment with this Python."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def write(root: Path, target: Path, course: Course, shown: list[Shown], assets: Path) -> int:
    """Write the decks of lectures, gallery and tutorial, and a page that lists them.

    Returns the number of decks. ``target`` is emptied first.
    """
    shutil.rmtree(target, ignore_errors=True)
    (target / "reveal").mkdir(parents=True)
    for name in _REVEAL_FILES:
        shutil.copy(assets / REVEAL / name, target / "reveal")
    for name in _OWN_FILES:
        shutil.copy(root / "docs" / "site" / name, target)
    (target / "code.css").write_text(code_css(), encoding="utf-8")
    shutil.copy(assets / MATHJAX, target / "mathjax.js")
    shutil.copytree(root / "img", target / "img", ignore=shutil.ignore_patterns("*.py", "__*"))
    template = (root / "docs" / "site" / "deck.html").read_text(encoding="utf-8")
    url = read_projects(root).url
    lectures = [one for one in shown if isinstance(one.source.lesson, Lecture)]
    decks = {one.source.lesson.id: one.source.lesson.title for one in lectures}
    for one in lectures:
        text = deck(one, template, course.title, decks, url)
        (target / f"{one.source.lesson.id}.html").write_text(text, encoding="utf-8")
    listing = (root / "docs" / "site" / "decks.html").read_text(encoding="utf-8")
    (target / "index.html").write_text(_index(listing, course.title, decks), encoding="utf-8")
    return len(decks)


def deck(shown: Shown, template: str, course: str, decks: dict[str, str], url: str) -> str:
    """Return the page of one lecture's slides, which ``docs/site/deck.js`` shows."""
    lesson = shown.source.lesson
    assert isinstance(lesson, Lecture)
    origins = {cell_id(lesson.id, cell.name): cell for cell in shown.source.cells}
    text = Text(lesson, decks, url)
    columns: list[list[str]] = [[]]
    notes: list[str] = []
    predicting = False
    for cell in shown.notebook.cells:
        origin = origins.get(cell.id)
        tags = origin.tags if origin else ()
        if SET_UP in tags or _starts_the_notebook(cell):
            continue
        if "room" in tags:
            notes += text.blocks(cell.source)
        elif cell.cell_type == "markdown":
            predicting = "predict" in tags
            answers = origin is not None and "why" in tags
            # Unfolded, because on a slide a key press reveals the answer.
            shown_text = origin.source if origin is not None and answers else cell.source
            for number, block in enumerate(text.blocks(shown_text)):
                if block.startswith(("<h1", "<h2")) and columns[-1]:
                    columns.append([])
                begins = number == 0 or re.match("<h[1-6]", block)
                columns[-1].append(
                    _block(
                        block,
                        "prose",
                        starts=bool(begins),
                        fragment=answers,
                        breaks=predicting and number == 0,
                    )
                )
        elif (question := asked(origin)) is not None:
            listed = "".join(f"<li>{marked_up(choice)}</li>" for choice in question[1])
            columns[-1].append(_block(f'<ol type="a">{listed}</ol>', "prose"))
        else:
            assert origin is not None
            blocks = _code_blocks(cell, starter(origin), predicting)
            if cell.metadata.get("jupyter", {}).get("source_hidden"):  # it draws the output
                blocks = [block for block in blocks if 'class="block output' in block]
            columns[-1] += blocks
    if notes:
        columns[0].append(f'<aside class="notes">{"".join(notes)}</aside>')
    body = "\n".join(f'<section class="flow">{"".join(blocks)}</section>' for blocks in columns)
    fills = {
        "title": html.escape(lesson.title),
        "course": html.escape(course),
        "body": body,
        "math": "yes" if text.has_math else "",
    }
    for name, fill in fills.items():
        template = template.replace(f"{{{{ {name} }}}}", fill)
    return template


def _starts_the_notebook(cell: NotebookNode) -> bool:
    """Return True for the cell that prepares a notebook and reports the device."""
    return cell.cell_type == "code" and cell.source.startswith("%load_ext gpucourse")


def _code_blocks(cell: NotebookNode, unsolved: str | None, predicting: bool) -> list[str]:
    """Return a code cell's pieces and outputs; before an answer, the learner's starter."""
    blocks = []
    if unsolved is not None:
        blocks += [_block(piece, "code", starts=n == 0) for n, piece in enumerate(code(unsolved))]
        blocks.append(_block("<h4>One answer</h4>", "prose", breaks=True))
    pieces = code(cell.source)
    blocks += [
        _block(piece, "code", starts=n == 0, breaks=predicting and n == 0)
        for n, piece in enumerate(pieces)
    ]
    blocks += [
        _block(shown, "output", fragment=predicting) for shown in map(output, cell.outputs) if shown
    ]
    return blocks


def _block(
    inside: str, kind: str, *, starts: bool = False, breaks: bool = False, fragment: bool = False
) -> str:
    """Return a block that stays together.

    ``starts`` is True if a cell begins here, ``breaks`` if a slide does.
    """
    classes = [
        "block",
        kind,
        *(
            name
            for name, there in (("starts", starts), ("breaks", breaks), ("fragment", fragment))
            if there
        ),
    ]
    return f'<div class="{" ".join(classes)}">{inside}</div>\n'


def code(source: str, language: str = "python") -> list[str]:
    """Highlight code, in pieces between which a slide may end: at top-level blank lines."""
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    parts = re.split(r"\n(?:\s*\n)+(?=[^\s#])(?!else|elif|except|finally)", source.strip("\n"))
    pieces = [parts[0]]
    for part in parts[1:]:
        # A blank line within a triple-quoted string is not a boundary.
        quotes = pieces[-1].count('"""') + pieces[-1].count("'''")
        if quotes % 2:
            pieces[-1] += f"\n\n{part}"
        else:
            pieces.append(part)
    formatter = HtmlFormatter(cssclass="highlight", wrapcode=True)
    return [highlight(piece, lexer, formatter) for piece in pieces]


def output(shown: NotebookNode) -> str:
    """Convert one output of a cell to HTML; "" if the page has no form for it."""
    if shown.output_type == "stream":
        kind = "stderr" if shown.name == "stderr" else "stdout"
        return f'<pre class="{kind}">{_plain(shown.text)}</pre>' if shown.text.strip() else ""
    if shown.output_type == "error":
        text = _ANSI.sub("", "\n".join(shown.traceback)) or f"{shown.ename}: {shown.evalue}"
        return f'<pre class="error">{_plain(_ends(text, shown.ename))}</pre>'
    data = shown.data
    if "text/html" in data:
        return f'<div class="html">{data["text/html"]}</div>'
    if "image/svg+xml" in data:
        return f'<div class="html">{data["image/svg+xml"]}</div>'
    words = html.escape(_ANSI.sub("", data.get("text/plain", "")))
    if "image/png" in data:
        return f'<img src="data:image/png;base64,{data["image/png"].strip()}" alt="{words}">'
    return f"<pre>{words}</pre>" if words else ""


def _ends(traceback: str, error: str) -> str:
    """Shorten a long traceback to its start and its message."""
    lines = traceback.split("\n")
    if len(lines) <= _ERROR_LINES:
        return traceback
    last = max((n for n, line in enumerate(lines) if error in line), default=len(lines) - 8)
    return "\n".join([*lines[:9], "    ⋮", *lines[max(last, 9) : max(last, 9) + 10]])


def _plain(text: str) -> str:
    return html.escape(_ANSI.sub("", text).rstrip("\n"), quote=False)


class Text:
    """Converter of a lecture's Markdown to blocks of HTML: paragraphs, lists, tables, code."""

    def __init__(self, lesson: Lecture, decks: dict[str, str], url: str):
        self._page = notebook_path(lesson)
        self._decks = decks
        self._url = url
        self.has_math = False
        self._markdown = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
        dollarmath_plugin(self._markdown, renderer=self._math, double_inline=True)

    def _math(self, source: str, options: dict) -> str:
        self.has_math = True
        opening, closing = ("\\[", "\\]") if options["display_mode"] else ("\\(", "\\)")
        return f"{opening}{html.escape(source)}{closing}"

    def blocks(self, source: str) -> list[str]:
        """Convert Markdown to a list of HTML strings, one for each top-level element."""
        found, opened, begin = [], 0, 0
        tokens = self._markdown.parse(source)
        for number, token in enumerate(tokens):
            for child in token.children or ():
                self._lead(child)
            opened += token.nesting
            if opened == 0:
                part = tokens[begin : number + 1]
                if token.type == "fence":
                    found += code(token.content, token.info.strip() or "text")
                else:
                    found.append(
                        self._markdown.renderer.render(part, self._markdown.options, {}).strip()
                    )
                begin = number + 1
        return [block for block in found if block]

    def _lead(self, token) -> None:
        """Change links and pictures so that they work from the folder of the decks."""
        name = {"link_open": "href", "image": "src"}.get(token.type)
        if name is None:
            return
        target = str(token.attrs[name])
        if token.type == "link_open":
            token.attrs["target"] = "_blank"
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return
        file, _, fragment = target.partition("#")
        parts = [*self._page.parent.parts]
        for part in file.split("/"):
            if part == "..":
                parts.pop()
            elif part != ".":
                parts.append(part)
        place = "/".join(parts)
        if place.startswith("img/"):
            token.attrs[name] = place
        elif place.startswith("lectures/") and Path(place).stem in self._decks:
            token.attrs[name] = f"{Path(place).stem}.html"
        else:
            token.attrs[name] = f"{self._url}/blob/main/{place}" + (fragment and f"#{fragment}")


def code_css() -> str:
    """Return the colours of code for a light page and for a dark one."""
    light = HtmlFormatter(style="default").get_style_defs(".light .highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".dark .highlight")
    return f"{light}\n{dark}\n"


def _index(template: str, title: str, decks: dict[str, str]) -> str:
    entries = "\n".join(
        f'<li><a href="{id}.html">{html.escape(name)}</a></li>' for id, name in decks.items()
    )
    return template.replace("{{ title }}", html.escape(title)).replace("{{ entries }}", entries)
