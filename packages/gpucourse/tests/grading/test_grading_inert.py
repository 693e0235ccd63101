"""What a student writes reaches the teacher's browser as text that does nothing."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib import image
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from nbformat.v4 import new_markdown_cell
from PIL import Image

from gpucourse.grading.limits import Limits
from gpucourse.grading.submission import inert as inert_module
from gpucourse.grading.submission import ingest
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.inert import TAGS, inert
from grading_toy import nbgrader, submission, toy_notebook

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><a xlink:href='javascript:alert(1)'>x</a></svg>",
    "[press](javascript:alert(1))",
    "[press](JaVaScRiPt&#58;alert(1))",
    "[press]( data:text/html;base64,PHNjcmlwdD4=)",
    "[press][1]\n\n[1]: javascript:alert(1) 'x'",
    "<javascript:alert(1)>",
    "![x](https://example.org/who-reads-this.png)",
    "![x](attachment:plot.svg)",
    "[all marks](/formgrader/api/everybody)",
    "`<script>`\n\n```html\n<script>\n\nalert(1)</script>\n[x](javascript:alert(1))\n```",
    "<div>\n\n[x](javascript:alert(1))\n\n</div>",
    "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
    "<style>body{display:none}</style><form action=/x><button>Save</button></form>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<math><mtext><table><mglyph><style><img src onerror=alert(1)>",
    "<!-- --!><script>alert(1)</script>",
    "$\\require{html}\\href{javascript:alert(1)}{x}$",
    "\\\\[ \\style{position:fixed;top:0}{\\cssId{submit}{x}} \\\\]",
    "\\begin{align} \\class{btn}{x} \\mmlToken{mi}[href='javascript:alert(1)']{x} \\end{align}",
    "$$\\unicode[x;background:url(https://example.org/)]{97}$$",
    "&#92;href{javascript:alert(1)}{x} $&#92;href{javascript:alert(1)}{x}$",
    "\x1b]52;c;cm0gLXJm\x07 \u202egnihton\u202c",
    ">" * 3000 + " deep",
    "[" * 2000 + "x" + "](javascript:alert(1))" * 2000,
]


class Page(HTMLParser):
    """Tags, attributes and the text outside code of a piece of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.words, self.code = [], [], "", 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.code += tag in ("pre", "code")

    def handle_endtag(self, tag):
        self.code -= tag in ("pre", "code")

    def handle_data(self, data):
        if not self.code:
            self.words += data


def check(text: str) -> Page:
    shown = inert(text)
    assert "\n" not in shown
    for rendered in (shown, markdown2html_mistune(shown)):
        page = Page(rendered)
        assert set(page.tags) <= TAGS, rendered
        assert page.attributes == []
        assert not re.search(r"\\(href|class|cssId|style|require|mmlToken|unicode)\b", page.words)
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", rendered.replace("\n", ""))
    return page


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_it_acts(text):
    check(text)


