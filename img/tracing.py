"""Draws ``tracing.svg``: what ``jax.jit`` makes of a function, from Python to machine code."""

import sketch
from sketch import GREEN, INK, NORMAL, ORANGE, SKY, SMALL, VERMILION, YELLOW

ALT = (
    "Four stages from left to right. Your Python function is traced into a jaxpr, a list of three "
    "operations with types and shapes; after that there is no Python any more, and the value of a "
    "global is a number in the list. XLA fuses the list into one loop, and a division by 2 is now "
    "a product with 0.5. LLVM compiles the loop for a CPU or a GPU. All of it happens at the first "
    "call with new types, shapes or static values; every other call goes straight to the machine "
    "code."
)
STAGES = (
    ("your function", SKY, ("def energy(m, v):", "  return m * v**2 / 2")),
    ("jaxpr", ORANGE, ("c = integer_pow v", "d = mul m c", "e = div d 2.0:f32[]")),
    ("XLA: one loop", GREEN, ("fused f32[3]:", "  v*v, *m, *0.5")),
    ("machine code", YELLOW, ("x86 or ARM,", "or a GPU's (PTX)")),
)
STEPS = ("traces", "fuses", "LLVM")
WIDTH, GAP = 1.98, 0.66


def draw():
    figure, axes = sketch.sheet(8.2, 2.6, 10.3)
    for k, (name, fill, lines) in enumerate(STAGES):
        x = 0.15 + k * (WIDTH + GAP)
        sketch.say(axes, x + WIDTH / 2, 2.98, name, NORMAL, weight="bold")
        sketch.box(axes, x, 1.75, WIDTH, 1.02, fill)
        for row, line in enumerate(lines):
            sketch.say(
                axes, x + 0.1, 2.52 - 0.28 * row, line, 7, INK, ha="left", family="monospace"
            )
        if k:
            sketch.arrow(axes, (x - GAP + 0.05, 2.26), (x - 0.05, 2.26))
            sketch.say(axes, x - GAP / 2, 2.45, STEPS[k - 1], SMALL)
    gone = 0.15 + WIDTH + GAP / 2
    axes.plot([gone, gone], [1.15, 2.15], color=VERMILION, linewidth=1.4, linestyle=(0, (4, 3)))
    sketch.say(
        axes,
        gone + 0.12,
        1.4,
        "no Python beyond this line: no values, no print, no loops or ifs, no names of globals",
        SMALL,
        VERMILION,
        ha="left",
    )
    axes.plot([0.15, 10.05], [0.92, 0.92], color=INK, linewidth=0.9)
    sketch.say(
        axes,
        5.1,
        0.68,
        "all of this: at the first call with new types, shapes or static values",
        SMALL,
    )
    sketch.arrow(axes, (0.15, 0.3), (8.05, 0.3), linewidth=1.6)
    sketch.say(axes, 8.15, 0.3, "every other call", SMALL, ha="left")
    return figure


if __name__ == "__main__":
    sketch.save(draw(), __file__, ALT)
