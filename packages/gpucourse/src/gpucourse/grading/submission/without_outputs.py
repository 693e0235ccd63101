"""Removal of large ungraded parts from a notebook's text, before it is parsed.

These parts are outputs, attachments and the state of widgets.

They are found from their brackets, because parsing 50 MB of small JSON values takes Python a
gigabyte, and this is the grader's own process. A picture is one string.
"""

from __future__ import annotations

import re

# A string, with the colon after it if it is a key, or an opening or closing bracket. The pattern is
# possessive, so that text which is not JSON is not searched twice.
_PART = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"(?P<key>\s*+:)?|[\[{]|[\]}]', re.DOTALL)
# Keys whose values are left out, by the number of open brackets around them: those of the notebook
# and of a cell. The notebook's own metadata contain widgets.
_LEFT_OUT = {(1, '"metadata"'), (3, '"outputs"'), (3, '"attachments"')}
# Limit on the strings and brackets of one notebook, which takes 2 s to scan. The longest notebook
# of the course has 5000.
MOST_PARTS = 5_000_000


def without_outputs(text: str) -> str:
    """Return `text` with empty brackets in place of parts that are not graded.

    Raises ValueError for text with more than ``MOST_PARTS`` parts. Text that is not JSON is
    returned unchanged.
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
    # A value that never ends leaves only the text before it, which is then not JSON either.
    return "".join([*kept, text[start:]]) if closes_at < 0 else "".join(kept[:-1])
