# %% id="progress"
# %load_ext gpucourse
import gpucourse

gpucourse.progress()

# %% [markdown] id="new-here"
# ## New here?
#
# Begin with a kernel: the first puzzle takes two minutes, and its check tells you at once what your
# line did. This is the **core** of the course, about {core_hours} hours with its three projects. Take
# its lessons in this order:
#
# {core}
#
# You needn't finish the puzzles first: solve five or six, go on, and come back to the others. You can
# stop after any lesson. After the core, choose by your goal:
#
# | you want to | take |
# |---|---|
# {goals}
#
# - **You have written kernels already?** Take the [broken kernels]({puzzles}#two-broken-kernels),
#   then the lesson on Numba CUDA with its race reports.
# - **You know C++ and threads?** Take the puzzles, then the lesson on PyCUDA.
#
# In every lesson you're asked what a cell will show before you run it. Press a button, right or
# wrong: only you see your guess, and the explanation waits, folded, below the cell.

# %% [markdown] id="lessons"
# ## The lessons
#
# {lectures} lectures (the puzzles among them) and {projects} projects, about {hours} hours in all.
# Click a title to open it. Every notebook says at its top and its end where it stands in this order,
# and what comes next. Or start with the first one whose "you need" column you can tick off.
#
# {table}
#
# [The gallery](lectures/gallery.ipynb) shows what the course can draw of a kernel;
# [questions that someone always asks](docs/faq.md) have their answers on one page, "How do I choose a
# GPU?" first; [the glossary](docs/glossary.md) has each word in a sentence.

# %% [markdown] id="how-to"
# ## How to work here
#
# - **Shift+Enter** runs the cell you are in and goes on to the next one. A number in brackets at its
#   left says that it has been run, `[*]` that it is running.
# - Run a notebook from the top: its first cell gets the device ready. *Run › Restart Kernel and Run
#   All Cells* does so after a mix-up.
# - In a lecture, `check("…")` tells you at once whether an exercise is right; in a project, the test
#   cells do. `hint("…")` gives you a hint, and once more the next one.
# - Where memory is short, one notebook at a time: *Kernel › Shut Down Kernel* before the next.
# - **On Binder, a kernel that has done nothing for ten minutes is stopped** to free its memory; so it
#   is on many hubs. *No Kernel* stands at the top right then. What you have written stays, variables
#   go: run the notebook again from its first cell, which starts a new kernel.
# - A kernel that dies, a lost connection, a full disk: your work is still there.
#   [What to do](docs/when_something_breaks.md).
# - If something is wrong, `!gpucourse doctor` in a cell says what, and how to mend it.

# %% [markdown] id="about-save"
# ## Take your work with you
#
# Binder forgets everything when a session ends, and ends it some minutes after you have gone. Press
# *Ctrl+S* in each notebook that you have open, run the next cell and click the link: one file, with
# all that you have written and with your progress. Nobody else gets it.

# %% id="save"
import gpucourse

gpucourse.save()

# %% [markdown] id="about-restore"
# Next time, drop that file onto the list of files at the left and run the next cell. It overwrites
# nothing: where this machine has a version of its own, both are kept.

# %% id="restore"
import gpucourse

gpucourse.restore()
