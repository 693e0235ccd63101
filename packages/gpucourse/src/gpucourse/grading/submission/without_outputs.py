"""Notebook text without large parts that are not graded.

These are outputs, attachments and the state of widgets.

Found by its brackets, before anything is parsed: 50 MB of small JSON values take Python a gigabyte,
and this is the grader's own process. A picture is one string.
"""

from __future__ import annotations

import re

# A string, with the colon after it where it is a key; an opening or a closing bracket. Possessive:
# a text that is no JSON is not searched twice.
_PART = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"(?P<key>\s*+:)?|[\[{]|[\]}]', re.DOTALL)
# Keys whose values are left out, by how many brackets are open around them: of the notebook, of a
# cell. The notebook's own metadata hold widgets.
_LEFT_OUT = {(1, '"metadata"'), (3, '"outputs"'), (3, '"attachments"')}
# Strings and brackets of one notebook: 2 s to go through. The longest of the course has 5000.
MOST_PARTS = 5_000_000


def without_outputs(text: str) -> str:
    """Return `text` with empty brackets in place of parts that are not graded.

    Raises ValueError for one that has more than ``MOST_PARTS``. Text that is not JSON is returned
    unchanged.
    """
    kept: list[str] = []
    start = depth = 0
    after_key = closes_at = -1
    for count, part in enumerate(_PART.finditer(text)):
        if count > MOST_PARTS:
            raise ValueError(f"more than {MOST_PARTS} values")
        first = text[part.start()]
        if first == '"':
            key = part["key"]
            if (
                closes_at < 0
                and key
                and (depth, text[part.start() : part.end() - len(key)]) in _LEFT_OUT
            ):
                after_key = part.end()
        elif first in "[{":
            if closes_at < 0 and after_key >= 0 and not text[after_key : part.start()].strip():
                kept += [text[start : part.start()], "[]" if first == "[" else "{}"]
                closes_at = depth
            depth += 1
        else:
            depth -= 1
            if depth == closes_at:
                start, closes_at = part.end(), -1
        if not part.end() == after_key:
            after_key = -1
    # A value that never ends leaves the text before it, which is then no JSON either.
    return "".join([*kept, text[start:]]) if closes_at < 0 else "".join(kept[:-1])
