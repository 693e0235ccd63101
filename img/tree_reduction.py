"""Draws ``tree_reduction.svg``: eight values become one in three levels, a barrier after each."""

import sketch
from sketch import BLUE, FAINT, INK, NORMAL, ORANGE, SKY, SMALL

ALT = (
    "Eight values 3, 1, 7, 0, 4, 1, 6, 3 in shared memory. In the first step threads 0 to 3 add "
    "what lies four places on: 7, 2, 13, 3. In the second, threads 0 and 1 add what lies two "
    "places on: 20, 5. In the third, thread 0 adds its neighbour: 25. A barrier after "
    "each step sees to it that a sum is complete before another thread reads it."
)
VALUES = [3, 1, 7, 0, 4, 1, 6, 3]


def draw():
    figure, axes = sketch.sheet(8.2, 3.7, 10)
    row, step, y = list(VALUES), 4, 3.75
    while True:
        for k, value in enumerate(row):
            fresh = len(row) < len(VALUES)
            sketch.box(axes, 1.55 + k, y, 0.7, 0.42, ORANGE if fresh else SKY)
            sketch.say(axes, 1.9 + k, y + 0.21, str(value), 11)
        for k in range(len(row), len(VALUES) if len(row) > 1 else 1):
            sketch.box(
                axes, 1.55 + k, y, 0.7, 0.42, "white", FAINT, linewidth=0.8, linestyle=(0, (2, 2))
            )
        if len(row) == 1:
            break
        for k in range(step):
            sketch.arrow(axes, (1.9 + k, y - 0.02), (1.9 + k, y - 0.62), linewidth=1)
            sketch.arrow(axes, (1.9 + k + step, y - 0.02), (1.98 + k, y - 0.62), linewidth=1)
        sketch.say(axes, 0.15, y - 0.28, f"step = {step}", SMALL, ha="left", family="monospace")
        threads = "thread 0" if step == 1 else f"threads 0–{step - 1}"
        sketch.say(axes, 0.15, y - 0.5, threads, SMALL, ha="left")
        row = [row[k] + row[k + step] for k in range(step)]
        y -= 1.06
        axes.plot([0.15, 9.6], [y - 0.1, y - 0.1], color=BLUE, linewidth=1.6, linestyle=(0, (5, 2)))
        sketch.say(axes, 9.6, y - 0.21, "syncthreads()", SMALL, BLUE, ha="right")
        step //= 2
    sketch.say(
        axes, 2.6, y + 0.21, "the sum of the block, after log₂ 8 = 3 steps", NORMAL, INK, ha="left"
    )
    return figure


if __name__ == "__main__":
    sketch.save(draw(), __file__, ALT)
