"""English number and article agreement for messages."""

from __future__ import annotations

import re

# Spelled out when read aloud (f32, s8, np.int64), so the name of the first letter decides.
_SPELLED = re.compile(r"[a-z]\d|nd|np\.|mb")
_VOWEL_NAMES = frozenset("aefhilmnorsx")
_LIKE_AN = re.compile(r"8|1[18](?!\d)|[aeio]|u(?!int|func|n[iy]|s[ae]|t[fi])", re.IGNORECASE)


def many(count: int, one: str, more: str | None = None) -> str:
    """Return ``1 warp`` or ``3,125 warps``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def a_or_an(of: object) -> str:
    """Return ``an int``, ``a float32``, ``an ndarray``, ``an f32`` or ``a ufunc``."""
    noun = str(of)
    spelled = _SPELLED.match(noun)
    vowel = noun[0] in _VOWEL_NAMES if spelled else _LIKE_AN.match(noun)
    return f"{'an' if vowel else 'a'} {noun}"
