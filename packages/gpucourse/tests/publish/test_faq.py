"""The learner's page of questions: each of the notes, none twice; the welcome page of a course."""

from __future__ import annotations

import json
from pathlib import Path

from gpucourse.publish.notebooks.outputs import derive
from gpucourse.publish.notebooks.welcome import NOTEBOOK
from gpucourse.publish.source import faq
from small_course import LECTURE, edit, write_course


def test_questions_and_answers_of_the_notes_are_on_a_page(tmp_path: Path):
    source = write_course(tmp_path) / "course" / "lectures" / LECTURE / "notebook.py"
    assert faq.PAGE not in derive(tmp_path), "no note has a question yet"
    edit(
        source,
        "# People stall at the half.",
        '# People stall.\n#\n# *Frequent questions.* "Is it a half?" It is, and say "half"\n'
        '# aloud. "But the GPU!" It agrees.\n# "How do I choose a GPU?" By its number.\n#\n'
        '# *What goes wrong.* "Nothing?" Much.',
    )
    page = derive(tmp_path)[faq.PAGE]
    assert '**Is it a half?** It is, and say "half" aloud.\n' in page
    assert "**But the GPU!** It agrees.\n" in page
    assert page.index("## How do I choose a GPU?") < page.index("## [First steps]")
    assert page.count("By its number.") == 1 and "Much" not in page and "stall" not in page


def cells(notebook: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(notebook)["cells"]]


def test_a_small_course_has_no_places_left_to_fill(tmp_path: Path):
    assert not any("{" in text for text in cells(derive(write_course(tmp_path))[NOTEBOOK]))
