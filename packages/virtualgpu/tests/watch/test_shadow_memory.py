"""The memory of the race check: what is kept from one launch for the next."""

from __future__ import annotations

import time

from virtualgpu.watch import shadow_memory
from virtualgpu.watch.shadow_memory import Shadow


def test_a_thousand_allocations_are_found_again_at_once():
    """A suite of tests leaves thousands; looking through them all took 40% of 1,000 small tests."""
    shadow_memory.forget()
    for area in [Shadow(0, 100, 4) for _ in range(10_000)]:
        area.close()
    begin = time.process_time()
    for nbytes in range(300, 1300):
        Shadow(0, nbytes, 4).close()
    assert time.process_time() - begin < 0.5
    shadow_memory.forget()


def test_arrays_of_about_one_size_take_turns():
    shadow_memory.forget()
    first = Shadow(0, 4000, 4)
    records = first.records[0]
    first.close()
    second = Shadow(0, 3900, 4)
    assert any(records is one for one in second.records)
    assert len(records) <= 1001 * 9 / 8 + 1
    second.close()
    shadow_memory.forget()
