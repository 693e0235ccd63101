"""The decks: every section and cell of a lecture is there, and no slide overflows."""

from __future__ import annotations

import html
import json
import re
import shutil
import socket
import threading
from pathlib import Path

import pytest
from nbformat.v4 import new_output

from chromium_dump import opened
from conftest import REPOSITORY
from gpucourse.course.registry import Lecture
from gpucourse.publish.site import slides
from gpucourse.publish.site.offline import mistakes
from gpucourse.publish.site.showcase import show_course
from gpucourse.publish.source.reader import SET_UP
from gpucourse.views.dial import dial
from gpucourse.views.picture import Picture, canvas
from small_course import LECTURE, edit, write_course

TEMPLATE = (REPOSITORY / "docs" / "site" / "deck.html").read_text(encoding="utf-8")
# Where Chromium itself looks for news, whatever page it shows.
CHROMIUMS_OWN = ("google", "gvt1.com", "gstatic.com")
DECKS = {LECTURE: "First steps", "02_next": "Next"}


@pytest.fixture
def first_steps(tmp_path: Path):
    write_course(tmp_path)
    source = tmp_path / "course" / "lectures" / LECTURE / "notebook.py"
    edit(
        source,
        "# Because one is *not* enough.",
        "# Because one is *not* enough; $x_i$. See [next](02_next.ipynb), [the\n# project]"
        "(../projects/p/p.ipynb#a), [out](https://example.org).\n#\n# ![A picture.](../img/p.svg)",
    )
    edit(source, "1 / 0\n", "x = 1\n\ny = '''a\n\nb'''\nif x:\n    x = 2\n\n    y = 3\n\n1 / 0\n")
    _, (lecture, _) = show_course(tmp_path, run=False)
    error = new_output(
        "error",
        ename="ZeroDivisionError",
        evalue="division by zero",
        traceback=["\x1b[31mZeroDivisionError\x1b[39m: division by <zero>"],
    )
    for cell in lecture.notebook.cells:
        if "1 / 0" in cell.source:
            cell.outputs = [error]
        elif cell.source.startswith("check("):
            cell.outputs = [
                new_output(
                    "display_data", data={"text/html": "<b>passed</b>", "text/plain": "words"}
                )
            ]
    return lecture


def deck_of(shown) -> str:
    return slides.deck(shown, TEMPLATE, "A small course", DECKS, "https://host/repo")


def test_a_deck_has_every_section_cell_and_output(first_steps):
    text = deck_of(first_steps)
    assert "<title>First steps – A small course</title>" in text
    assert text.count('<section class="flow">') == 2, "the title's and one for its ## heading"
    assert "<h1>First steps</h1>" in text and "<h2>Why two?</h2>" in text
    words = html.unescape(re.sub(r"<[^>]+>", "", text))
    for cell in first_steps.notebook.cells:
        set_up = cell.source.startswith("%load_ext gpucourse")
        if cell.cell_type == "code" and "predict(" not in cell.source and not set_up:
            for line in cell.source.splitlines():
                assert line.strip() in words, line
    assert "ZeroDivisionError: division by <zero>" in words and "\x1b" not in text
    assert "<b>passed</b>" in text and "words" not in words


def test_set_up_and_code_that_only_draws_leave_the_slides(first_steps):
    assert "%load_ext" not in deck_of(first_steps)
    (folded,) = (cell for cell in first_steps.notebook.cells if 'check("half"' in cell.source)
    before = deck_of(first_steps).count('class="block code')
    folded.metadata["jupyter"] = {"source_hidden": True}
    text = deck_of(first_steps)
    assert text.count('class="block code') < before and "<b>passed</b>" in text


def test_an_exercise_comes_before_its_answer_and_notes_are_the_speakers(first_steps):
    text = deck_of(first_steps)
    assert text.index("# your code here") < text.index("One answer") < text.index("return</span>")
    notes = re.search(r'<aside class="notes">(.*?)</aside>', text, re.DOTALL)[1]
    assert "People stall at the half." in notes
    assert text.count("People stall") == 1


