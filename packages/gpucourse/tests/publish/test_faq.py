"""The learner's page of questions: each of the notes, none twice; and where newcomers begin."""

from __future__ import annotations

import json
import re
from pathlib import Path

from gpucourse.publish import faq
from gpucourse.publish.outputs import derive
from gpucourse.publish.source import read_course
from gpucourse.publish.welcome import NOTEBOOK
from small_course import LECTURE, edit, write_course

ROOT = Path(__file__).resolve().parents[4]


def test_questions_and_answers_of_the_notes_are_on_a_page(tmp_path: Path):
    source = write_course(tmp_path) / "course" / "lectures" / LECTURE / "notebook.py"
    assert faq.PAGE not in derive(tmp_path), "no note has a question yet"
    edit(
        source,
        "# People stall at the half.",
        '# People stall.\n#\n# *What someone always asks.* "Is it a half?" It is, and say "half"\n'
        '# aloud. "But the GPU!" It agrees.\n# "How do I choose a GPU?" By its number.\n#\n'
        '# *What goes wrong.* "Nothing?" Much.',
    )
    page = derive(tmp_path)[faq.PAGE]
    assert '**Is it a half?** It is, and say "half" aloud.\n' in page
    assert "**But the GPU!** It agrees.\n" in page
    assert page.index("## How do I choose a GPU?") < page.index("## [First steps]")
    assert page.count("By its number.") == 1 and "Much" not in page and "stall" not in page


def test_every_question_of_the_course_is_found():
    _, sources = read_course(ROOT)
    for source in sources:
        text = " ".join(cell.source for cell in source.cells if "room" in cell.tags)
        asked = re.search(r"\*What someone always asks\.\*(.*?)(\n\n|$)", text, re.DOTALL)
        if asked:
            quoted = re.findall(r'"[^"]+[?!]"', asked[1])
            assert len(list(faq.questions(source))) == len(quoted) >= 1, source.lesson.id


def cells(notebook: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(notebook)["cells"]]


def test_who_is_new_is_told_where_to_begin(tmp_path: Path):
    said = "".join(text for text in cells(derive(ROOT)[NOTEBOOK]) if "New here?" in text)
    course, _ = read_course(ROOT)
    places = [said.index(f"/{id}.ipynb") for id in course.first]
    assert places == sorted(places)
    assert all(
        re.search(rf"^{n}\. .*{id}.*, \d+ minutes$", said, re.MULTILINE)
        for n, id in enumerate(course.first, start=1)
    )
    small = cells(derive(write_course(tmp_path))[NOTEBOOK])
    assert len(small) == 3 and not any("{" in text for text in small), "it has other lessons"
