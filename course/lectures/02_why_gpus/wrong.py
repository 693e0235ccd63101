"""Wrong answers to the exercises of "Why GPUs", with what the check must say of each."""

from __future__ import annotations

import math

import numpy as np

from wrong_answers import collection, swap

import cupy as cp  # isort: skip  (after the virtual GPU is active)

WRONG, wrong = collection("02_why_gpus")
START = 4e-6

# --- in-flight ----------------------------------------------------------------------------------


@wrong("in-flight", "round up to the next whole number")
def rounds_down(latency, bandwidth, bytes_each):
    return int(latency * bandwidth / bytes_each)


@wrong("in-flight", "the next whole number")
def does_not_round(latency, bandwidth, bytes_each):
    return latency * bandwidth / bytes_each


@wrong("in-flight", "comes out even.*one too many")
def always_one_more(latency, bandwidth, bytes_each):
    return int(latency * bandwidth / bytes_each) + 1


@wrong("in-flight", "the number of bytes in flight")
def counts_bytes(latency, bandwidth, bytes_each):
    return math.ceil(latency * bandwidth)


@wrong("in-flight", "latency times bandwidth")
def divides_by_latency(latency, bandwidth, bytes_each):
    return math.ceil(bandwidth / latency / bytes_each)


@wrong("in-flight", "returns nothing")
def forgets_to_return(latency, bandwidth, bytes_each):
    math.ceil(latency * bandwidth / bytes_each)


@wrong("in-flight", "the next whole number")
def adds_95_hundredths(latency, bandwidth, bytes_each):
    return int(latency * bandwidth / bytes_each + 0.95)


wrong("in-flight", "1,000,001 bytes must be in flight, and that takes 2 threads.*next whole number",
      "adds 999 thousandths")(
    swap("math.ceil(latency * bandwidth / bytes_each)",
         "int(latency * bandwidth / bytes_each + 0.999)"))


@wrong("in-flight", "latency times bandwidth")
def the_latency_of_the_example(latency, bandwidth, bytes_each):
    return math.ceil(2.5e-7 * bandwidth / bytes_each - 1e-9)

# --- ferry --------------------------------------------------------------------------------------


def smooth(d_heat):
    return (cp.roll(d_heat, 1) + d_heat + cp.roll(d_heat, -1)) / 3


@wrong("ferry", "bytes crossed in .* trips where .*inside the loop")
def there_and_back(ferry, heat, steps):
    hottest = np.zeros(steps)
    for step in range(steps):
        heat = ferry.back(smooth(ferry.there(heat)))
        hottest[step] = heat.max()
    return heat, hottest


@wrong("ferry", "only .* bytes went by the ferry")
def stays_at_home(ferry, heat, steps):
    hottest = np.zeros(steps)
    for step in range(steps):
        heat = (np.roll(heat, 1) + heat + np.roll(heat, -1)) / 3
        hottest[step] = heat.max()
    return heat, hottest


@wrong("ferry", "only .* bytes went by the ferry")
def smuggles(ferry, heat, steps):
    hottest = np.zeros(steps)
    d_heat = cp.asarray(heat)
    for step in range(steps):
        d_heat = smooth(d_heat)
        hottest[step] = float(d_heat.max())
    return d_heat.get(), hottest


def fetching(hottest_of):
    """The heat stays on the device; of each step the hottest one is fetched in this way."""

    def sail(ferry, heat, steps):
        hottest = np.zeros(steps)
        d_heat = ferry.there(heat)
        for step in range(steps):
            d_heat = smooth(d_heat)
            hottest[step] = hottest_of(ferry, d_heat)
        return ferry.back(d_heat), hottest

    return sail


wrong("ferry", "bytes crossed in .* trips where", "fetches_all_to_find_the_hottest")(
    fetching(lambda ferry, d_heat: ferry.back(d_heat).max()))
wrong("ferry", "bytes were transferred without the ferry.*Find the maximum on the device",
      "fetches_past_the_ferry")(fetching(lambda ferry, d_heat: d_heat.get().max()))
for name, hottest_of in (
    ("fetches_a_list", lambda ferry, d_heat: max(d_heat.tolist())),
    ("fetches_by_asnumpy", lambda ferry, d_heat: cp.asnumpy(d_heat).max()),
    ("fetches_number_by_number", lambda ferry, d_heat: max(float(one) for one in d_heat)),
):
    wrong("ferry", "bytes were transferred without the ferry", name)(fetching(hottest_of))


@wrong("ferry", "the device did 0 operations for .* steps, so NumPy computed the steps")
def rides_the_ferry_for_show(ferry, heat, steps):
    heat, hottest = stays_at_home(ferry, heat, steps)
    return ferry.back(ferry.there(heat)), hottest


