"""Lessons' checks and hints, and trial launches of what a learner wrote."""
