"""Catalogues of translations: collection, update and checks of their messages.

A lesson's messages are all strings that are looked up while it is read
(:func:`..system.language.recording`), so none can be missing. The package's messages are the calls
of ``_("…")`` in its code.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from gpucourse.course.predictions import read_predictions
from gpucourse.course.regions import HIDDEN_TESTS, remove_regions
from gpucourse.course.registry import Course, Lesson, load_course
from gpucourse.exercises.checks import read_exercises
from gpucourse.publish.source.links import links
from gpucourse.publish.source.reader import read_source
from gpucourse.publish.source.wording import UNTRANSLATED
from gpucourse.system.atomic import write_atomically
from gpucourse.system.language import FIXED, recording

#: (context, English message): the place of a message, and its key.
Message = tuple[str, str]
#: Comments on each message, and whether it is marked as fuzzy.
Known = dict[Message, tuple[str, bool]]
_HEAD = """\
msgid ""
msgstr ""
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""
#: The package whose code contains the fixed messages.
_CODE = FIXED.parent
#: Functions of the course's tests and checks whose messages learners read.
_TELLING = re.compile(r"expect|require|CheckFailed")


def lesson_messages(root: Path, id: str) -> list[Message]:
    """Return every text of a lesson in order, with its cell, puzzle or exercise as context."""
    course = load_course(root)
    folder = course.folder(course.lesson(id))
    with recording(folder) as recorder:
        course = load_course(root)
        lesson = course.lesson(id)
        cells = read_source(course, lesson).cells
        read_predictions(course.predictions(lesson))
        read_exercises(course.checks(lesson))
    tests = [cell.source for cell in cells if cell.role == "test"]
    shown = {text: None for test in tests for text in _told(remove_regions(test, HIDDEN_TESTS))}
    hidden = {text: None for test in tests for text in _told(test) if text not in shown}
    checks = course.checks(lesson).read_text(encoding="utf-8")
    told = {"test": shown, "hidden test": hidden, "check": dict.fromkeys(_told(checks))}
    return [*recorder.asked, *((place, text) for place, texts in told.items() for text in texts)]


def _told(source: str) -> Iterator[str]:
    """Yield the messages of tests or checks, except values, which no catalogue contains."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id=name)) if _TELLING.match(name):
                pieces = {
                    piece
                    for part in ast.walk(node)
                    if isinstance(part, ast.JoinedStr)
                    for piece in ast.walk(part)
                }
                yield from (
                    part.value
                    for part in ast.walk(node)
                    if isinstance(part, ast.Constant)
                    and isinstance(part.value, str)
                    and " " in part.value
                    and part not in pieces
                )
            case ast.FunctionDef(decorator_list=[_, *_]) if words := ast.get_docstring(node):
                yield words.split("\n")[0]  # the message of a passed check


def fixed_messages() -> list[Message]:
    """Return every message that the package's code passes to ``_``, f-strings included."""
    found: dict[Message, None] = {}
    for path in sorted(_CODE.rglob("*.py")):
        if "_(" in (text := path.read_text(encoding="utf-8")):
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Call(func=ast.Name(id="_"), args=[ast.Constant(value=str(message))]):
                        found["", message] = None
    return [*found, ("", UNTRANSLATED)]