def test_what_was_to_be_predicted_waits_for_a_key(first_steps):
    text = deck_of(first_steps)
    (block,) = re.findall(r'<div class="([^"]*)"><pre class="error">', text)
    assert block == "block output fragment"
    assert '<div class="block code starts breaks">' in text


def test_so_does_the_explanation_and_the_question_lists_its_choices(first_steps):
    text = deck_of(first_steps)
    (block,) = re.findall(r'<div class="([^"]*)"><p>An error: nothing is shared', text)
    assert block == "block prose starts fragment"
    choices = re.search(r'<ol type="a">(.*?)</ol>', text)[1]
    assert re.sub(r"<[^>]+>", " ", choices).split() == ["1", "an", "error"]
    assert "details" not in text and "Nought" not in text, "no reason in sight"


def test_links_and_pictures_hold_in_the_folder_of_the_decks(first_steps):
    text = deck_of(first_steps)
    assert 'href="02_next.html"' in text
    assert 'href="https://host/repo/blob/main/projects/p/p.ipynb#a"' in text
    assert 'href="https://example.org"' in text
    assert '<img src="img/p.svg" alt="A picture."' in text
    assert "\\(x_i\\)" in text and 'data-math="yes"' in text


def test_code_is_cut_at_blank_lines_of_the_top_level_alone():
    source = (
        "import a\n\n\n@b\ndef c():\n    d\n\n    e\n\n# why\nf = '''g\n\nh'''\n"
        "\nif i:\n    j\n\nelse:\n    k\n"
    )
    pieces = [html.unescape(re.sub(r"<[^>]+>", "", piece)) for piece in slides.code(source)]
    assert [piece.strip().split("\n")[0] for piece in pieces] == ["import a", "@b", "if i:"]
    assert "else:" in pieces[-1] and "# why" in pieces[1] and "h'''" in pieces[1]


def test_of_a_long_traceback_both_ends_are_shown():
    lines = ["Cell In[3] line 1", *(f"frame {n}" for n in range(60)), "BigError: the reason", "why"]
    shown = slides.output(new_output("error", ename="BigError", evalue="", traceback=lines))
    assert "Cell In[3] line 1" in shown and "BigError: the reason\nwhy" in shown
    assert "frame 3" in shown and "frame 40" not in shown and "⋮" in shown


def test_outputs_have_a_form_for_a_page():
    def form(**data) -> str:
        return slides.output(new_output("display_data", data=data))

    assert form(**{"text/plain": "a < b"}) == "<pre>a &lt; b</pre>"
    assert form(**{"image/png": "AA==\n", "text/plain": "words"}) == (
        '<img src="data:image/png;base64,AA==" alt="words">'
    )
    assert form(**{"image/svg+xml": "<svg/>"}) == '<div class="html"><svg/></div>'
    assert form(**{"application/json": {}}) == ""
    turned = dial("bins", {n: Picture(canvas(1, 1)[0], f"{n} bins") for n in (1, 2)})
    kept = form(**turned._repr_mimebundle_())  # it needs no script, so it turns on a slide too
    assert kept.count('type="radio"') == kept.count("<img") == 2 and ":checked~" in kept
    assert slides.output(new_output("stream", name="stdout", text="\n")) == ""
    assert 'class="stderr"' in slides.output(new_output("stream", name="stderr", text="mind"))


# --- the course's own decks, laid out by a browser --------------------------------------------


