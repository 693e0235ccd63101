"""Native code under ``check()``: kernels that record what the checkers need.

The kernel finds out whether there may be anything to report, not the words for it. Where it
suspects something it stops, its stores are taken back, and the interpreter runs the blocks and
reports. So a report is always the interpreter's; what native code suspects for nothing costs time
alone.
"""