@wrong("ferry", "computed on the host, not by a kernel")
def the_device_is_busy_for_show(ferry, heat, steps):
    hottest, decoy = np.zeros(steps), ferry.there(heat)
    for step in range(steps):
        smooth(decoy)
        heat = (np.roll(heat, 1) + heat + np.roll(heat, -1)) / 3
        hottest[step] = heat.max()
    ferry.back(decoy)
    return heat, hottest


@wrong("ferry", "computed on the host, not by a kernel")
def fetches_before_it_is_busy_for_show(ferry, heat, steps):
    decoy = ferry.there(heat)
    heat = ferry.back(decoy)
    for _ in range(steps):
        decoy = smooth(decoy)
    return stays_at_home(ferry, heat, steps)


@wrong("ferry", "the hottest ones were computed on the host")
def finds_the_hottest_on_the_host(ferry, heat, steps):
    d_heat, (_, hottest) = ferry.there(heat), stays_at_home(ferry, heat, steps)
    for _ in range(steps):
        d_heat = smooth(d_heat)
        ferry.back(d_heat.max())
    return ferry.back(d_heat), hottest


wrong("ferry", "the array that was passed to `relax` has changed.*with `heat\\[:\\] =", "over what came in")(
    swap("heat = ferry.back(d_heat)", "heat[:] = ferry.back(d_heat)"))
wrong("ferry", "the temperatures are a cupy.ndarray", "leaves it there")(
    swap("heat = ferry.back(d_heat)\n    return heat", "return d_heat"))


@wrong("ferry", "the hottest ones are wrong.*the maximum after it")
def the_maximum_before_the_step(ferry, heat, steps):
    hottest = np.zeros(steps)
    d_heat = ferry.there(heat)
    for step in range(steps):
        hottest[step] = ferry.back(d_heat.max())
        d_heat = smooth(d_heat)
    return ferry.back(d_heat), hottest


@wrong("ferry", "the temperatures are wrong")
def smooths_nothing(ferry, heat, steps):
    return heat, np.zeros(steps)


@wrong("ferry", "hottest ones are a builtins.list.*convert the list")
def notes_them_in_a_list(ferry, heat, steps):
    d_heat, hottest = ferry.there(heat), []
    for _ in range(steps):
        d_heat = smooth(d_heat)
        hottest.append(float(ferry.back(d_heat.max())))
    return ferry.back(d_heat), hottest


# --- crossover ----------------------------------------------------------------------------------


@wrong("crossover", "GPU loses at any size.*so return None")
def always_a_size(starts, gpu_each, cpu_each):
    if gpu_each == cpu_each:
        return 10**9
    return math.ceil(abs(starts * START / (cpu_each - gpu_each)))


@wrong("crossover", "n - 1 does not satisfy this")
def rounds_to_the_nearest_below(starts, gpu_each, cpu_each):
    gain = cpu_each - gpu_each
    return int(starts * START / gain) if gain > 0 else None


@wrong("crossover", "both take the same time.*one too many where the division comes out even")
def always_one_more_element(starts, gpu_each, cpu_each):
    gain = cpu_each - gpu_each
    return int(starts * START / gain) + 1 if gain > 0 else None


@wrong("crossover", "it returns .* instead of ")
def forgets_what_the_gpu_takes(starts, gpu_each, cpu_each):
    return math.ceil(starts * START / cpu_each) if cpu_each > gpu_each else None


@wrong("crossover", "it returns .* instead of ")
def one_start_only(starts, gpu_each, cpu_each):
    gain = cpu_each - gpu_each
    return math.ceil(START / gain) if gain > 0 else None


@wrong("crossover", "each of them takes START seconds")
def takes_starts_for_seconds(starts, gpu_each, cpu_each):
    gain = cpu_each - gpu_each
    return math.ceil(starts / gain) if gain > 0 else None


@wrong("crossover", "returns None, but the GPU wins from")
def never_says_when(starts, gpu_each, cpu_each):
    return None


wrong("crossover", "ZeroDivisionError|division", "does not expect a tie")(
    swap("gain = cpu_each - gpu_each  # what each element brings in\n    if gain <= 0", "if cpu_each < gpu_each"),
    swap("START / gain)", "START / (cpu_each - gpu_each))"))


@wrong("crossover", "it returns .* instead of ")
def twenty_ns_on_the_cpu(starts, gpu_each, cpu_each):
    if cpu_each <= gpu_each:
        return None
    return math.ceil(starts * START / (1.13e-9 - 4e-10))
