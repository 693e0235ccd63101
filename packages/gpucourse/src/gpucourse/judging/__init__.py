"""Criteria beside the results of an answer, for lessons, puzzles and the grader.

Whether the order of threads matters (``orders``), whether the work is shared among threads
(``parallel``), and whether the device computed the result (``exchange``).
"""
