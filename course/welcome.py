# %% id="progress"
# %load_ext gpucourse
import gpucourse

gpucourse.progress()

# %% [markdown] id="new-here"
# ## New here?
#
# Begin with a kernel. The first puzzle takes two minutes, and its check tells you at once what your line did. The
# lessons below are the **core** of the course, which takes about {core_hours} hours with its three projects. Take them
# in this order.
#
# {core}
#
# You needn't finish the puzzles first. Solve five or six of them, continue with the next lesson, and come back to the
# others later. You can stop after any lesson. After the core, choose lessons by your goal.
#
# | if you want to | take |
# |---|---|
# {goals}
#
# - If you have already written kernels, solve the [broken kernels]({puzzles}#two-broken-kernels), then take the lesson
#   on Numba CUDA, which shows the race reports.
# - If you know C++ and threads, solve the puzzles, and then take the lesson on PyCUDA.
#
# Every lesson asks you to predict the output of a cell before you run it. Press a button even if you aren't sure,
# because only you see your guess. The explanation is folded up below the next cell, whose output you predicted.

# %% [markdown] id="lessons"
# ## The lessons
#
# The course has {lectures} lectures, including the puzzles, and {projects} projects, and takes about {hours} hours in
# all. Click a title to open it. Every notebook says at its top and at its end where it is in this order and what comes
# next. You can also start with the first notebook for which you know everything in the "you need" column.
#
# {table}
#
# [The gallery](lectures/gallery.ipynb) shows the pictures that the course can draw of a kernel. [The frequent
# questions](docs/faq.md) are answered on one page, beginning with "How do I choose a GPU?". [The
# glossary](docs/glossary.md) explains each term in one sentence.

# %% [markdown] id="how-to"
# ## How to work here
#
# - **Shift+Enter** runs the cell you are in and goes on to the next one. A number in brackets to the left of a cell
#   means that it has been run, and `[*]` means that it is still running.
# - Run each notebook from the top, because its first cell prepares the device. If the cells get out of order, use *Run
#   › Restart Kernel and Run All Cells*.
# - In a lecture, `check("…")` tells you at once whether your answer to an exercise is right. In a project, the test
#   cells do. `hint("…")` gives you a hint, and the next hint when you call it again.
# - If your machine has little memory, use one notebook at a time, and choose *Kernel › Shut Down Kernel* before you
#   open the next.
# - **On Binder, as on many hubs, a kernel that has done nothing for ten minutes is stopped** to free its memory. The
#   top right corner then shows *No Kernel*. Your text is kept, but variables are lost, so run the notebook again from
#   its first cell, which starts a new kernel.
# - If a kernel dies, the connection is lost or the disk is full, your work is still there. This page says [what to
#   do](docs/when_something_breaks.md).
# - If something is wrong, run `!gpucourse doctor` in a cell. It tells you what the problem is and how to fix it.

# %% [markdown] id="about-save"
# ## Take your work with you
#
# Binder deletes everything some minutes after your session ends. Before you leave, press *Ctrl+S* in each notebook that
# you have open, run the next cell and click the link. You get one file with everything that you have written and with
# your progress. Nobody else gets this file.

# %% id="save"
import gpucourse

gpucourse.save()

# %% [markdown] id="about-restore"
# Next time, drop that file onto the file browser at the left and run the next cell. It overwrites nothing. If this
# machine has a different version of a notebook, both are kept.

# %% id="restore"
import gpucourse

gpucourse.restore()
