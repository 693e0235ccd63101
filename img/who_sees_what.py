"""Draws ``who_sees_what.svg``: which memory a thread reaches, and which wait holds up whom.

Used by "Trees and barriers".
"""

import sketch
from sketch import GREEN, INK, ORANGE, PAPER, SKY, SMALL, VERMILION

ALT = (
    "A grid with two blocks. Each thread has its own local variables. Each block has a shared "
    "memory of its own, which only its threads reach, and syncthreads waits for the threads of "
    "that block alone. All blocks reach the one global memory, where arrays live; only the end "
    "of the launch waits for the whole grid."
)


def block(axes, x: float, number: int) -> None:
    """Draw one block: four threads, its barrier and its shared memory."""
    sketch.box(axes, x, 1.85, 4.4, 3.3, "white", INK)
    sketch.say(axes, x + 0.15, 4.87, f"block {number}", 11, ha="left", weight="bold")
    for t in range(4):
        left = x + 0.15 + 1.05 * t
        sketch.box(axes, left, 3.52, 0.95, 1.1, SKY)
        sketch.say(axes, left + 0.475, 4.32, f"thread {t}", 9)
        sketch.box(axes, left + 0.1, 3.62, 0.75, 0.4)
        sketch.say(axes, left + 0.475, 3.82, "local", SMALL)
    axes.plot([x + 0.15, x + 4.25], [3.05, 3.05], color=VERMILION, linewidth=3)
    sketch.say(axes, x + 2.2, 3.24, "syncthreads(): waits for this block", 9)
    sketch.box(axes, x + 0.15, 2.0, 4.1, 0.75, ORANGE)
    sketch.say(axes, x + 2.2, 2.37, "shared memory of this block", 10)


def draw():
    figure, axes = sketch.sheet(8.2, 4.75, 10)
    sketch.box(axes, 0.15, 1.6, 9.7, 4.05, PAPER, "#BBBBBB")
    sketch.say(axes, 0.35, 5.4, "grid: one launch", 11, ha="left", weight="bold")
    block(axes, 0.4, 0)
    block(axes, 5.2, 1)
    axes.plot([0.15, 9.85], [1.32, 1.32], color=VERMILION, linewidth=3)
    sketch.say(axes, 5, 1.1, "end of the launch: waits for the whole grid", 9)
    sketch.box(axes, 0.15, 0.15, 9.7, 0.75, GREEN)
    sketch.say(
        axes,
        5,
        0.52,
        "global memory: the arrays; every thread reaches it, and it outlives the launch",
        10,
        "white",
        weight="bold",
    )
    return figure


if __name__ == "__main__":
    sketch.save(draw(), __file__, ALT)
