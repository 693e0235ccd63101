"""Refusal: the reason why a kernel stays on the interpreter."""

from __future__ import annotations


class Refused(Exception):
    """The kernel has something that native code does not do; the message says what."""
