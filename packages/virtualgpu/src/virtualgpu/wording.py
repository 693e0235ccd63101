"""English number and articles for messages: a number with its noun, an article with its noun."""

from __future__ import annotations

import re

# Said letter by letter (f32, s8, u64; ndarray, np.int64): the name of the first letter decides.
_SPELLED = re.compile(r"[a-z]\d|nd|np\.|mb")
_VOWEL_NAMES = frozenset("aefhilmnorsx")
_LIKE_AN = re.compile(r"8|1[18](?!\d)|[aeio]|u(?!int|func|n[iy]|s[ae]|t[fi])", re.IGNORECASE)


def many(count: int, one: str, more: str | None = None) -> str:
    """Return ``1 warp``, ``3,125 warps``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def a_or_an(of: object) -> str:
    """Return ``an int``, ``a float32``, ``an ndarray``, ``an f32``, ``a ufunc``."""
    noun = str(of)
    spelled = _SPELLED.match(noun)
    vowel = noun[0] in _VOWEL_NAMES if spelled else _LIKE_AN.match(noun)
    return f"{'an' if vowel else 'a'} {noun}"
