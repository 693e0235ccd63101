"""Catalogues of translations: what they hold, and what is said when the English text moves on."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucourse.course.predictions import Prediction, read_predictions
from gpucourse.course.problems import CourseError
from gpucourse.course.registry import load_course
from gpucourse.exercises.checks import Lesson, read_exercises
from gpucourse.grading.contract import PropertyFailed
from gpucourse.notebook import errors
from gpucourse.publish import commands
from gpucourse.publish.notebooks import abroad
from gpucourse.publish.notebooks.derive import project_release
from gpucourse.publish.source import translating
from gpucourse.publish.source.reader import read_source
from gpucourse.system.language import FIXED, language, said, speaking
from small_course import LECTURE, PROJECT, edit, write_course

GERMAN = {
    "## Why two?\nBecause one is *not* enough.": "## Warum zwei?\nWeil eins *nicht* genügt.",
    "an error": "ein Fehler",
    "The idea: add it to itself.": "Die Idee: Zähl es zu sich selbst.",
    "Every number doubled.": "Jede Zahl verdoppelt.",
    "the factor": "den Faktor",
    "First steps": "Erste Schritte",
}
WHERE = f"course/lectures/{LECTURE}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small course whose lecture has some German."""
    write_course(tmp_path)
    messages = translating.lesson_messages(tmp_path, LECTURE)
    known = {key: (GERMAN[key[1]], False) for key in messages if key[1] in GERMAN}
    assert len(known) == len(GERMAN)
    (tmp_path / WHERE / "de.po").write_text(translating.updated(known, messages, "de"))
    return tmp_path


def cells(root: Path, id: str = LECTURE) -> dict[str, str]:
    with speaking("de"):
        course = load_course(root)
        return {cell.name: cell.source for cell in read_source(course, course.lesson(id)).cells}


@pytest.mark.parametrize(
    ("setting", "means"),
    [("de", "de"), ("de_AT.UTF-8", "de"), ("en", ""), ("", ""), ("../../de", ""), ("C", "")],
)
def test_a_setting_names_a_language(setting: str, means: str):
    with speaking(setting):
        assert language() == means
    assert language() == ""


def test_what_is_translated_is_read_and_the_rest_says_that_it_is_not(root: Path):
    found = cells(root)
    assert found["language"].startswith('import os\n\nos.environ["GPUCOURSE_LANGUAGE"] = "de"')
    assert found["why"] == GERMAN["## Why two?\nBecause one is *not* enough."]
    assert 'predict("too-far", "1", "ein Fehler")' in found["too-far-guess"]
    assert found["in-the-room"].startswith("*Dieser Teil ist noch nicht übersetzt.*\n\nPeople")
    with speaking("de"):
        assert load_course(root).lesson(LECTURE).title == "Erste Schritte"
        (first, *_), _ = (one.hints for one in read_exercises(root / WHERE / "checks.py").values())
    assert first == "Die Idee: Zähl es zu sich selbst."


def test_a_check_says_what_it_says_in_the_learners_language(root: Path):
    lesson = Lesson(LECTURE, read_exercises(root / WHERE / "checks.py"), root / WHERE)
    with speaking("de"):
        right, wrong = (lesson.outcome("double", lambda x, by=by: by * x) for by in (2, 3))
    assert (right.message, wrong.look) == ("Jede Zahl verdoppelt.", "den Faktor")
    assert wrong.message == "double(1) is 3"  # what holds a value is not in a catalogue
    assert lesson.outcome("double", lambda x: 2 * x).message == "Every number doubled."


def test_what_is_told_by_a_test_is_looked_up_in_its_lessons_words(root: Path):
    with speaking("de"):
        assert said("the factor", root / WHERE) == "den Faktor"
        assert said("nobody translated this", root / WHERE) == "nobody translated this"
    assert said("the factor", root / WHERE) == "the factor"


def test_a_failing_test_of_a_notebook_is_told_in_the_learners_language(root: Path, monkeypatch):
    monkeypatch.setattr("gpucourse.system.language._opened", {root / WHERE: None})
    failed = PropertyFailed("the factor", "3, not 2")
    with speaking("de"):
        assert errors._lines(None, failed, None, None) == ["Noch nicht: den Faktor: 3, not 2"]
    assert errors._lines(None, failed, None, None) == ["Not yet: the factor: 3, not 2"]


def test_records_keep_the_english_words_of_a_guess(root: Path):
    with speaking("de"):
        asked = read_predictions(root / WHERE / "predictions.toml")["too-far"]
    assert asked.right == "ein Fehler" and asked.recorded("ein Fehler") == "an error"
    assert [*asked.mistakes(("1", "ein Fehler"))] == []
    assert Prediction("x", "a", {}).recorded("a") == "a"


