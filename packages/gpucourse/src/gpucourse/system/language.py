"""Language that learners read: English, or the value of ``GPUCOURSE_LANGUAGE``.

Code and course are written in English. The English texts are the keys of gettext catalogues:
``gpucourse/languages/de.po`` for the fixed words, and ``de.po`` in a lesson's folder for its
texts. Messages that a catalogue does not contain, or marks as fuzzy, stay English.
``docs/translating.md`` describes how to make a catalogue. Catalogues are read directly, without
compilation.
"""

from __future__ import annotations

import gettext
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

SETTING = "GPUCOURSE_LANGUAGE"
#: Folder of the catalogues of the fixed words.
FIXED = Path(__file__).resolve().parents[1] / "languages"

#: Folders of the lessons whose notebooks are open, in which an error of a test may be translated.
_opened: dict[Path, None] = {}
_recorders: dict[Path, Recorder] = {}


class Recorder(gettext.NullTranslations):
    """Catalogue that records each (context, message) that is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[tuple[str, str], None] = {}

    def pgettext(self, context: str, message: str) -> str:
        self.asked[context, message] = None
        return message


def language() -> str:
    """Return a language code such as ``de``, or "" for English; ``de_AT.UTF-8`` is ``de``."""
    code = re.split(r"[_.@-]", os.environ.get(SETTING, ""))[0].lower()
    return code if re.fullmatch("[a-z]{2,3}", code) and code != "en" else ""


@contextmanager
def speaking(code: str) -> Iterator[None]:
    """Set the language of this process inside the ``with`` block; ``""`` is English."""
    before = os.environ.get(SETTING)
    os.environ[SETTING] = code
    try:
        yield
    finally:
        del os.environ[SETTING]
        if before is not None:
            os.environ[SETTING] = before


@contextmanager
def recording(folder: Path) -> Iterator[Recorder]:
    """Record the messages of a folder inside the ``with`` block instead of translating them."""
    _recorders[folder] = recorder = Recorder()
    try:
        with speaking("zxx"):  # ISO 639-2 code for no linguistic content
            yield recorder
    finally:
        del _recorders[folder]


def catalogue(folder: Path) -> gettext.NullTranslations:
    """Return the translations of a folder's messages, which are empty if there are none."""
    if not (code := language()):
        return gettext.NullTranslations()
    if folder in _recorders:
        return _recorders[folder]
    path = folder / f"{code}.po"
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError:  # it is missing or may not be read; the grader then uses English
        return gettext.NullTranslations()


@lru_cache(maxsize=64)
def _read(path: Path, _changed: int) -> gettext.GNUTranslations:
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    compiled = io.BytesIO()
    with path.open("rb") as file:
        write_mo(compiled, read_po(file))
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)


def _(message: str) -> str:
    """Translate a fixed word or message, whose ``{…}`` are filled in afterwards."""
    return catalogue(FIXED).gettext(message) if message and language() else message


def opened(folder: Path) -> None:
    """Record that the notebook in this process belongs to the lesson in ``folder``."""
    _opened[folder] = None


def said(message: str, *lessons: Path) -> str:
    """Translate a message of a test or check with the catalogues of ``lessons`` or open lessons."""
    for folder in (*lessons, *_opened) if message and language() else ():
        for context in ("check", "test", "hidden test"):
            if (found := catalogue(folder).pgettext(context, message)) != message:
                return found
    return _(message)
