"""Awkward Arrays on the CUDA backend without a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import awkward as ak
import numpy as np
import pytest

import virtualgpu
from awkward_events import MUONS, NESTED, dimuon_masses
from gpustandins import awkward_backend as backend
from virtualgpu import activation


def test_to_backend_and_back(events: ak.Array):
    import cupy

    assert ak.backend(events) == "cuda"
    assert isinstance(events.layout.content.contents[0].data, cupy.ndarray)
    back = ak.to_backend(events, "cpu")
    assert ak.backend(back) == "cpu"
    assert back.to_list() == MUONS
    assert events.to_list() == MUONS
    assert str(events.type) == "4 * var * {pt: float64, charge: int64}"


OPERATIONS = {
    "num": lambda events: ak.num(events),
    "num axis 0": lambda events: ak.num(events.pt, axis=0),
    "sum": lambda events: ak.sum(events.pt, axis=1),
    "sum of all": lambda events: ak.sum(events.pt),
    "sum axis 0": lambda events: ak.sum(events.pt, axis=0),
    "prod": lambda events: ak.prod(events.charge, axis=1),
    "max": lambda events: ak.max(events.pt, axis=1),
    "min": lambda events: ak.min(events.pt, axis=-1),
    "argmax": lambda events: ak.argmax(events.pt, axis=1),
    "argmin keepdims": lambda events: ak.argmin(events.pt, axis=1, keepdims=True),
    "any": lambda events: ak.any(events.pt > 50, axis=1),
    "all": lambda events: ak.all(events.pt > 10, axis=1),
    "count": lambda events: ak.count(events.pt, axis=1),
    "count_nonzero": lambda events: ak.count_nonzero(events.pt > 30, axis=1),
    "mean": lambda events: ak.mean(events.pt, axis=1),
    "std": lambda events: ak.std(events.pt, axis=1),
    "arithmetic": lambda events: events.pt * 2 + events.charge,
    "ufunc": lambda events: np.sqrt(events.pt),
    "mask": lambda events: events[ak.num(events) >= 2],
    "jagged mask": lambda events: events[events.pt > 15],
    "jagged index": lambda events: events.pt[ak.argmax(events.pt, axis=1, keepdims=True)],
    "slice": lambda events: events[1:3],
    "inner slice": lambda events: events.pt[:, :1],
    "two first": lambda events: events[ak.num(events) >= 2].pt[:, 0],
    "field": lambda events: events.charge,
    "two fields": lambda events: events[["pt", "charge"]],
    "flatten": lambda events: ak.flatten(events.pt),
    "ravel": lambda events: ak.ravel(events.pt),
    "unflatten": lambda events: ak.unflatten(ak.flatten(events.pt), ak.num(events)),
    "combinations": lambda events: ak.combinations(events, 2, fields=["one", "other"]),
    "pairs' sums": lambda events: (lambda pairs: pairs["0"].pt + pairs["1"].pt)(
        ak.combinations(events, 2)
    ),
    "cartesian": lambda events: ak.cartesian({"a": events.pt, "b": events.charge}),
    "argcombinations": lambda events: ak.argcombinations(events, 2),
    "zip": lambda events: ak.zip({"pt": events.pt, "q": events.charge}),
    "unzip": lambda events: ak.unzip(events)[0],
    "with_field": lambda events: ak.with_field(events, events.pt * 1000, "mev"),
    "sort": lambda events: ak.sort(events.pt, axis=1),
    "argsort": lambda events: ak.argsort(events.pt, axis=1, ascending=False),
    "where": lambda events: ak.where(events.pt > 20, events.pt, 0),
    "pad_none": lambda events: ak.pad_none(events.pt, 2, axis=1),
    "fill_none": lambda events: ak.fill_none(ak.pad_none(events.pt, 2, clip=True), -1.0),
    "firsts": lambda events: ak.firsts(events.pt),
    "drop_none": lambda events: ak.drop_none(ak.firsts(events.pt)),
    "is_none": lambda events: ak.is_none(ak.firsts(events.pt)),
    "singletons": lambda events: ak.singletons(ak.firsts(events.pt)),
    "local_index": lambda events: ak.local_index(events.pt, axis=1),
    "broadcast": lambda events: events.pt - ak.mean(events.pt, axis=1),
    "broadcast_arrays": lambda events: ak.broadcast_arrays(ak.num(events), events.pt)[0],
    "concatenate": lambda events: ak.concatenate([events, events[::-1]]),
    "concatenate axis 1": lambda events: ak.concatenate([events.pt, events.pt], axis=1),
    "run_lengths": lambda events: ak.run_lengths(ak.flatten(events.charge)),
    "values_astype": lambda events: ak.values_astype(events.pt, "float32"),
    "packed": lambda events: ak.to_packed(events[events.pt > 15]),
    "mask operation": lambda events: ak.mask(events.pt, events.pt > 15),
    "zeros_like": lambda events: ak.zeros_like(events.pt),
    "almost equal": lambda events: ak.almost_equal(events, events),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_give_what_the_cpu_backend_gives(name: str, events: ak.Array):
    operation = OPERATIONS[name]
    result, expected = operation(events), operation(ak.Array(MUONS))
    if isinstance(expected, ak.Array):
        assert ak.backend(result) == "cuda"
        assert str(result.type) == str(expected.type)
        assert ak.array_equal(ak.to_backend(result, "cpu"), expected, equal_nan=True)
    else:
        assert result == expected


def test_errors_come_when_they_happen(events: ak.Array):
    with pytest.raises((ValueError, IndexError), match=r"index out of range|cannot slice"):
        events.pt[:, 2]


def test_addresses_of_arrays_become_the_host_s():
    import cupy

    from virtualgpu.devices import current

    array = cupy.empty(4)
    hosts = backend.host_addresses(np.array([array.data.ptr, 0]))
    assert hosts.tolist() == [array._host.ctypes.data, 0]
    assert array.data.ptr not in current().memory.unwritten


def test_operations_launch_no_kernels(events: ak.Array):
    with virtualgpu.profile() as profile:
        ak.sum(events.pt, axis=1)
        ak.combinations(events, 2)
    assert not profile.launches


def test_an_attempt_before_the_stand_ins_does_no_harm(monkeypatch: pytest.MonkeyPatch):
    """Awkward keeps the CuPy that it met first, which may be one that needs a GPU."""
    from awkward._nplikes.cupy import Cupy

    monkeypatch.setitem(vars(Cupy.instance()), "_module", "a CuPy that cannot work here")
    assert ak.sum(ak.to_backend(ak.Array([1.0, 2.0]), "cuda")) == 3


def test_backends_do_not_mix(events: ak.Array):
    with pytest.raises(ValueError, match="incompatible backends"):
        events.pt + ak.Array(MUONS).pt


def test_results_of_host_kernels_count_as_written(events: ak.Array):
    """What Awkward's CPU kernels wrote is no uninitialised memory to a kernel that reads it."""
    from numba import cuda

    charges = ak.to_cupy(ak.sum(events.charge, axis=1))
    # Their kernel gets these by an array of pointers.
    first_of_pairs = ak.combinations(events, 2).layout.content.contents[0].index.data
    totals = cuda.to_device(np.zeros(2, np.int64))

    @cuda.jit
    def add(values, totals, which):
        i = cuda.grid(1)
        if i < values.size:
            cuda.atomic.add(totals, which, values[i])

    with virtualgpu.check() as report:
        add[1, 32](charges, totals, 0)
        add[1, 32](first_of_pairs, totals, 1)
    assert report.ok, report
    assert totals.copy_to_host().tolist() == [0, 0 + 0 + 1 + 4]


