"""Draws ``memory_hierarchy.svg``: what lies between a thread and the host's memory.

Sizes are of one GPU, to give the scale: NVIDIA H100 SXM5 (NVIDIA H100 Tensor Core GPU Architecture
white paper; CUDA C++ Programming Guide, "Compute Capabilities", 9.0).
"""

import sketch
from sketch import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, SMALL

ALT = (
    "A pyramid of memories, from small and near to large and far: the registers of a thread, at "
    "most 255 of 4 bytes each; the shared memory of a block, up to 227 kB; the L2 cache of the "
    "whole GPU, 50 MB; global memory, 80 GB at 3.3 TB per second; and the memory of the host, "
    "behind a PCIe link of 64 GB per second. Each step down is larger, slower and seen by more "
    "threads."
)
LEVELS = (
    ("registers", "one thread", "up to 255 × 4 bytes", SKY, 2.0),
    ("shared memory", "one block", "up to 227 kB", ORANGE, 2.9),
    ("L2 cache", "the whole GPU, by itself", "50 MB", GREEN, 3.8),
    ("global memory", "the whole GPU, and the host by copies", "80 GB, 3.3 TB/s", PURPLE, 4.7),
    ("host memory", "the host", "behind PCIe, 64 GB/s a way", "#8FB8DE", 5.6),
)


def draw():
    figure, axes = sketch.sheet(8.2, 3.7, 10)
    sketch.say(axes, 0.35, 4.25, "seen by", SMALL, "#555555", ha="left")
    sketch.say(axes, 9.65, 4.25, "size (an H100)", SMALL, "#555555", ha="right")
    for level, (name, seen, size, fill, width) in enumerate(LEVELS):
        y = 3.45 - level * 0.72 - (0.22 if level == 4 else 0)
        sketch.box(axes, 5 - width / 2, y, width, 0.54, fill)
        sketch.say(axes, 5, y + 0.27, name, 11, weight="bold")
        sketch.say(axes, 0.35, y + 0.27, seen.replace(", ", ",\n"), SMALL, ha="left")
        sketch.say(axes, 9.65, y + 0.27, size.replace(", ", ",\n"), SMALL, ha="right")
    axes.plot([0.3, 9.7], [1.19, 1.19], color=BLUE, linewidth=1.6, linestyle=(0, (4, 3)))
    sketch.say(axes, 9.65, 1.05, "above: on the GPU", SMALL, BLUE, ha="right")
    sketch.arrow(axes, (0.16, 3.9), (0.16, 0.3))
    sketch.say(axes, 5, 0.14, "each step down: larger, slower, shared by more", SMALL, INK)
    return figure


if __name__ == "__main__":
    sketch.save(draw(), __file__, ALT)
