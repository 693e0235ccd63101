"""Checks, hints and predictions of lessons, and trial launches of learners' code."""
