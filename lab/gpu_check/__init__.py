"""An NVIDIA GPU against the virtual one: recorded launches, lessons, counters, the grader.

A real GPU as a device is :mod:`virtualgpu.devices.real.gpu`, in a process of its own
:mod:`virtualgpu.devices.real.process`; :mod:`virtualgpu.devices.comparison` compares.

From the ground up; each uses only what stands above it:

================  ================================================================================
``lesson_run``    a lesson's solution on one device, cell by cell; ``lesson_pair`` compares two
``sanitizer``     labelled faults against ``compute-sanitizer``
``instructions``  each form of instruction, against an H200's bits too
``nsight``        the virtual GPU's counters against Nsight Compute's
``parts`` …       what ``make gpu-check`` does, in which order, and what it writes
================  ================================================================================

Nothing here is imported by a lesson.
"""
