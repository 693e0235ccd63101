"""Checks and hints of "Memory and sharing": each puzzle's file says what is checked."""

from __future__ import annotations

from gpucourse.puzzles.judge import exercises

EXERCISES = exercises(__file__)