@pytest.fixture(scope="module")
def decks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The decks of the course, without outputs; nothing is run."""
    course, shown = show_course(REPOSITORY, run=False)
    folder = tmp_path_factory.mktemp("decks") / "slides"
    assets = slides.assets(REPOSITORY / ".tools" / "site" / "bin" / "python")
    number = slides.write(REPOSITORY, folder, course, shown, assets)
    assert number == sum(isinstance(one.source.lesson, Lecture) for one in shown)
    return folder


@pytest.mark.site_tools
@pytest.mark.rehearsal
def test_each_deck_has_its_slides(decks: Path):
    _course, shown = show_course(REPOSITORY, run=False)
    index = (decks / "index.html").read_text(encoding="utf-8")
    for one in shown:
        lesson = one.source.lesson
        if not isinstance(lesson, Lecture):
            continue
        assert f'<a href="{lesson.id}.html">' in index
        text = (decks / f"{lesson.id}.html").read_text(encoding="utf-8")
        cells = [cell for cell in one.source.cells if not {"room", SET_UP} & set(cell.tags)]
        # The tutorial's parts are # headings.
        sections = sum(
            len(re.findall(r"(?m)^##? ", cell.source)) for cell in cells if cell.kind == "markdown"
        )
        assert text.count('<section class="flow">') == sections + 1, lesson.id
        assert text.count("block code") >= sum(cell.kind == "code" for cell in cells), lesson.id
    assert mistakes(decks) == []


@pytest.mark.site_tools
@pytest.mark.rehearsal
@pytest.mark.browser
def test_no_slide_overflows(decks: Path):
    names = sorted(path.name for path in decks.glob("*.html") if path.name != "index.html")
    # All in one browser, which takes a second to start and a hundred megabytes.
    frames = "".join(f'<iframe src="{name}" width="1280" height="720"></iframe>' for name in names)
    collect = """<script>
      setInterval(() => document.querySelectorAll("iframe").forEach((frame) => {
        const found = frame.contentDocument?.body?.dataset;
        if (found?.ready) frame.dataset.found = JSON.stringify(found);
      }), 200);</script>"""
    page = decks / "all.html"
    page.write_text(f"<!doctype html><body>{frames}{collect}", encoding="utf-8")
    text = opened(page.as_uri(), "--allow-file-access-from-files")
    page.unlink()
    found = [json.loads(html.unescape(one)) for one in re.findall(r'data-found="([^"]*)"', text)]
    assert len(found) == len(names), text[-500:]
    for name, facts in zip(names, found, strict=True):
        assert facts["overflows"] == "0", name
        columns = (decks / name).read_text(encoding="utf-8").count('<section class="flow">')
        assert int(facts["slides"]) >= columns, name


@pytest.mark.site_tools
@pytest.mark.rehearsal
@pytest.mark.browser
def test_what_is_too_large_is_made_to_fit(decks: Path, tmp_path: Path):
    shutil.copytree(decks, tmp_path / "decks")
    path = next((tmp_path / "decks").glob("0*.html"))
    tall = (
        '<section class="flow"><div class="block prose"><h2>Tall</h2></div>'
        '<div class="block output"><pre>{}</pre></div>'
        '<div class="block output"><pre>{}</pre></div></section>'
    ).format("line\n" * 38, "line\n" * 400)
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace('<section class="flow">', tall + '<section class="flow">', 1), encoding="utf-8"
    )
    body = re.search(r"<body[^>]*>", opened(path.as_uri()))[0]
    assert 'data-overflows="0"' in body
    assert 'data-scrolls="1"' in body, "38 lines are made smaller, 400 scroll"


@pytest.mark.site_tools
@pytest.mark.rehearsal
@pytest.mark.browser
def test_a_deck_asks_nothing_of_the_network(decks: Path):
    """Whatever the page asks of anybody arrives at a proxy that this test listens at."""
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                asked.append(connection.recv(200).decode("latin-1").split("\r\n")[0])
                connection.close()

        threading.Thread(target=listen, daemon=True).start()
        proxy = f"--proxy-server=127.0.0.1:{server.getsockname()[1]}"
        with_math = next(
            path
            for path in decks.glob("*.html")
            if 'data-math="yes"' in path.read_text(encoding="utf-8")
        )
        page = opened(with_math.as_uri(), proxy)
        assert "<mjx-container" in page and "data-mml-node" in page, "MathJax has set it"
        page = with_math.read_text(encoding="utf-8")
        spy = with_math.with_name("spy.html")
        spy.write_text(page.replace("</head>", '<img src="http://example.org/spy"></head>'))
        # A connection that is given up before it asks has an empty line.
        before = [
            line for line in asked if line and not any(host in line for host in CHROMIUMS_OWN)
        ]
        opened(spy.as_uri(), proxy)
        spy.unlink()
        assert any("example.org/spy" in line for line in asked), "the proxy hears what is asked"
        assert before == []
