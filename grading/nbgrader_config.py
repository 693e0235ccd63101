"""nbgrader's configuration for this course. Run nbgrader in this folder.

The traits that matter are set by gpucourse.grading.nbgrader.steps.configure, which also says why:
what was submitted is rebuilt before it is read, student code runs in a sandbox and hidden tests
outside it, and feedback shows no hidden test.
"""

c = get_config()  # noqa: F821

c.CourseDirectory.course_id = "gpucourse"

# Submissions graded at a time; 0 means one for each core.
c.GradeWithOracle.workers = 0
# Only on a machine that cannot isolate code, for submissions that you trust with your files.
c.GradeWithOracle.unsafe = False
# Settings of the grader go here, above configure(): it reads them.
# Bounds on a submission: what each means, and the others, in gpucourse/grading/limits.py.
# c.GradeWithOracle.limits = {"test_seconds": 120.0, "notebook_bytes": 20_000_000}

# nbgrader carries on with its own configuration when this file fails, and would then run
# submissions with all your rights: so any failure ends the command.
try:
    from gpucourse.grading.nbgrader.steps import configure

    configure(c)
except Exception as error:
    raise SystemExit(f"nbgrader_config.py: {type(error).__name__}: {error}") from None
