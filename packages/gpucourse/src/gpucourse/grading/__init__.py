"""Grading: the student's code in a sandbox, the hidden tests in an oracle that owns the device.

Read in this order:

what comes in
    ``assignment`` the instructor's notebook · ``submission`` reading a file · ``ingest`` what is
    taken from it · ``verdict`` what comes out · ``limits`` every bound
the wall
    ``wire`` what may pass between the two processes · ``cells`` running a cell's text
the student's side
    ``worker`` runs and compiles; :mod:`virtualgpu.devices.remote` asks for device memory and
    launches · ``jax_programs`` what JAX recorded, as data · ``zygote`` forks workers ·
    ``confinement`` takes their rights away
the trusted side
    ``sandbox`` starts all that · ``file_system`` what it sees of the machine · ``student`` the
    oracle's view of a worker, over a ``conversation`` · ``jax_runner`` has programs run elsewhere ·
    ``device_service`` answers its device · ``origins`` of its data ·
    ``oracle`` runs the tests · ``arguments`` of a launch · ``watching`` what is held against a
    kernel
what tests are written in
    ``verbs`` · ``notebook_judge`` the same in a learner's notebook
classes
    ``batch`` many submissions, each in an oracle that ``fork_server`` has ``preloaded`` ·
    ``classroom`` a course directory · ``nbgrader_steps`` and ``feedback`` what nbgrader is given ·
    ``commands`` and ``demo`` what people type
"""
