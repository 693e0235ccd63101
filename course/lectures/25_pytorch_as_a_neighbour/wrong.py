"""Wrong answers to the exercises of "PyTorch as a neighbour", with what the check must say of each."""

from __future__ import annotations

from functools import partial

import numpy as np

from wrong_answers import collection, of_the_lecture, swap

LECTURE = "25_pytorch_as_a_neighbour"
WRONG, wrong = collection(LECTURE)

# --- collect ------------------------------------------------------------------------------------

collect = partial(wrong, "collect")

collect("illegal address", "no guard")(swap("    if i < x.size:\n        left = int(x[i] // 1)\n        share = x[i] - left\n        g_left",
                                            "    if True:\n        left = int(x[i] // 1)\n        share = x[i] - left\n        g_left"))
collect(r"derivative with respect to x of hit .*g_right - g_left", "the sign is lost")(swap("(g_right - g_left)", "(g_left - g_right)"))
collect(r"derivative with respect to x of hit .*charge", "the charge is left out")(swap("charge[i] * (g_right - g_left)", "g_right - g_left"))
collect(r"derivative with respect to charge of hit", "the shares swapped")(
    swap("g_left * (1 - share) + g_right * share", "g_left * share + g_right * (1 - share)"))
collect(r"derivative with respect to charge of hit", "the nearest strip alone")(
    swap("g_left * (1 - share) + g_right * share", "g_left if share < 0.5 else g_right"))
collect(r"at -\d.*which of them exist|illegal address", "the last strip for the one before the first")(
    swap("g_left = g[left] if 0 <= left < g.size else 0.0", "g_left = g[left] if left < g.size else 0.0"))
collect(r"derivative with respect to .* of hit", "cut for floor")(
    swap("    if i < x.size:\n        left = int(x[i] // 1)\n        share = x[i] - left\n        g_left",
         "    if i < x.size:\n        left = int(x[i])\n        share = x[i] - left\n        g_left"))
collect(r"derivative with respect to .* of hit", "the strips of the example")(
    swap("g_right = g[left + 1] if 0 <= left + 1 < g.size else 0.0",
         "g_right = g[left + 1] if 0 <= left + 1 < min(24, g.size) else 0.0"))
collect("was never written", "by charge is forgotten")(
    swap("        by_charge[i] = g_left * (1 - share) + g_right * share", ""))
collect("the work is not shared", "one thread does it all")(
    swap("    i = cuda.grid(1)\n    if i < x.size:\n        left = int(x[i] // 1)\n        share = x[i] - left\n        g_left",
         "    for i in range(x.size if cuda.grid(1) == 0 else 0):\n        left = int(x[i] // 1)\n        share = x[i] - left\n        g_left"))
collect("the derivatives are right, but the kernel uses .* atomics", "by a maximum")(
    swap("by_x[i] = charge[i] * (g_right - g_left)", "cuda.atomic.max(by_x, i, charge[i] * (g_right - g_left))"))
collect("was never written", "blocks of 64")(
    swap("    i = cuda.grid(1)\n    if i < x.size:\n        left = int(x[i] // 1)\n        share = x[i] - left\n        g_left",
         "    i = 64 * cuda.blockIdx.x + cuda.threadIdx.x\n    if i < x.size:\n        left = int(x[i] // 1)\n        share = x[i] - left\n        g_left"))
collect("the kernel changes x, which is an input", "the hits moved")(
    swap("        by_x[i] = charge[i] * (g_right - g_left)", "        x[i] = left\n        by_x[i] = charge[i] * (g_right - g_left)"))


@collect("not a kernel")
def on_the_host(x, charge, g, by_x, by_charge):
    left = np.floor(x).astype(int)
    by_x[:] = charge * (g[left + 1] - g[left])


# --- rule ---------------------------------------------------------------------------------------

rule = partial(wrong, "rule")

rule("backward returns 2 derivatives for 3 inputs.*None for n", "n has none")(
    swap("return by_x, by_charge, None", "return by_x, by_charge"))
rule("by_x comes first", "the other way round")(
    swap("return by_x, by_charge, None", "return by_charge, by_x, None"))
rule("backward returns a derivative for n", "a slope for n")(
    swap("return by_x, by_charge, None", "return by_x, by_charge, 0.0"))
rule("the derivative with respect to charge is None", "by x alone")(
    swap("return by_x, by_charge, None", "return by_x, None, None"))
rule("the g that backward receives", "g is taken for 1")(
    swap("collect(x, charge, g)", "collect(x, charge, g * 0 + 1)"))
rule("the g that backward receives", "g without its sign")(swap("collect(x, charge, g)", "collect(x, charge, abs(g))"))
rule("the saved inputs", "kept the wrong way round")(
    swap("ctx.save_for_backward(x, charge)", "ctx.save_for_backward(charge, x)"))
rule("the derivative with respect to x is|not enough values|ValueError", "keeps nothing")(
    swap("    ctx.save_for_backward(x, charge)\n", ""))
rule("save_for_backward gets .*only arrays", "keeps n among the arrays")(
    swap("ctx.save_for_backward(x, charge)", "ctx.save_for_backward(x, charge, _n)"),
    swap("x, charge = ctx.saved_tensors", "x, charge, _ = ctx.saved_tensors"))
rule("the saved inputs", "charges of 1")(swap("collect(x, charge, g)", "collect(x, charge * 0 + 1, g)"))
rule("the saved inputs", "keeps the first for all")(
    swap("def setup_context(ctx, inputs, output):\n    x, charge, _n = inputs\n    ctx.save_for_backward(x, charge)",
         "kept = []\n\n\ndef setup_context(ctx, inputs, output):\n    x, charge, _n = inputs\n    "
         "kept.extend((x, charge))\n    ctx.save_for_backward(*kept[:2])"),)
rule("the backward pass makes 2 launches, not 1", "one launch for each slope")(
    swap("by_x, by_charge = collect(x, charge, g)",
         "by_x, by_charge = collect(x, charge, g)[0], collect(x, charge, g)[1]"))


def _numpy_s(ctx, g, show=None):
    x, charge, g = (np.asarray(one) for one in (*ctx.saved_tensors, g))
    if show:
        show(x, charge, np.ascontiguousarray(g))
    padded = np.concatenate([np.zeros(4), g, np.zeros(4)])
    left = np.floor(x).astype(int)
    here, there = padded[left + 4], padded[left + 5]
    return charge * (there - here), here * (1 - (x - left)) + there * (x - left), None


def _keeping(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])


rule("the backward pass makes 0 launches", "numpy_on_the_host")(_keeping, _numpy_s)
rule("computed on the host, not by a kernel", "numpy, and a launch for show")(
    _keeping, lambda ctx, g: _numpy_s(ctx, g, of_the_lecture(LECTURE, "collect_arrays")))
