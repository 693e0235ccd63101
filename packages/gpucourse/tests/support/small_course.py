"""A course of one lecture and one project, small enough to break on purpose."""

from __future__ import annotations

from pathlib import Path

LECTURE = "01_small_steps"
PROJECT = "02_count_them"

TOML = f"""\
[course]
title = "A small course"

[[lecture]]
id = "{LECTURE}"
title = "First steps"
minutes = 10
prerequisites = []
objectives = ["double a number"]

[[project]]
id = "{PROJECT}"
title = "Count them"
minutes = 20
prerequisites = ["{LECTURE}", "a pencil"]
objectives = ["count to ten"]
points = 5
"""

LECTURE_SOURCE = """\
# %% id="start"
# %load_ext gpucourse
from gpucourse.exercises.checks import lecture

check, hint = lecture("01_small_steps")

# %% [markdown] id="why" tags=["predict"]
# ## Why two?
# Because one is *not* enough.

# %% id="too-far-guess"
from gpucourse.exercises.predictions import predictions

predict = predictions("01_small_steps")
predict("too-far", "1", "an error")

# %% id="too-far" raises="ZeroDivisionError"
1 / 0

# %% [markdown] id="too-far-why" tags=["why"]
# An error: nothing is shared out among nobody.

# %% id="double-exercise" tags=["exercise"]
def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %% id="double-check"
check("double", double)

# %% id="half-exercise" tags=["exercise"]
half = None
### BEGIN SOLUTION
half = 0.5
### END SOLUTION
check("half", half)

# %% [markdown] id="in-the-room" tags=["room"]
# People stall at the half.
"""

LECTURE_PREDICTIONS = """\
[too-far]
right = "an error"

[too-far.wrong]
1 = "Nought goes into one as often as you like, which is no number."
"""

LECTURE_CHECKS = '''\
"""Checks of "First steps"."""

from gpucourse.exercises.checks import exercise, require


@exercise("double", hints=("The idea: add it to itself.", "The shape: `return 2 * …`"))
def double(answer):
    """Every number doubled."""
    for x in (0, 1, -3):
        require(answer(x) == 2 * x, f"double({x}) is {answer(x)}", look="the factor")


@exercise("half", hints=("The idea: one over two.", "The shape: `0.…`"))
def half(answer):
    """One half."""
    require(answer == 0.5, f"{answer} is not one half")
'''

PROJECT_SOURCE = """\
# %% id="start" role="setup"
# %load_ext gpucourse
from gpucourse.exercises.checks import project

hint = project("02_count_them")

# %% [markdown] id="task"
# Count, and count again.

# %% id="count" role="solution"
def count(things):
    \"\"\"How many there are.\"\"\"
    ### BEGIN SOLUTION
    return len(things)
    ### END SOLUTION


def twice(things):
    for thing in things:
        if thing:
            ### BEGIN SOLUTION
            return 2 * count(things)
            ### END SOLUTION

# %% id="play"
print("try things out here")

# %% id="test-count" role="test" points=3 starter="NotImplementedError"
assert count([1, 2]) == 2
### BEGIN HIDDEN TESTS
assert count([]) == 0
### END HIDDEN TESTS

# %% id="test-twice" role="test" points=2 starter="NotImplementedError"
### BEGIN HIDDEN TESTS
assert twice([1, 2, 3]) == 6
### END HIDDEN TESTS
assert twice([1]) == 2
"""

PROJECT_CHECKS = '''\
"""Hints of "Count them"."""

from gpucourse.exercises.checks import hints

COUNT = hints("count", "The idea: Python counts for you.", "The shape: `len(…)`")
'''

WELCOME = """\
# %% id="progress"
# %load_ext gpucourse
import gpucourse

gpucourse.progress()

# %% [markdown] id="new-here"
# {core}

# %% [markdown] id="lessons"
# {table}
"""

FILES = {
    "course/course.toml": TOML,
    "course/welcome.py": WELCOME,
    f"course/lectures/{LECTURE}/notebook.py": LECTURE_SOURCE,
    f"course/lectures/{LECTURE}/checks.py": LECTURE_CHECKS,
    f"course/lectures/{LECTURE}/predictions.toml": LECTURE_PREDICTIONS,
    f"course/projects/{PROJECT}/notebook.py": PROJECT_SOURCE,
    f"course/projects/{PROJECT}/checks.py": PROJECT_CHECKS,
}


def write_course(root: Path, changes: dict[str, tuple[str, str]] | None = None) -> Path:
    """Write the course under ``root``; ``changes`` maps a file to (old text, new text)."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, (old, new) in (changes or {}).items():
        edit(root / name, old, new)
    return root


def edit(path: Path, old: str, new: str) -> None:
    """Replace ``old``, which must be there, by ``new``."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {path}"
    path.write_text(text.replace(old, new), encoding="utf-8")