def test_masses_of_pairs():
    events = ak.Array(NESTED)
    on_device = dimuon_masses(ak.to_backend(events, "cuda"))
    assert on_device.to_list() == dimuon_masses(events).to_list()
    assert float(on_device[0, 0]) == pytest.approx(95.1174, abs=1e-4)


def test_vector_computes_on_the_device():
    import vector

    vector.register_awkward()
    events = ak.with_name(ak.to_backend(ak.Array(NESTED), "cuda").muons, "Momentum4D")
    pairs = ak.combinations(events, 2)
    masses = (pairs["0"] + pairs["1"]).mass
    assert ak.backend(masses) == "cuda"
    assert float(masses[0, 0]) == pytest.approx(95.118, abs=1e-3)


def test_cupy_arrays_are_shared():
    import cupy

    numbers = cupy.arange(4.0)
    array = ak.from_cupy(numbers)
    assert ak.backend(array) == "cuda"
    assert ak.to_cupy(array).data.ptr == numbers.data.ptr
    lists = ak.unflatten(array, cupy.array([1, 3]))
    numbers[0] = -7
    assert lists.to_list() == [[-7.0], [1.0, 2.0, 3.0]]


@pytest.mark.parametrize("call", [ak.to_cudf, lambda array: ak.from_cudf(array)])
def test_columns_of_cudf_are_out_of_reach(call, events: ak.Array):
    with pytest.raises(ImportError, match="pylibcudf"):
        call(events.pt)


@pytest.fixture
def switched_off() -> Iterator[None]:
    """The virtual GPU is off, and on again for the tests after this one."""
    virtualgpu.deactivate()
    yield
    virtualgpu.deactivate()
    virtualgpu.activate()


def test_nothing_is_routed_where_there_is_a_gpu(switched_off, monkeypatch: pytest.MonkeyPatch):
    routed = []
    monkeypatch.setattr(activation, "gpu_is_present", lambda: True)
    monkeypatch.setattr(backend, "use_cpu_kernels", lambda module: routed.append(1) or list)
    activation.activate(force=True)
    assert not routed
    monkeypatch.setattr(activation, "gpu_is_present", lambda: False)
    activation.use_standins()
    assert routed
