"""Grader: a sandbox runs the student's code, an oracle owns the device and runs hidden tests.

Read in this order:

input and result
    ``submission/assignment`` the instructor's notebook · ``submission/reading`` reading a submitted
    file · ``submission/ingest`` extracting its answers · ``verdict`` the result · ``limits`` all
    limits
boundary between the two processes
    ``sandbox/wire`` the messages · ``oracle/gate`` conversion of received data to values in the
    oracle · ``sandbox/cells`` execution of a cell's source
student's side
    ``sandbox/levels`` starts it · ``sandbox/file_system`` the part of the machine that it can see ·
    ``sandbox/zygote`` forks workers · ``sandbox/confinement`` removes their rights ·
    ``sandbox/worker`` runs and compiles; :mod:`virtualgpu.devices.remote` requests device memory
    and launches · ``sandbox/jax_programs`` traced JAX functions as data
trusted side
    ``oracle/confined`` gives up the oracle's own rights · ``oracle/student`` sends requests to a
    worker, through ``oracle/conversation`` and within the times of ``oracle/clocks`` ·
    ``oracle/device_service`` serves its device requests · ``oracle/data_origins`` origin of data on
    the device · ``oracle/jax_runner`` has JAX programs run elsewhere · ``arguments`` of a launch ·
    ``oracle/judge`` implements the check functions · ``oracle/grader`` runs the tests
functions for writing tests
    ``testing/verbs`` · ``testing/notebook_judge`` implements them in a learner's notebook ·
    ``testing/watching`` rules that every kernel must follow
classes
    ``classes/batch`` many submissions, each in an oracle that ``oracle/fork_server`` forks after
    ``oracle/preloaded`` · ``classes/classroom`` a course directory · ``nbgrader/steps`` and
    ``nbgrader/feedback`` extensions of nbgrader · ``commands/demo`` and ``commands/grade_class``
    the commands
"""
