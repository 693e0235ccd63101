"""What lessons, puzzles and the grader judge an answer by, beside what it returns.

Whether the order of threads matters (``orders``), whether the work is shared among threads
(``parallel``), and whether the device computed the result (``exchange``).
"""
