"""Wrong answers to "Memory and sharing": those of each puzzle's file, and those that every puzzle must refuse."""

from __future__ import annotations

from puzzle_answers import wrong_answers

WRONG = wrong_answers(__file__)
