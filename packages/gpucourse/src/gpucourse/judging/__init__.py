"""Criteria beside the results of an answer, for lessons, puzzles and the grader.

The criteria: the order of threads does not matter (``orders``), the threads share the work
(``parallel``), and the device computed the result (``exchange``).
"""
