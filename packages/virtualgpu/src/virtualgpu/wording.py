"""Plurals and articles in English messages."""

from __future__ import annotations

import re

# Words that are spelled out (f32, s8, u64; ndarray, np.int64): the name of the first letter
# decides.
_SPELLED = re.compile(r"[a-z]\d|nd|np\.|mb")
_VOWEL_NAMES = frozenset("aefhilmnorsx")
_LIKE_AN = re.compile(r"8|1[18](?!\d)|[aeio]|u(?!int|func|n[iy]|s[ae]|t[fi])", re.IGNORECASE)


def many(count: int, one: str, more: str | None = None) -> str:
    """Return a number with its noun, such as ``1 warp`` or ``3,125 warps``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def a_or_an(of: object) -> str:
    """Return a noun with its article, such as ``an int``, ``a float32`` or ``an f32``."""
    noun = str(of)
    spelled = _SPELLED.match(noun)
    vowel = noun[0] in _VOWEL_NAMES if spelled else _LIKE_AN.match(noun)
    return f"{'an' if vowel else 'a'} {noun}"
