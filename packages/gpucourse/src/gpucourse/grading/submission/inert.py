r"""Conversion of a student's Markdown to HTML that is harmless in the teacher's browser.

Formgrader, feedback and JupyterLab render Markdown with its HTML, on the server that holds the
gradebook, so a script in a written answer would run with the teacher's rights. This module
therefore renders an answer to a few harmless tags, using a parser that does not support HTML, and
sanitises the result (nh3, an allow-list over a real HTML parser). Emphasis, lists, tables, code
and mathematics survive. Links and images are replaced by their text and address, so that nothing
is fetched or can be clicked.

MathJax has commands of its own that make links, styles and identifiers (``\href``, ``\style``,
``\require`` …; "TeX and LaTeX extensions", MathJax documentation, "safe" extension). Their
backslash is replaced by another character (U+29F5), which MathJax ignores.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin

from gpucourse.grading.submission.bounded import Bounded
from gpucourse.grading.verdict import as_text

TAGS = {
    "p",
    "br",
    "hr",
    "em",
    "strong",
    "s",
    "code",
    "pre",
    "blockquote",
    "ul",
    "ol",
    "li",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "div",
}
# Commands of MathJax 2 and 3 that do more than mathematics, or that load such commands.
_TEX = re.compile(
    r"\\(?=(?:href|url|class|cssId|style|require|mmlToken|bbox|unicode|data|html\w*|texttip|"
    r"mathtip|toggle|Tip|includegraphics)(?![A-Za-z]))"
)
_BACKSLASH = "\N{REVERSE SOLIDUS OPERATOR}"


def inert(markdown: str, below: str = "") -> str:
    """Return one line of HTML that shows the Markdown.

    Markdown that is too deeply nested or takes too long to parse is shown literally.

    A line that begins with ``<div`` passes every Markdown parser unchanged.
    """
    text = as_text(markdown)
    shown = _rendered(text)
    if shown is None:
        shown = f"<pre>{html.escape(text)}</pre>"
    return "<div>" + shown.replace("\r", "").replace("\n", "&#10;") + below + "</div>"


def rendered(text: str) -> str:
    """Return Markdown as harmless HTML.

    Parsers take quadratic time on some text, so call this function only through :func:`inert`.
    """
    return nh3.clean(_PARSER.render(text), tags=TAGS, attributes={}, url_schemes=set())


_rendered = Bounded(__name__, "rendered")


def _words(text: str) -> str:
    """Return text or mathematics outside code, with the commands of MathJax disabled."""
    return html.escape(_TEX.sub(lambda _: _BACKSLASH, text))


def _parser() -> MarkdownIt:
    parser = (
        MarkdownIt("commonmark", {"html": False, "maxNesting": 20})
        .enable(["table", "strikethrough"])
        .use(dollarmath_plugin, allow_digits=True)
        .use(amsmath_plugin)
    )
    show = parser.add_render_rule
    show("text", lambda self, tokens, i, *_: _words(tokens[i].content))
    show("math_inline", lambda self, tokens, i, *_: _words(f"${tokens[i].content}$"))
    for name in ("math_inline_double", "math_block", "math_block_label"):
        show(name, lambda self, tokens, i, *_: _words(f"$${tokens[i].content}$$"))
    show("amsmath", lambda self, tokens, i, *_: f"<p>{_words(tokens[i].content)}</p>")
    show("link_open", lambda *_: "")
    show("link_close", lambda self, tokens, i, *_: _address(_opening(tokens, i)))
    show(
        "image",
        lambda self, tokens, i, *_: (
            f"[image: {_words(tokens[i].content)}]" + _address(tokens[i], "src")
        ),
    )
    return parser


def _opening(tokens: Sequence[Token], closing: int) -> Token:
    depth = 0
    for token in reversed(tokens[:closing]):
        depth += {"link_close": 1, "link_open": -1}.get(token.type, 0)
        if depth < 0:
            return token
    raise AssertionError("a link that closes was opened")


def _address(token: Token, attribute: str = "href") -> str:
    return f" <code>{html.escape(str(token.attrGet(attribute) or ''))}</code>"


_PARSER = _parser()
