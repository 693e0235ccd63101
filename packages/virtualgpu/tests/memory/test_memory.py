"""Global memory: allocations with guards and poison, and nothing beyond them."""

from __future__ import annotations

import numpy as np
import pytest

from virtualgpu.devices import VirtualDevice
from virtualgpu.errors import OutOfMemory, VirtualGPUError
from virtualgpu.memory.global_memory import ALIGN, GUARD, HEAP, POISON, GlobalMemory
from virtualgpu.memory.mapping import BASE, END, PAGE

MiB = 1 << 20


@pytest.fixture
def memory() -> GlobalMemory:
    return GlobalMemory(64 * MiB)


def test_allocations_are_aligned_apart_and_poisoned(memory):
    addresses = [memory.allocate(n) for n in (1, 512, 513, 7)]
    assert all(a % ALIGN == 0 and a >= BASE for a in addresses)
    assert (np.diff(addresses) >= GUARD).all()
    assert (memory.read(addresses[2], 513) == POISON).all()
    assert memory.allocated == 1 + 512 + 513 + 7


def test_poison_is_loud_in_every_type(memory):
    raw = memory.read(memory.allocate(8), 8)
    assert raw.view(np.int32)[0] == -16843010
    assert raw.view(np.float32)[0] < -1e38
    assert raw.view(np.float64)[0] < -1e300


def test_reused_memory_is_poisoned_again(memory):
    seen = set()
    for _ in range(40):
        address = memory.allocate(3 * MiB)
        assert (memory.read(address, 3 * MiB) == POISON).all()
        memory.write(address, np.zeros(3 * MiB, np.uint8))
        seen.add(address)
        memory.free(address)
    assert 8 < len(seen) < 40  # an address rests for a while, and is used again


def test_an_address_rests_before_it_is_used_again(memory):
    first = memory.allocate(100)
    memory.free(first)
    assert first not in [memory.allocate(100) for _ in range(8)]


def test_empty_allocations_are_distinct_and_untouchable(memory):
    one, two = memory.allocate(0), memory.allocate(0)
    assert one != two
    assert memory.read(one, 0).size == 0
    with pytest.raises(VirtualGPUError):
        memory.read(one, 1)
    assert memory.bad_lanes(np.array([one], np.uint64), 1).all()
    memory.free(one)
    memory.free(two)
    assert memory.allocated == 0


def test_out_of_memory_says_what_is_free(memory):
    memory.allocate(60 * MiB)
    with pytest.raises(OutOfMemory, match="5,242,880 bytes requested, but 4,194,304 of the"):
        memory.allocate(5 * MiB)
    memory.allocate(4 * MiB)


def test_capacity_comes_back(memory):
    for _ in range(10):
        memory.free(memory.allocate(60 * MiB))


def test_a_negative_size_is_refused(memory):
    with pytest.raises(ValueError, match="-1 bytes"):
        memory.allocate(-1)


def test_address_space_that_is_used_up_is_used_again(memory):
    """Where no fresh addresses are left, freed ones of enough room serve."""
    freed = memory.allocate(2 * MiB)
    memory.free(freed)
    memory.limit = memory._next
    assert memory.allocate(MiB) == freed
    with pytest.raises(OutOfMemory, match="address space"):
        memory.allocate(MiB)


def test_free_of_what_is_not_allocated(memory):
    address = memory.allocate(8)
    for wrong in (address + 4, 0, address - 512):
        with pytest.raises(VirtualGPUError, match="no live allocation starts there"):
            memory.free(wrong)
    memory.free(address)
    with pytest.raises(VirtualGPUError, match="no live allocation starts there"):
        memory.free(address)


def test_every_change_of_allocations_is_a_new_version(memory):
    versions = [memory.version]
    address = memory.allocate(8)
    versions.append(memory.version)
    memory.free(address)
    versions.append(memory.version)
    assert len(set(versions)) == 3


def test_extent(memory):
    address = memory.allocate(10)
    assert memory.extent(address) == memory.extent(address + 9) == (address, address + 10)
    assert memory.extent(address - 1) is memory.extent(address + 10) is memory.extent(0) is None


def test_bad_lanes_at_every_edge(memory):
    start = memory.allocate(16)
    offsets = np.array([-8, -1, 0, 8, 12, 13, 15, 16, 17])
    addresses = (start + offsets).astype(np.uint64)
    assert memory.bad_lanes(addresses, 4).tolist() == [o < 0 or o > 12 for o in offsets]
    far = np.array([0, 1, BASE - 1, 2**63, 2**64 - 4, 2**64 - 1], np.uint64)
    assert memory.bad_lanes(far, 4).all()
    assert GlobalMemory(1).bad_lanes(far, 4).all()  # no allocation at all


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (16, "0 bytes after the end of an array of 16 bytes"),
        (20, "4 bytes after the end of an array of 16 bytes"),
        (14, "4 bytes that run past the end of an array of 16 bytes"),
        (-4, "4 bytes before the start of an array of 16 bytes"),
        (40 * MiB, "far from every array"),
    ],
)
def test_an_illegal_address_is_described(memory, offset, words):
    assert memory.describe(memory.allocate(16) + offset, 4) == words


def test_null_and_freed_addresses_are_described(memory):
    assert "null pointer" in memory.describe(0, 4)
    address = memory.allocate(16)
    memory.free(address)
    assert memory.describe(address + 4, 4) == (
        "in an array of 16 bytes that was freed (use after free)"
    )


