"""The facts that a message has, in whatever words."""

from __future__ import annotations


def assert_tells(message: str, *facts: str) -> None:
    """Assert that the message names each line, thread, number or word that a reader needs."""
    missing = [fact for fact in facts if fact not in message]
    assert not missing, f"{missing} not in {message!r}"
