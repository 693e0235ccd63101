"""On how many cores blocks run: what the system allows, what the user asks for."""

from __future__ import annotations

import os

import pytest

from virtualgpu import devices, processors
from virtualgpu.errors import VirtualGPUError


def test_a_containers_quota_bounds_what_is_used(tmp_path, monkeypatch):
    monkeypatch.delenv(processors.VARIABLE, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    for told, count in (("max 100000", 6), ("250000 100000", 2.5), ("50000 100000", 0.5)):
        (tmp_path / "cpu.max").write_text(told)
        assert processors.usable(tmp_path, tmp_path) == count
        with monkeypatch.context() as patch:
            patch.setattr(processors, "usable", lambda count=count: count)
            assert devices.VirtualDevice(1 << 20).cores == max(1, int(count))


def test_the_user_says_how_many(monkeypatch):
    monkeypatch.setenv(processors.VARIABLE, " 3 ")
    assert devices.VirtualDevice(1 << 20).cores == 3


@pytest.mark.parametrize("said", ["0", "-1", "many", "2.5", "4096", "²"])
def test_what_is_no_number_of_cores_is_refused(said, monkeypatch):
    monkeypatch.setenv(processors.VARIABLE, said)
    with pytest.raises(VirtualGPUError, match=f"VIRTUALGPU_THREADS='{said}': .*from 1 to 1024"):
        devices.VirtualDevice(1 << 20)
