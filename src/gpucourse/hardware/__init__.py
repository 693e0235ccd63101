"""Everything that needs an NVIDIA GPU: running recorded launches on one and comparing.

From the ground up; each uses only what stands above it:

================  ================================================================================
``cubin``         PTX → machine code (needs no GPU)
``gpu``           a GPU as a :class:`virtualgpu.device.Device`
``recorded``      a launch with the memory that it starts from and leaves
``agreement``     what two devices made of one launch, compared
``gpu_process``   a GPU in a process of its own, which a bad kernel may spoil
``checked``       the grader's device: checked on the virtual GPU, computed on a real one
``lesson_run``    a lesson's solution on one device, cell by cell; ``lesson_pair`` compares two
``sanitizer``     labelled faults against ``compute-sanitizer``
``nsight``        the virtual GPU's counters against Nsight Compute's
``parts`` …       what ``gpucourse gpu-check`` does, in which order, and what it writes
================  ================================================================================

Nothing here is imported by a lesson.
"""