PIECES = st.sampled_from(
    [
        "<script>",
        "</script>",
        "<img src=x onerror=a>",
        "[a](javascript:b)",
        "`",
        "```\n",
        "$",
        "$$",
        "\n",
        "\n\n",
        "    ",
        "> ",
        "- ",
        "\\href{javascript:a}{b}",
        "&lt;",
        "&#60;",
        "<!--",
        "-->",
        "<div>",
        "</div>",
        "|a|\n|-|\n",
        "\\",
        "*",
        "_",
        "[",
        "]",
        "(",
        ")",
        "<",
        ">",
        '"',
        "'",
        "x",
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
@example("```\n\n<script>")
def test_nothing_acts_however_it_is_put_together(text):
    check(text)


def test_what_belongs_into_an_answer_survives():
    page = markdown2html_mistune(
        inert(
            "Bins *race*: **two** threads `a < b`\n\n1. read\n2. write\n\n```python\nif a < b:\n\n"
            "    c += 1\n```\n\n$\\sqrt{N} < a_1 * b_1 * c$ and\n\n$$\nE = \\frac{p^2}{2m}\n$$\n\n"
            "\\begin{align}x &= y\\end{align}\n\n| n | t |\n|---|---|\n| 1 | 2 |\n"
        )
    )
    for piece in (
        "<em>race</em>",
        "<strong>two</strong>",
        "<code>a &lt; b</code>",
        "<ol>",
        "c += 1",
        r"$\sqrt{N} &lt; a_1 * b_1 * c$",
        r"\frac{p^2}{2m}",
        r"\begin{align}x &amp;= y\end{align}",
        "<td>1</td>",
    ):
        assert piece in page, piece


def test_a_link_shows_its_address():
    assert inert("[the guide](https://docs.example.org/a)") == (
        "<div><p>the guide <code>https://docs.example.org/a</code></p>&#10;</div>"
    )


def png(pixels) -> str:
    file = io.BytesIO()
    image.imsave(file, pixels, format="png")
    return base64.b64encode(file.getvalue()).decode()


@pytest.fixture
def written() -> Assignment:
    notebook = toy_notebook()
    metadata = nbgrader("why", solution=True, grade=True, points=1)
    notebook.cells.append(new_markdown_cell("YOUR ANSWER HERE", id="why", metadata=metadata))
    return Assignment("toy", notebook)


def pasted(assignment: Assignment, attachments: object):
    cells = submission(assignment, why="See ![image.png](attachment:image.png) there.")
    cells[-1]["attachments"] = attachments
    return ingest.ingest_cells(cells, assignment, Limits())


@pytest.mark.parametrize("shape", [(40, 60, 3), (3000, 50, 4), (7, 9)])
def test_threat_113_a_pasted_picture_is_decoded_and_shown(written, shape):
    """The picture shown is made of the pixels alone: nothing else of the file is in it."""
    pixels = np.random.default_rng(1).integers(0, 255, shape).astype(np.uint8)
    data = png(pixels)
    spoilt = base64.b64encode(base64.b64decode(data) + b"<script>alert(1)</script>").decode()
    taken = pasted(written, {"image.png": {"image/png": spoilt}})
    assert "shown below the text" in taken.notices[-1]
    source = ingest.rebuild(written, taken).cells[-1].source
    (kept,) = re.findall(r'src="data:image/png;base64,([^"]+)"', source)
    assert b"script" not in base64.b64decode(kept)
    again = image.imread(io.BytesIO(base64.b64decode(kept)))
    assert again.shape[0] <= 1600 and (max(shape) > 1600 or again.shape[:2] == shape[:2])
    assert "\n" not in source and ingest.read_back(ingest.rebuild(written, taken), written) == taken


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp", "bmp"])
def test_no_module_is_imported_within_the_time_of_a_picture(kind):
    """The imports take as long as a picture may, on a slow machine."""
    file = io.BytesIO()
    Image.new("RGB", (6, 4)).save(file, kind)
    picture = base64.b64encode(file.getvalue()).decode()
    program = (
        "import sys\n"
        "from gpucourse.grading.submission import pictures\n"
        "pictures.redrawn('')\n"
        "before = set(sys.modules)\n"
        f"assert pictures.redrawn({picture!r})\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("", 0)


def test_threat_113_a_photograph_is_shown_too(written):
    file = io.BytesIO()
    image.imsave(file, np.zeros((30, 40, 3), np.uint8), format="jpeg")
    photograph = base64.b64encode(file.getvalue()).decode()
    taken = pasted(written, {"image.png": {"image/jpeg": [photograph[:99], photograph[99:]]}})
    assert "shown below the text" in taken.notices[-1]


@pytest.mark.parametrize(
    "attachments",
    [
        {"image.png": {"image/png": base64.b64encode(b"%!PS-Adobe-3.0 EPSF-3.0").decode()}},
        None,
        {},
        {"image.png": {"image/svg+xml": "<svg onload='alert(1)'/>"}},
        {"image.png": {"image/png": base64.b64encode(b"<script>").decode()}},
        {"image.png": {"image/png": "not base64"}},
        {"image.png": {"image/png": "A" * 9_000_000}},
        {"image.png": 7, "b": {"image/png": [1]}},
        [],
    ],
)
def test_threat_113_a_picture_that_cannot_be_shown_is_said(written, attachments):
    taken = pasted(written, attachments)
    assert "cannot see" in taken.notices[-1] and "in words" in taken.notices[-1]
    assert "<img" not in ingest.rebuild(written, taken).cells[-1].source


def test_an_answer_without_a_picture_has_no_word_of_one(written):
    taken = ingest.ingest_cells(submission(written, why="No picture."), written, Limits())
    assert taken.notices == []


def test_what_cannot_be_rendered_is_shown_letter_by_letter(monkeypatch):
    monkeypatch.setattr(inert_module, "_rendered", lambda text: None)
    shown = inert("<script>alert(1)</script>")
    assert "<script" not in shown and "&lt;script&gt;" in shown