def read(path: Path) -> Known:
    """Return a catalogue's messages; empty if the file does not exist."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        known = read_po(file)
    return {
        (one.context or "", str(one.id)): (str(one.string), one.fuzzy) for one in known if one.id
    }


def updated(known: Known, wanted: Iterable[Message], language: str) -> str:
    """Return the catalogue of the messages ``wanted``, with their known translations.

    If an English text has changed, the translation of the old text stays, marked as fuzzy and with
    the old text beside it. It is not used until somebody has checked it.
    """
    wanted = list(wanted)
    made = Catalog(fuzzy=False)
    gone = {key: said for key, (said, _) in known.items() if said and key not in wanted}
    for context, message in wanted:
        said, fuzzy = known.get((context, message), ("", False))
        before = [text for place, text in gone if place == context]
        close = [] if said else difflib.get_close_matches(message, before, n=1, cutoff=0.3)
        if close:
            said, fuzzy = gone[context, close[0]], True
        made.add(
            message,
            said,
            context=context or None,
            flags=["fuzzy"] if fuzzy else [],
            previous_id=close,
        )
    written = io.BytesIO()
    write_po(written, made, omit_header=True, include_previous=True, width=100)
    return _HEAD.format(language=language) + written.getvalue().decode()


def state(known: Known, wanted: list[Message]) -> dict[str, list[Message]]:
    """Return messages that are ``untranslated``, ``changed since``, or ``unknown``.

    An unknown message belongs to a place that no longer exists.
    """
    gone = [key for key in known if key not in wanted]
    moved = {place for place, _ in gone if place}
    found: dict[str, list[Message]] = {"untranslated": [], "changed since": []}
    for key in wanted:
        said, fuzzy = known.get(key, ("", False))
        if fuzzy or (not said and key[0] in moved):
            found["changed since"].append(key)
        elif not said:
            found["untranslated"].append(key)
    places = {place for place, _ in wanted if place}
    return found | {"unknown": [key for key in gone if key[0] not in places]}


def mistakes(known: Known) -> Iterator[str]:
    """Yield translations whose ``{…}``, links or code blocks differ from the English message's."""
    for (place, message), (said, fuzzy) in known.items():
        kept: list[tuple[str, Callable]] = [("{…}", _FILLED.findall)]
        if place:
            kept = [("links", links), ("code blocks", _BLOCK.findall)]
        for what, of in kept if said and not fuzzy else ():
            if sorted(of(message)) != sorted(of(said)):
                yield (
                    f"{place or 'a fixed word'}, {message[:40]!r}: its {what} are not those of "
                    "the English text"
                )


_FILLED = re.compile(r"\{[^{}]*\}")
_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def languages(course: Course, lesson: Lesson) -> list[Path]:
    """Return the catalogues of a lesson, in its folder."""
    return sorted(course.folder(lesson).glob("*.po"))


def remarks(root: Path, ids: Iterable[str]) -> Iterator[str]:
    """Yield remarks on gaps and mistakes in the lessons' catalogues; none stops a build."""
    course = load_course(root)
    for id in ids:
        for path in languages(course, course.lesson(id)):
            yield from _remarks(
                path, path.relative_to(root), lesson_messages(root, id), f"{path.stem} {id}"
            )
    for path in sorted(FIXED.glob("*.po")):
        yield from _remarks(
            path, Path("gpucourse") / FIXED.name / path.name, fixed_messages(), path.stem
        )


def _remarks(path: Path, shown: Path, wanted: list[Message], arguments: str) -> Iterator[str]:
    known = read(path)
    for text in mistakes(known):
        yield f"{shown}: {text}"
    found = {what: keys for what, keys in state(known, wanted).items() if keys}
    if found:
        counts = "; ".join(f"{len(keys)} {what} ({_named(keys)})" for what, keys in found.items())
        yield (
            f"{shown}: of {len(wanted)} messages {counts}. To bring it in step: "
            f"gpucourse translate {arguments}"
        )


def _named(keys: list[Message]) -> str:
    names = [*dict.fromkeys(place or repr(message[:30]) for place, message in keys)]
    return ", ".join(names[:3]) + ", …" * (len(names) > 3)


def update(root: Path, language: str, ids: Iterable[str]) -> Iterator[str]:
    """Create or update the catalogues of the fixed messages and of lessons; return the changes."""
    course = load_course(root)
    paths = {FIXED / f"{language}.po": fixed_messages()}
    paths |= {
        course.folder(course.lesson(id)) / f"{language}.po": lesson_messages(root, id) for id in ids
    }
    for path, wanted in paths.items():
        known = read(path)
        write_atomically(path, updated(known, wanted, language))
        found = state(read(path), wanted)
        yield (
            f"{path.relative_to(root) if path.is_relative_to(root) else path}: "
            f"{len(wanted)} messages, {len(found['untranslated'])} untranslated, "
            f"{len(found['changed since'])} changed since"
        )
