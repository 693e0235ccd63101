"""Criteria of lessons, puzzles and the grader, beside what an answer returns.

Whether the order of threads matters (``orders``), whether the work is shared among threads
(``parallel``), and whether the device computed the result (``exchange``).
"""
