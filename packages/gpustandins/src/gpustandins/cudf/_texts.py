"""String methods of ``.str`` that cuDF has and pandas lacks."""

from __future__ import annotations

import re
import urllib.parse

_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_BYTE = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"


def insert(text: str, start: int = 0, repl: str = "") -> str:
    at = len(text) + 1 + start if start < 0 else start
    return text[:at] + repl + text[at:]


def like(text: str, pat: str, esc: str | None = None) -> bool:
    """Return True if a string matches an SQL pattern: ``%`` any text, ``_`` any character."""
    expression, marks = "", iter(pat)
    for mark in marks:
        if mark == esc:
            expression += re.escape(next(marks, ""))
        else:
            expression += {"%": ".*", "_": "."}.get(mark, re.escape(mark))
    return re.fullmatch(expression, text, re.DOTALL) is not None


def split_part(text: str, delimiter: str | None = None, index: int = 0) -> str | None:
    parts = text.split(delimiter)
    return parts[index] if 0 <= index < len(parts) else None


#: For each method: a function of one string and the method's arguments, and the result dtype.
OF_ONE_TEXT = {
    "byte_count": (lambda text: len(text.encode()), "int32"),
    "htoi": (lambda text: int(text, 16), "int64"),
    "insert": (insert, "str"),
    "isfloat": (lambda text: _FLOAT.fullmatch(text) is not None, "bool"),
    "ishex": (lambda text: re.fullmatch("(0[xX])?[0-9a-fA-F]+", text) is not None, "bool"),
    "isinteger": (lambda text: re.fullmatch(r"[+-]?\d+", text) is not None, "bool"),
    "isipv4": (lambda text: re.fullmatch(rf"({_BYTE}\.){{3}}{_BYTE}", text) is not None, "bool"),
    "like": (like, "bool"),
    "normalize_spaces": (lambda text: " ".join(text.split()), "str"),
    "replace_with_backrefs": (lambda text, pat, repl: re.sub(pat, repl, text), "str"),
    "split_part": (split_part, "str"),
    "token_count": (lambda text, delimiter=None: len(text.split(delimiter)), "int32"),
    "translate": (lambda text, table: text.translate(str.maketrans(table)), "str"),
    "url_decode": (urllib.parse.unquote, "str"),
    "url_encode": (lambda text: urllib.parse.quote(text, safe=""), "str"),
}
OF_ONE_TEXT["hex_to_int"] = OF_ONE_TEXT["htoi"]