def test_what_is_graded_stays_english(root: Path):
    (root / f"course/projects/{PROJECT}/de.po").write_text(
        translating.updated({}, translating.lesson_messages(root, PROJECT), "de")
    )
    with speaking("de"):
        course = load_course(root)
        german = project_release(course, read_source(course, course.lesson(PROJECT)))
    course = load_course(root)
    english = project_release(course, read_source(course, course.lesson(PROJECT)))
    graded = [
        [cell for cell in one.cells if "nbgrader" in cell.metadata] for one in (german, english)
    ]
    assert graded[0] == graded[1] and graded[0]


def test_a_text_that_changed_since_is_named_and_no_longer_used(root: Path):
    edit(root / WHERE / "notebook.py", "is *not* enough", "is never enough")
    wanted = translating.lesson_messages(root, LECTURE)
    (changed,) = translating.state(translating.read(root / WHERE / "de.po"), wanted)[
        "changed since"
    ]
    assert changed[0] == "why"
    (remark,) = (one for one in translating.remarks(root, [LECTURE]) if WHERE in one)
    assert "1 changed since (why)" in remark and "gpucourse translate de" in remark
    assert "*Dieser Teil ist noch nicht übersetzt.*" in cells(root)["why"]

    (root / WHERE / "de.po").write_text(
        translating.updated(translating.read(root / WHERE / "de.po"), wanted, "de")
    )
    text = (root / WHERE / "de.po").read_text()
    assert "#, fuzzy" in text and "Because one is *not* enough." in text  # for who looks at it
    assert "noch nicht übersetzt" in cells(root)["why"]


def test_a_cell_that_is_gone_is_named(root: Path):
    edit(root / WHERE / "notebook.py", 'id="why"', 'id="why-two"')
    found = translating.state(
        translating.read(root / WHERE / "de.po"), translating.lesson_messages(root, LECTURE)
    )
    assert [place for place, _ in found["unknown"]] == ["why"]
    assert "why-two" in {place for place, _ in found["untranslated"]}


@pytest.mark.parametrize(
    ("place", "english", "german", "amiss"),
    [
        ("", "{count} of {all}", "{count} von {alle}", "{…}"),
        ("", "{count:,} bytes", "{count} Bytes", "{…}"),
        ("why", "[a](b.ipynb)", "[a](c.ipynb)", "links"),
        ("why", "```python\nout = a\n```", "```python\nout = b\n```", "code blocks"),
        ("why", "[a](b.ipynb) {x}", "[A](b.ipynb)", ""),
        ("", "{count} of {all}", "von {all} sind es {count}", ""),
    ],
)
def test_a_translation_keeps_what_is_filled_in_and_linked(place, english, german, amiss):
    found = [*translating.mistakes({(place, english): (german, False)})]
    assert [*filter(lambda text: f"its {amiss}" in text, found)] == found and bool(found) == bool(
        amiss
    )


def test_every_fixed_word_has_a_place_in_the_catalogue():
    """f-strings are read too, on every version of Python."""
    words = {text for _, text in translating.fixed_messages()}
    assert {
        "After this you can",
        "Where to look:",
        "Hint {number} of {total}:",
        "The answer:",
    } <= words
    assert {text for _, text in translating.read(FIXED / "de.po")} & words


def test_german_notebooks_are_written_by_one_command(root: Path, monkeypatch, capsys):
    monkeypatch.chdir(root)
    assert commands.build(language="de") == 0
    assert "1 notebook in step with the source" in capsys.readouterr().out
    assert [path.relative_to(root) for path in root.glob("languages/**/*.ipynb")] == [
        abroad.FOLDER / "de" / "lectures" / f"{LECTURE}.ipynb"
    ]
    with speaking("de"):  # whoever maintains the English notebooks may speak German
        assert commands.build() == 0
    assert "After this you can" in (root / f"lectures/{LECTURE}.ipynb").read_text()
    with pytest.raises(CourseError, match="gpucourse translate fr"):
        abroad.derive(root, "fr")


def test_a_catalogue_is_made_by_one_command(root: Path, monkeypatch, capsys):
    monkeypatch.chdir(root)
    monkeypatch.setattr(translating, "FIXED", root)  # where the package's own would be written
    assert commands.translate("fr", [LECTURE]) == 0
    assert f"{WHERE}/fr.po" in capsys.readouterr().out
    assert ("why", "## Why two?\nBecause one is *not* enough.") in translating.read(
        root / WHERE / "fr.po"
    )
    assert commands.translate("fr", ["99_none"]) == 1
