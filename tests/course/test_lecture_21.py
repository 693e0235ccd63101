"""What the text of "More than one GPU" says is what its cells show."""

from __future__ import annotations

import os
import re

import jax
import numpy as np
import pytest

# Its cells take 20 s of processor time, in a process of their own.
pytestmark = pytest.mark.rehearsal


def numbers(text: str) -> list[int]:
    """The whole numbers with thousands' commas that stand in a text."""
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)]


def test_nothing_of_the_eight_devices_reaches_this_process(shown):
    assert "device_count" not in os.environ.get("XLA_FLAGS", "")
    assert len(jax.devices("cpu")) == 1


def test_eight_devices_have_a_strip_each(shown):
    first, second, third = shown["the-question"].text.splitlines()
    assert numbers(first) == [1_048_576, 8]
    assert "(64, 512): 131,072 bytes" in second
    assert float(re.search(r"[\d.]+", third)[0]) == pytest.approx(
        shown["the-question"].names["spot"].mean(), abs=2e-3
    )


def test_only_replicas_cost_more(shown):
    totals = [numbers(line)[-1] for line in shown["mesh"].text.splitlines()]
    assert totals == [1_048_576, 1_048_576, 8_388_608, 1_048_576]


def test_the_errors_are_the_ones_explained(shown):
    assert "partitioned 8 times, but the dimension size is 500" in str(shown["indivisible"].error)
    assert "before backends are initialized" in str(shown["too-late"].error)
    assert "out_specs which require replication which can't be statically inferred" in str(
        shown["not-the-same"].error
    )


def test_what_each_operation_sends(shown):
    sent = {}
    for line in shown["operations"].text.splitlines():
        name, what = re.split(r"\s{2,}|(?<=\)) (?=c)", line.strip(), maxsplit=1)
        sent[name] = what
    strip, plate, row = 131_072, 1_048_576, 2_048
    assert {name for name, what in sent.items() if what == "nothing"} == {
        "2 * plate + 1",
        "t.sum(axis=1)",
        "jnp.roll(t, 1, axis=1)",
        "t.T",
    }
    assert sent["t.sum(axis=0)"] == f"all-reduce of {row:,} bytes"
    assert sent["jnp.roll(t, 1, axis=0)"] == f"collective-permute of {row:,} bytes"
    assert sent["t + t.T"] == f"all-to-all of {strip:,} bytes"
    assert sent["jnp.sort(t, axis=0)"].startswith("all-to-all")
    assert sent["jnp.cumsum(t, axis=0)"] == f"all-gather of {plate:,} bytes"
    assert "[('all-reduce', 4)]" in shown["messages"].text


def test_layout_decides_what_a_product_sends(shown):
    everywhere, rows, columns = shown["matmul"].text.splitlines()
    assert everywhere.endswith("sends []") and "1.18 MB" in everywhere
    assert "all-gather" in rows and "all-reduce" in columns


def test_by_hand_two_rows_travel_and_by_xla_more(shown):
    assert "as on one device: True" in shown["halo-exercise"].text
    assert shown["halo-exercise"].text.count("('collective-permute', 2048)") == 2
    messages, size = numbers(shown["one-device"].text)
    assert messages > 2 and size > 10 * 4_096
    assert 2 * 2_048 / 131_072 == pytest.approx(0.03, abs=0.002)


def test_without_a_halo_the_seams_are_wrong(shown):
    error = np.abs(shown["seams"].names["error"]).max(axis=1)
    seams = np.arange(64, 512, 64)
    assert error[seams].max() > 50
    assert all(error[seam] > 5 * error[seam + 32] for seam in seams if error[seam] > 10)


def test_the_model_scales_as_the_text_says(shown):
    step = shown_step_time
    assert step(8192, 1) / step(8192, 64) == pytest.approx(10.5, abs=0.3)
    assert step(8192, 64) == pytest.approx(25.5e-6, abs=5e-8)
    assert 2 * (10e-6 + 4 * 8192 / 50e9) == pytest.approx(21.3e-6, abs=2e-8)
    assert step(8192, 1) / step(131_072, 256) > 0.85  # weak
    assert 1 / (0.05 + 0.95 / 1e9) == pytest.approx(20)
    assert round(64 - 0.05 * 63) == 61
    assert 10e-6 * 50e9 == pytest.approx(500_000)  # half a megabyte in a message's latency
    four_neighbours = 4 * (10e-6 + 4 * 1024 / 50e9)
    assert four_neighbours > 2 * (10e-6 + 4 * 8192 / 50e9)  # strips win in this model


def shown_step_time(n, devices, memory=2e12, link=50e9, latency=10e-6):
    """The model of the text, written down a second time."""
    seconds = 8 * n * -(-n // devices) / memory
    return seconds + min(devices - 1, 2) * (latency + 4 * n / link)


def test_squares_send_less_from_sixteen_devices_on(shown):
    rows = [numbers(line) for line in shown["strips-or-squares"].text.splitlines()[1:]]
    assert [row[1] for row in rows] == [65_536] * 4
    assert [row[3] for row in rows] == [65_536, 32_768, 16_384, 8_192]


def test_dask_brings_the_histogram_and_not_the_masses(shown):
    first, same, *_ = shown["dask-histogram"].text.splitlines()
    assert numbers(first) == [960, 16_000_000]
    assert same.endswith("True")
    assert shown["dask"].text.endswith("True\n")
    warning, scattered = shown["dask-closure"].text.splitlines()
    assert warning.startswith("Sending large graph of size")
    assert scattered.endswith("True")
