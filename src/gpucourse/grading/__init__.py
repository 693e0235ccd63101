"""Grading: the student's code in a sandbox, the hidden tests in an oracle that owns the device.

Read in this order: ``assignment`` (the instructor's notebook), ``ingest`` (what is taken from a
submission), ``verdict`` (what comes out), ``wire`` (what may pass between the two processes),
``worker`` and ``sandbox`` (the student's side), ``oracle`` (the trusted side), ``batch`` (many
submissions), ``nbgrader_steps`` (how nbgrader calls all this).
"""
