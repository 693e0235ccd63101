"""Grammar and length of messages: plurals, articles, numbers with units."""

from __future__ import annotations

import re

# Abbreviations that are read letter by letter (f32, s8, np.int64), so the name of the first letter
# decides between "a" and "an".
_SPELLED = re.compile(r"[a-z]\d|nd|np\.|mb")
_VOWEL_NAMES = frozenset("aefhilmnorsx")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
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


def is_not(value: float, expected: float, unit: str = "") -> str:
    """Return ``is 0.3127, not 0.317``, with enough digits to tell the two numbers apart."""
    value, expected = float(value), float(expected)
    digits = digits_apart(value, expected, 4)
    unit = f" {unit}" if unit else ""
    return f"is {number(value, digits)}{unit}, not {number(expected, digits)}{unit}"


def digits_apart(value: float, expected: float, least: int = 6) -> int:
    """Return the number of digits at which two unequal numbers are printed differently."""
    alike = (n for n in range(least, 17) if f"{value:.{n}g}" != f"{expected:.{n}g}")
    return next(alike, 17)


def number(value: float, digits: int = 3) -> str:
    """Return ``12,500``, ``0.313``, ``2.1 × 10⁻⁷`` or ``nan``; whole numbers in full."""
    value = float(value)  # before Python 3.12, int has no is_integer()
    if value.is_integer() and abs(value) < 1e9:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    mantissa, exponent, power = text.partition("e")
    if not exponent:
        return text
    return f"{mantissa} × 10{str(int(power)).translate(_RAISED)}"


def seconds(value: float, digits: int = 3) -> str:
    """Return a time in the unit that suits it: ``530 ns``, ``4.1 ms``, ``2 s``."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= size:
            return f"{value / size:.{digits}g} {unit}"
    return f"{value / 1e-9:.{digits}g} ns"


def shortened(text: str, most: int | None) -> str:
    """Return ``text`` cut to ``most`` characters, with ``…`` at the end if it was cut.

    ``most=None`` returns it unchanged.
    """
    return text if most is None or len(text) <= most else text[: most - 1] + "…"
