"""Grading: the student's code in a sandbox, the hidden tests in an oracle that owns the device.

Read in this order:

what comes in
    ``submission/assignment`` the instructor's notebook · ``submission/reading`` a submitted file ·
    ``submission/ingest`` what is taken from it · ``verdict`` what comes out · ``limits`` every
    bound
the wall
    ``sandbox/wire`` what may pass between the two processes · ``oracle/gate`` what of it becomes a
    value in the oracle · ``sandbox/cells`` running a cell's text
the student's side
    ``sandbox/levels`` starts it · ``sandbox/file_system`` what it sees of the machine ·
    ``sandbox/zygote`` forks workers · ``sandbox/confinement`` takes their rights away ·
    ``sandbox/worker`` runs and compiles; :mod:`virtualgpu.devices.remote` asks for device memory
    and launches · ``sandbox/jax_programs`` what JAX recorded, as data
the trusted side
    ``oracle/confined`` gives up the oracle's own rights · ``oracle/student`` a worker to ask, over
    a ``oracle/conversation``, within ``oracle/clocks`` · ``oracle/device_service`` answers its
    device · ``oracle/data_origins`` where data there came from · ``oracle/jax_runner`` has
    programs run elsewhere · ``arguments`` of a launch · ``oracle/judge`` what stands behind the
    verbs · ``oracle/grader`` runs the tests
what tests are written in
    ``testing/verbs`` · ``testing/notebook_judge`` the same in a learner's notebook ·
    ``testing/watching`` what is held against a kernel
classes
    ``classes/batch`` many submissions, each in an oracle that ``oracle/fork_server`` has forked
    after ``oracle/preloaded`` · ``classes/classroom`` a course directory · ``nbgrader/steps`` and
    ``nbgrader/feedback`` what nbgrader is given · ``commands/demo`` and ``commands/grade_class``
    what people type
"""
