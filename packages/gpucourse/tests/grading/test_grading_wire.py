"""Between the two processes: only JSON and plain arrays, of stated size, in time."""

from __future__ import annotations

import json
import pickle
import socket

import numpy as np
import pytest

from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.device_service import DeviceService
from gpucourse.grading.sandbox import wire

VALUES = [
    None,
    True,
    "text",
    0,
    -(2**70),
    1.5,
    float("inf"),
    np.float32(2.5),
    np.int8(-3),
    np.arange(6).reshape(2, 3),
    np.zeros((0, 4), np.float32),
    np.array(7.0),
    np.arange(10)[::3],
    [1, [2.0, "x"]],
    (1, 2),
    {"a": np.ones(2, bool)},
]

NOTHING = """.version 8.0
.target sm_80
.address_size 64
.visible .entry nothing() { ret; }
"""


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield wire.Wire(ours, 10_000, 100_000), wire.Wire(theirs, 10_000, 100_000)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_arrive_as_they_left(pair, value):
    ours, theirs = pair
    arrays = []
    tree = wire.encode(value, arrays)
    ours.send({"value": tree}, arrays)
    header, received = theirs.receive(wire.within(5))
    again = wire.decode(header["value"], received)
    assert type(again) is type(value)
    if isinstance(value, (np.ndarray, np.generic)):
        assert again.dtype == value.dtype
        np.testing.assert_array_equal(again, value)
    else:
        np.testing.assert_equal(again, value)


def test_threat_05_only_plain_values_can_be_sent(pair):
    class AlwaysEqual:
        __eq__ = lambda self, other: True  # noqa: E731

    class Loud(np.ndarray):
        def __eq__(self, other):
            return True

    for value in (AlwaysEqual(), object(), lambda: 1, np.array([None]), {1: 2}, {1, 2}):
        with pytest.raises(TypeError):
            wire.encode(value, [])
    arrays = []
    wire.encode(np.arange(3).view(Loud), arrays)
    ours, theirs = pair
    ours.send({}, arrays)
    assert type(theirs.receive(wire.within(5))[1][0]) is np.ndarray


def test_threat_09_pickles_are_never_loaded(pair, monkeypatch):
    monkeypatch.setattr(pickle, "load", lambda *a, **k: pytest.fail("unpickled"))
    monkeypatch.setattr(pickle, "loads", lambda *a, **k: pytest.fail("unpickled"))
    monkeypatch.setattr(np, "load", lambda *a, **k: pytest.fail("read as a file"))
    ours, theirs = pair
    pickled = pickle.dumps([print])
    ours.socket.sendall(message({"arrays": [{"dtype": "|u1", "shape": [len(pickled)]}]}) + pickled)
    assert theirs.receive(wire.within(5))[1][0].tobytes() == pickled
    ours.socket.sendall(pickled.ljust(wire.HEAD.size))
    with pytest.raises(wire.ProtocolError):
        theirs.receive(wire.within(5))


def message(header: dict) -> bytes:
    text = json.dumps(header).encode()
    return wire.HEAD.pack(wire.MAGIC, len(text)) + text


@pytest.mark.parametrize(
    "described",
    [
        8,
        None,
        [],
        {},
        {"dtype": "<f8"},
        {"dtype": "<f8", "shape": [1], "fortran_order": True},
        {"dtype": "<f8", "shape": [1_000_000_000_000]},
        {"dtype": "<f8", "shape": [-1]},
        {"dtype": "<f8", "shape": [2.0]},
        {"dtype": "<f8", "shape": [True]},
        {"dtype": "<f8", "shape": "12"},
        {"dtype": "<f8", "shape": [1] * 9},
        {"dtype": "<f8", "shape": [1 << 40, 1 << 40, 0, 1 << 40]},
        {"dtype": "|O", "shape": [1]},
        {"dtype": "|O8", "shape": [1]},
        {"dtype": "<M8", "shape": [1]},
        {"dtype": "<f3", "shape": [1]},
        {"dtype": "f8,f8", "shape": [1]},
        {"dtype": 1, "shape": [1]},
        {"dtype": [["a", "<f8"]], "shape": [1]},
        {"dtype": "<U9", "shape": [1]},
    ],
    ids=repr,
)
def test_threat_10_forged_arrays_are_refused_before_memory_is_taken(pair, described, monkeypatch):
    ours, theirs = pair
    ours.socket.sendall(message({"arrays": [described]}) + bytes(16))
    monkeypatch.setattr(np, "frombuffer", lambda *a, **k: pytest.fail("made"))
    with pytest.raises(wire.ProtocolError):
        theirs.receive(wire.within(5))


@pytest.mark.parametrize(
    "tree",
    [
        None,
        3,
        {"t": "int"},
        {"t": "int", "v": 5},
        {"t": "int", "v": "9" * 1000},
        {"t": "x", "v": 1},
        {"t": "array", "v": 0},
        {"t": "array", "v": True},
        {"t": "plain", "v": 1.0},
        {"t": "float", "v": "zz"},
        {"t": "device", "v": {}},
        {"t": "list", "v": {"t": "int"}},
        {"t": "list", "v": [{"t": "plain", "v": None}] * 20_000},
        {"t": "plain", "v": None, "w": 1},
    ],
)
def test_threat_10_forged_values_are_refused(tree):
    with pytest.raises(wire.ProtocolError):
        wire.decode(tree, [])


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 100,
        wire.HEAD.pack(wire.MAGIC, 1 << 30),
        wire.HEAD.pack(wire.MAGIC, 2) + b"{]",
        wire.HEAD.pack(wire.MAGIC, 2) + b"[]",
        wire.HEAD.pack(wire.MAGIC, 2) + b"{}",
        wire.HEAD.pack(wire.MAGIC, 9000) + b"[" * 9000,
        wire.HEAD.pack(wire.MAGIC, 14) + b'{"arrays": {}}',
        wire.HEAD.pack(wire.MAGIC, 50) + b"cut",
        wire.HEAD.pack(b"HTTP", 13) + b'{"arrays":[]}',
        wire.HEAD.pack(wire.MAGIC, 10_001) + b'{"arrays":[]}'.ljust(10_001),
    ],
)
def test_threat_10_what_is_not_a_message_ends_the_conversation(pair, data):
    ours, theirs = pair
    ours.socket.sendall(data)
    ours.socket.shutdown(socket.SHUT_WR)
    with pytest.raises(wire.ProtocolError):
        theirs.receive(wire.within(5))


def test_silence_is_not_waited_for(pair):
    ours, theirs = pair
    ours.socket.sendall(wire.MAGIC)
    with pytest.raises(wire.OutOfTime):
        theirs.receive(wire.within(0.05))


@pytest.mark.parametrize(
    "grid", [[], [1, 1], [1, 1, 1, 1], [1, 1, -1], [1, 1, 1.0], "111"], ids=repr
)
def test_threat_10_a_launch_of_other_than_three_dimensions_is_nonsense(grid):
    service = DeviceService(Limits())
    service.handle({"device": "load", "ptx": [NOTHING], "names": {}}, [])
    launch = {
        "device": "launch",
        "module": 0,
        "entry": "nothing",
        "grid": [1, 1, 1],
        "block": [1, 1, 1],
        "parameters": [],
        "shared_bytes": 0,
        "cooperative": False,
    }
    assert service.handle(launch, []) == ({}, [])
    for which in ("grid", "block"):
        with pytest.raises(wire.ProtocolError, match="malformed"):
            service.handle(launch | {which: grid}, [])
