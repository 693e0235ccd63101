"""Native code under ``check()``: kernels that record what the checkers need.

The kernel detects that there may be something to report, but does not produce the report. If it
suspects something, it stops, its stores are undone, and the interpreter runs the blocks and
reports. So every report comes from the interpreter, and a false suspicion costs only time.
"""
