"""Comparison of an NVIDIA GPU with the virtual one: launches, lessons, counters, grader.

:mod:`virtualgpu.devices.real.gpu` is a real GPU as a device,
:mod:`virtualgpu.devices.real.process` one in a separate process, and
:mod:`virtualgpu.devices.comparison` compares results.

The modules, each of which uses only those above it:

================  ================================================================================
``lesson_run``    a lesson's solution on one device, cell by cell; ``lesson_pair`` compares two
``sanitizer``     labelled faults against ``compute-sanitizer``
``instructions``  each form of instruction, against an H200's bits too
``nsight``        the virtual GPU's counters against Nsight Compute's
``parts`` …       what ``make gpu-check`` does, in which order, and what it writes
================  ================================================================================

No lesson imports this package.
"""
