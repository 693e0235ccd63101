"""What the text of "Why GPUs, and when not" says is what its cells show."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from numba import cuda

from gpucourse.exercises.checks import load_lesson

pytestmark = pytest.mark.rehearsal


def test_the_loop_wins_by_far(shown):
    angles = re.findall(r"-?\d\.\d{6}", shown["the-question"].text)
    assert len(angles) == 2 and angles[0] == angles[1]
    assert len(shown["the-question"].names["launched"]) == 5 * 1000
    assert "at least 20 ms (arithmetic: no GPU ran)" in shown["the-race"].text
    # "By far", also on a computer ten times as slow as this one.
    assert shown["the-race"].names["python_s"] < 0.02 / 5


def test_a_hundred_thousand_threads_fill_the_memory(shown):
    reached = re.findall(r"([\d.]+) GB/s", shown["throughput"].text)
    assert reached == ["0.035", "3.510", "351.000", "3350.000"]
    assert round(400 / 1.755e9 * 1e6, 2) == 0.23
    assert 132 * 2048 == 270_336
    assert "numbers of 8 bytes: 95442" in shown["in-flight-exercise"].text


def test_thirty_two_pendulums_cost_as_one_and_thirty_three_as_two_warps(shown):
    issued = shown["warps"].names["issued"]
    assert issued[32] < 1.1 * issued[1]
    assert 1.9 < issued[33] / issued[1] < 2.2
    assert 1.9 < issued[64] / issued[1] < 2.2


def test_the_kernel_follows_the_pendulum(shown):
    names = shown["warps"].names
    angles = np.linspace(0.2, 1.0, 33)
    device_angles = names["cuda"].to_device(angles)
    out = names["cuda"].device_array(33)
    names["swing_each"][2, 32](device_angles, 100, out)
    assert np.allclose(out.copy_to_host(), names["swing"](angles, 0.0, 100, np), rtol=1e-12)


def test_only_the_first_warp_parts(shown):
    names = shown["divergence"].names
    text = str(names["gpucourse"].timeline(names["root_or_zero"], 1, 64, names["mixed"]))
    assert "in 0 of them some of its lanes are masked off" in text.split("warp 1:")[1]
    assert re.search(r"warp 0: \d+ steps .* in [1-9] of them", text)


def test_a_terabyte_is_refused_at_once(shown):
    assert "Out of memory allocating 1,099,511,627,776 bytes" in str(shown["too-much"].error)


def test_the_link_takes_nineteen_parts_of_twenty(shown):
    text = shown["transfer"].text
    assert "1,000,000 numbers: 16,000,000 bytes in 2 trips" in text
    shares = [int(share) for share in re.findall(r"(\d+)%", text)]
    assert min(shares[:2]) >= 30 and max(shares[2:]) <= 5
    assert 3.35e12 / 64e9 > 50  # "fifty times narrower"


def test_carrying_once_is_fifty_times_less(shown):
    carried = re.findall(r"([\d,]+) bytes in +(\d+) trips", shown["ferry-exercise"].text)
    assert carried == [("8,000,000", "100"), ("160,400", "52")]


def test_numpy_may_ask_for_a_maximum_itself(shown):
    """As the note for the room says."""

    def relax(ferry, heat, steps):
        hottest = np.zeros(steps)
        d_heat = ferry.there(heat)
        for step in range(steps):
            d_heat = shown["ferry-exercise"].names["smooth"](d_heat)
            hottest[step] = d_heat.max()
        return ferry.back(d_heat), hottest

    outcome = load_lesson("02_why_gpus").outcome("ferry", relax)
    assert outcome.passed, outcome.message


def test_a_ferry_may_carry_for_a_kernel_of_ones_own(shown):
    @cuda.jit
    def all_steps(heat, hottest):
        """By one block: one launch, however many steps."""
        i, n = cuda.threadIdx.x, heat.size
        for step in range(hottest.size):
            mine = (heat[(i + n - 1) % n] + heat[i] + heat[(i + 1) % n]) / 3
            cuda.syncthreads()
            heat[i] = mine
            cuda.atomic.max(hottest, step, mine)
            cuda.syncthreads()

    def relax(ferry, heat, steps):
        d_heat, d_hottest = ferry.there(heat), shown["ferry"].names["cp"].zeros(steps)
        all_steps[1, heat.size](d_heat, d_hottest)
        return ferry.back(d_heat), ferry.back(d_hottest)

    outcome = load_lesson("02_why_gpus").outcome("ferry", relax)
    assert outcome.passed, outcome.message


def test_the_prices_are_those_of_what_is_launched(shown):
    assert "starts: 100" in shown["jobs"].text
    launched, jobs = (shown["jobs"].names[name] for name in ("launched", "JOBS"))
    arrays = sum(one.details["dtypes"].count("float64") for one in launched)
    assert arrays == 20 * 12
    assert jobs[1].in_memory == arrays * 8 and jobs[1].starts == len(launched) + 3
    names = shown["jobs"].names
    with names["virtualgpu"].launches() as line:
        2 * names["cp"].ones(5) + 1
    doubling = [one for one in line if "fill" not in one.name]
    assert sum(8 * one.details["dtypes"].count("float64") for one in doubling) == 32
    assert jobs[2].in_memory == jobs[3].in_memory == 100 * 32
    assert jobs[2].starts == 100 * (len(doubling) + 2)


def test_the_table_keeps_to_the_model(shown):
    names = shown["lab"].names
    for job in names["JOBS"]:
        for gpu, n in zip((names["T4"], names["H100"]), names["verdicts"][job.name], strict=True):
            cpu = names["cpu_each"][job.on_cpu]
            if n is None:
                assert cpu <= job.per_element(gpu)
            else:
                assert job.on_gpu(gpu, n) <= n * cpu * (1 + 1e-9)
                assert job.on_gpu(gpu, n - 1) > (n - 1) * cpu
    once, each_time = (job.per_element(names["T4"]) for job in names["JOBS"][:1:-1])
    assert each_time == pytest.approx(10 * once, rel=0.01)


def test_the_models_are_flat_up_to_ten_thousand_pendulums(shown):
    names = shown["lab-picture"].names
    job = names["JOBS"][1]
    for gpu in (names["T4"], names["H100"]):
        assert job.on_gpu(gpu, 10_000) < 1.2 * job.on_gpu(gpu, 1)
        assert job.on_gpu(gpu, 1) < names["measured"][-1] / 1e3
        assert job.on_gpu(gpu, 100_000) < names["measured"][-1] / 1e3
        assert job.on_gpu(gpu, 1) > names["measured"][0] / 1e3
    assert math.isclose(job.starts * 4e-6, 412e-6)
