# %% id="progress"
# %load_ext gpucourse
import gpucourse

gpucourse.progress()

# %% [markdown] id="new-here"
# ## New here?
#
# Begin with a kernel. The first puzzle takes two minutes, and its check tells you at once what your line did. The
# lessons below are the **core** of the course, about {core_hours} hours with its three projects. Take them in this
# order.
#
# {core}
#
# You needn't finish the puzzles first. Solve five or six, go on, and come back to the others. You can stop after any
# lesson. After the core, choose by your goal.
#
# | you want to | take |
# |---|---|
# {goals}
#
# - If you have already written kernels, take the [broken kernels]({puzzles}#two-broken-kernels), then the lesson on
#   Numba CUDA with its race reports.
# - If you know C++ and threads, take the puzzles, and then the lesson on PyCUDA.
#
# Every lesson asks you what a cell will show before you run it. Press a button, even if you aren't sure, because only
# you see your guess. The explanation is folded below the cell.

# %% [markdown] id="lessons"
# ## The lessons
#
# The course has {lectures} lectures, including the puzzles, and {projects} projects, about {hours} hours in all. Click
# a title to open it. Every notebook says at its top and at its end where it is in this order and what comes next. You
# can also start with the first one whose "you need" column lists only things that you know.
#
# {table}
#
# [The gallery](lectures/gallery.ipynb) shows the pictures that the course can draw of a kernel. The [frequent
# questions](docs/faq.md) have their answers on one page, which begins with "How do I choose a GPU?". [The
# glossary](docs/glossary.md) explains each word in a sentence.

# %% [markdown] id="how-to"
# ## How to work here
#
# - **Shift+Enter** runs the cell you are in and goes on to the next one. A number in brackets at its left means that it
#   has been run, and `[*]` means that it is running.
# - Run a notebook from the top, because its first cell gets the device ready. After a mix-up, use *Run › Restart Kernel
#   and Run All Cells*.
# - In a lecture, `check("…")` tells you at once whether an exercise is right, and in a project the test cells do.
#   `hint("…")` gives you a hint, and the next one when you call it again.
# - If memory is short, use one notebook at a time, and choose *Kernel › Shut Down Kernel* before you open the next.
# - **On Binder, a kernel that has done nothing for ten minutes is stopped** to free its memory, as on many hubs. The
#   top right corner then shows *No Kernel*. What you have written is kept, but variables are lost, so run the notebook
#   again from its first cell, which starts a new kernel.
# - If a kernel dies, the connection is lost or the disk is full, your work is still there. This page says [what to
#   do](docs/when_something_breaks.md).
# - If something is wrong, run `!gpucourse doctor` in a cell. It tells you what is wrong and how to fix it.

# %% [markdown] id="about-save"
# ## Take your work with you
#
# Binder deletes everything when a session ends, some minutes after you have gone. Press *Ctrl+S* in each notebook that
# you have open, run the next cell and click the link. You get one file with all that you have written and with your
# progress, and nobody else gets it.

# %% id="save"
import gpucourse

gpucourse.save()

# %% [markdown] id="about-restore"
# Next time, drop that file onto the list of files at the left and run the next cell. It overwrites nothing. If this
# machine has another version of a notebook, both are kept.

# %% id="restore"
import gpucourse

gpucourse.restore()
