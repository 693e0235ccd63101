"""Tokenizer of PTX text, and values of its literals (PTX ISA, "Syntax").

Malformed text raises :class:`~virtualgpu.errors.PTXSyntaxError`, which quotes the line.
"""

from __future__ import annotations

import re
import struct
from typing import NoReturn

from virtualgpu.errors import PTXSyntaxError
from virtualgpu.ptx.module import Immediate

MAX_TEXT = 64 << 20  # bytes; the largest module so far (in numba-cuda's tests) has 1.2 MB
MAX_VARIABLE = 1 << 31  # bytes in one variable
MAX_REGISTERS = 1 << 20  # in one `.reg` directive
MAX_DEPTH = 64  # levels of nested scopes, vectors and initialisers

TYPE_SIZES = {
    **dict.fromkeys(("b8", "u8", "s8"), 1),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 2),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2"), 4),
    **dict.fromkeys(("b64", "u64", "s64", "f64"), 8),
    "b128": 16,
    "pred": 1,
}

_TOKEN = re.compile(
    r"""
    (?P<skip>//[^\n]*|/\*.*?\*/)
  | (?P<string>"[^"\n]*")
  | (?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][-+]?\d+)?)
  | (?P<number>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<word>[%$_a-zA-Z][\w$%]*(?:(?:\.|::)[\w$]+)*)
  | (?P<directive>\.[a-zA-Z_][\w]*(?:::\w+)*)
  | (?P<mark>[{}()\[\],;:@!<>=|+\-*~])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
LINKAGE = {".visible", ".extern", ".weak", ".common"}
SPACES = {".global", ".const", ".shared", ".local", ".param"}


class Tokens:
    """Cursor over the tokens of a text."""

    def __init__(self, text: str):
        self.text = text
        self.tokens: list[str] = []
        self.kinds: list[str] = []
        self.starts: list[int] = []
        add, add_kind, add_start = self.tokens.append, self.kinds.append, self.starts.append
        position, end = 0, len(text.rstrip("\0 \n\t\r"))
        for match in _TOKEN.finditer(text, 0, end):
            start = match.start()
            if start != position and (odd := text[position:start].strip(" \t\r\n\f\v")):
                self._fail_at(position, f"unexpected character {odd[0]!r}")
            position = match.end()
            if match.lastgroup != "skip":
                add(match.group())
                add_kind(match.lastgroup)  # type: ignore[arg-type]  # all are named
                add_start(start)
        if odd := text[position:end].strip(" \t\r\n\f\v"):
            self._fail_at(position, f"unexpected character {odd[0]!r}")
        self.tokens.append("")
        self.kinds.append("end")
        self.starts.append(end)
        self.at = 0

    def _fail_at(self, position: int, why: str) -> NoReturn:
        number = self.text.count("\n", 0, position) + 1
        line = self.text[self.text.rfind("\n", 0, position) + 1 :].split("\n", 1)[0].strip()
        raise PTXSyntaxError(f"PTX line {number}: {why}\n    {line[:200]}")

    def fail(self, why: str) -> NoReturn:
        self._fail_at(self.starts[min(self.at, len(self.starts) - 1)], why)

    def peek(self) -> str:
        return self.tokens[self.at]

    def next(self) -> str:
        token = self.tokens[self.at]
        if self.kinds[self.at] == "end":
            self.fail("the text ends in the middle of a statement")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected {token!r}, found {self.peek()!r}")

    def name(self) -> str:
        if self.kinds[self.at] != "word":
            self.fail(f"expected a name, found {self.peek()!r}")
        return self.next()

    def integer(self) -> int:
        negative = False
        while self.peek() in "+-~" and self.peek():
            negative ^= self.next() == "-"
        if self.kinds[self.at] != "number":
            self.fail(f"expected an integer, found {self.peek()!r}")
        token = self.tokens[self.at]
        try:
            value = integer_literal(token)
        except ValueError:
            self.fail(f"{token[:24]} is not a 64-bit integer")
        self.at += 1
        return -value if negative else value


def integer_literal(token: str) -> int:
    """Return the value of an integer literal.

    A literal of more than 64 bits raises ValueError.
    """
    token = token.rstrip("U")
    if token[:2] in ("0x", "0X"):
        value = int(token, 16)
    elif token[:2] in ("0b", "0B"):
        value = int(token, 2)
    elif len(token) > 24:
        raise ValueError(token)
    else:
        value = int(token, 8 if len(token) > 1 and token[0] == "0" else 10)
    if value >> 64:
        raise ValueError(token)
    return value


def float_literal(token: str) -> Immediate:
    if token[:2] in ("0f", "0F"):
        return Immediate(int(token[2:], 16), "f32")
    if token[:2] in ("0d", "0D"):
        return Immediate(int(token[2:], 16), "f64")
    return Immediate(struct.unpack("<Q", struct.pack("<d", float(token)))[0], "f64")
