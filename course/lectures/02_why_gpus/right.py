"""Right answers to the exercises of "Why GPUs" in other styles than the lecture's."""

from __future__ import annotations

import math

import numpy as np

from wrong_answers import other_styles

import cupy as cp  # isort: skip  (after the virtual GPU is active)

RIGHT, right = other_styles("02_why_gpus")


@right("in-flight")
def by_floor_division(latency, bandwidth, bytes_each):
    return int(-(-(latency * bandwidth) // bytes_each))


@right("in-flight")
def by_numpy(latency, bandwidth, bytes_each):
    return int(np.ceil(latency * bandwidth / bytes_each))


@right("ferry")
def the_step_written_out(ferry, heat, steps):
    d_heat, hottest = ferry.there(heat), np.empty(steps)
    for step in range(steps):
        d_heat = (cp.concatenate((d_heat[-1:], d_heat[:-1])) + d_heat
                  + cp.concatenate((d_heat[1:], d_heat[:1]))) / 3
        hottest[step] = ferry.back(cp.amax(d_heat))
    return ferry.back(d_heat), hottest


@right("ferry")
def the_hottest_stay_until_the_end(ferry, heat, steps):
    d_heat, d_hottest = ferry.there(heat), cp.zeros(steps)
    for step in range(steps):
        d_heat = (cp.roll(d_heat, 1) + d_heat + cp.roll(d_heat, -1)) / 3
        d_hottest[step] = d_heat.max()
    return ferry.back(d_heat), ferry.back(d_hottest)


@right("crossover")
def by_a_conditional_expression(starts, gpu_each, cpu_each):
    gain = cpu_each - gpu_each
    return None if gain <= 0 else math.ceil(starts * 4e-6 / gain)


@right("crossover")
def walks_to_it(starts, gpu_each, cpu_each):
    if not cpu_each > gpu_each:
        return None
    n = starts * 4e-6 / (cpu_each - gpu_each)
    return int(n) if n == int(n) else int(n) + 1