def test_copies(memory):
    one, two = memory.allocate(64), memory.allocate(64)
    matrix = np.arange(16, dtype=np.float32).reshape(4, 4)
    memory.write(one, matrix.T)  # in C order of what was given
    assert (memory.read(one, 64).view(np.float32) == matrix.T.ravel()).all()
    memory.copy(two + 4, one, 60)
    memory.fill(two, 7, 4)
    assert (memory.read(two, 4) == 7).all()
    assert (memory.read(two + 4, 60) == memory.read(one, 60)).all()


def test_an_overlapping_copy_moves(memory):
    address = memory.allocate(8)
    memory.write(address, np.arange(8, dtype=np.uint8))
    memory.copy(address + 2, address, 6)
    assert memory.read(address, 8).tolist() == [0, 1, 0, 1, 2, 3, 4, 5]


def test_a_read_is_a_copy_and_a_host_view_is_not(memory):
    address = memory.allocate(4)
    before, shared = memory.read(address, 4), memory.host_view(address, 4)
    shared[:] = 5
    assert (before == POISON).all()
    assert (memory.read(address, 4) == 5).all()


@pytest.mark.parametrize(
    "do",
    [
        lambda m, a: m.write(a, np.zeros(5, np.uint8)),
        lambda m, a: m.read(a + 1, 4),
        lambda m, a: m.read(a - 1, 1),
        lambda m, a: m.fill(a, 0, 5),
        lambda m, a: m.copy(a, a + 1, 4),
        lambda m, a: m.copy(a + 1, a, 4),
        lambda m, a: m.host_view(a, 5),
        lambda m, a: m.read(a + 2 * GUARD, 1),
    ],
)
def test_the_host_stays_inside_too(memory, do):
    address = memory.allocate(4)
    with pytest.raises(VirtualGPUError):
        do(memory, address)
    assert (memory.read(address, 4) == POISON).all()


def test_the_heap_of_kernels(memory):
    outside = memory.allocate(8)
    address = memory.heap_allocate(1000)
    assert memory.extent(address) == (address, address + 1000)
    assert memory.heap_allocate(HEAP - 999) == 0
    rest = memory.heap_allocate(HEAP - 1000)
    assert rest != 0
    for wrong in (outside, address + 8):
        with pytest.raises(VirtualGPUError, match="malloc"):
            memory.heap_free(wrong)
    memory.heap_free(rest)
    with pytest.raises(VirtualGPUError, match="already freed"):
        memory.heap_free(rest)
    assert memory.heap_allocate(HEAP - 1000) != 0
    assert memory.read(outside, 8).size == 8


def test_untouched_memory_costs_nothing():
    """A quarter of a tebibyte of addresses, and pages only where something was written."""
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    device = VirtualDevice(total_memory=1 << 40)
    for _ in range(100):
        device.allocate(16)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10  # kB


def test_the_devices_memory_is_its_own():
    one, two = VirtualDevice(MiB), VirtualDevice(MiB)
    address, same = one.allocate(4), two.allocate(4)
    assert address == same
    one.write(address, np.array([1], np.int32))
    assert two.read(same, 4).view(np.int32)[0] == -16843010


def test_an_address_in_use_again_is_no_longer_called_freed(memory):
    large = [memory.allocate(400) for _ in range(9)]
    for address in large:
        memory.free(address)
    again = memory.allocate(16)
    assert again in large
    assert memory.describe(again + 20, 4) == "4 bytes after the end of an array of 16 bytes"


def test_what_a_pool_keeps_counts_and_cannot_be_touched(memory):
    kept = memory.allocate(1000)
    memory.retire(kept)
    assert memory.allocated == 1000
    with pytest.raises(VirtualGPUError, match="use after free"):
        memory.read(kept, 4)
    memory.revive(kept, 700)
    assert memory.allocated == 700
    assert memory.extent(kept) == (kept, kept + 700)
    assert (memory.read(kept, 700) == POISON).all()
    memory.retire(kept)
    memory.free(kept)
    assert memory.allocated == 0


def test_a_kept_place_holds_no_more_than_it_did(memory):
    kept = memory.allocate(1000)
    memory.retire(kept)
    with pytest.raises(VirtualGPUError, match="requested of an area"):
        memory.revive(kept, 1025)
    memory.revive(kept, 1024)  # the same 512-byte units
    assert memory.extent(kept) == (kept, kept + 1024)


def test_memory_apart_lies_at_random_places_of_the_host():
    """Then a device address, and the distance between two, is none of this process."""
    places = [GlobalMemory(MiB, apart=True).host for _ in range(4)]
    assert BASE not in places and all(place % PAGE == 0 for place in places)
    assert len(set(np.diff(sorted(places)) // (1 << 38))) > 1 or min(np.diff(sorted(places))) > END


def test_memory_apart_works_as_any_other():
    memory, other = GlobalMemory(MiB, apart=True), GlobalMemory(MiB)
    assert memory.allocate(100) == other.allocate(100)  # the device's addresses stay what they are
    address = memory.allocate(8)
    memory.write(address, np.array([7]))
    assert memory.read(address, 8).view(np.int64)[0] == 7
    view = memory.mapping.view(address, (1,), np.int64)
    view[0] = 8
    assert memory.mapping.address_of(view.ctypes.data) == address
    assert memory.read(address, 8).view(np.int64)[0] == 8
