"""CuPy's part of NumPy's namespace, name by name, against NumPy's own results."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import cupy_namespace as namespace

# Names that cannot be called with numbers; that they are there is all there is to say.
ONLY_THERE = """
bool bool_ byte cdouble complex128 complex64 complexfloating csingle double exceptions flatiter
float16 float32 float64 floating from_dlpack generic half inexact int16 int32 int64 int8 int_ intc
integer intp long longlong nan ndarray number printoptions random set_printoptions short
signedinteger single testing typing ubyte ufunc uint uint16 uint32 uint64 uint8 uintc uintp ulong
ulonglong unsignedinteger ushort
""".split()


def on_host(value, cp):
    """The value with all CuPy arrays in it copied to the host."""
    if isinstance(value, cp.ndarray):
        return value.get()
    if isinstance(value, tuple | list):
        return [on_host(one, cp) for one in value]
    return value


def left_on_host(expected, found, cp) -> bool:
    """Whether an array is NumPy's that should lie on the device."""
    if isinstance(expected, tuple | list):
        return any(left_on_host(one, other, cp) for one, other in zip(expected, found, strict=True))
    return isinstance(expected, np.ndarray) and not isinstance(found, cp.ndarray)


def differences(expected, found, where: str = "") -> list[str]:
    """What is not the same in two results; [] where nothing is."""
    if isinstance(expected, tuple | list):
        if len(expected) != len(found):
            return [f"{where}: {len(expected)} and {len(found)} parts"]
        return [
            line
            for i, (one, other) in enumerate(zip(expected, found, strict=True))
            for line in differences(one, other, f"{where}[{i}]")
        ]
    if not isinstance(expected, np.ndarray | np.generic):
        same = (
            expected == found
            if not isinstance(expected, float)
            else np.isclose(expected, found, rtol=1e-14)
        )
        return [] if same else [f"{where}: {expected!r} and {found!r}"]
    expected, found = np.asarray(expected), np.asarray(found)
    if (expected.dtype, expected.shape) != (found.dtype, found.shape):
        return [f"{where}: {expected.dtype}{expected.shape} and {found.dtype}{found.shape}"]
    if expected.dtype.kind in "biuS":
        return [] if (expected == found).all() else [f"{where}: {expected} and {found}"]
    digits = 4 * np.finfo(expected.dtype).eps
    return (
        []
        if np.allclose(expected, found, rtol=digits, atol=digits, equal_nan=True)
        else [f"{where}: {expected} and {found}"]
    )


@pytest.fixture(scope="module")
def both(cp):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield namespace.arrays(np), namespace.arrays(cp)


@pytest.mark.parametrize("call", namespace.calls())
def test_the_result_is_numpys(call, both, cp):
    host, device = both
    with np.errstate(all="ignore"):
        expected = namespace.evaluate(call, host)
    found = namespace.evaluate(call, device)
    assert differences(on_host(expected, cp), on_host(found, cp)) == []
    assert not left_on_host(expected, found, cp)


@pytest.mark.parametrize("statement", namespace.writes())
def test_what_is_written_is_what_numpy_writes(statement, both, cp):
    results = []
    for arrays in both:
        target = arrays["xp"].linspace(0, 1, 24)
        namespace.evaluate(statement, {**arrays, "a": target})
        results.append(on_host(target, cp))
    assert differences(*results) == []


@pytest.mark.parametrize("pair", namespace.FILES)
def test_files_are_numpys(pair, both, cp, tmp_path):
    write, read = pair.split()
    values = both[1]["f"]
    name = str(tmp_path / "array") + {"save": ".npy", "savetxt": ".txt"}.get(write, ".npz")
    if write == "tofile":
        values.tofile(name)
    else:
        getattr(cp, write)(name, values)
    for module in (cp, np):
        found = getattr(module, read)(name)
        if write.startswith("savez"):
            found = found["arr_0"]
        assert type(found) is module.ndarray
        assert (on_host(found, cp) == values.get()).all()


def test_every_shared_name_is_tried():
    tried = {namespace.name_of(one) for one in namespace.calls() + namespace.writes()}
    tried |= {name for pair in namespace.FILES for name in pair.split()}
    assert set(namespace.NAMES) <= tried | set(ONLY_THERE)


def test_every_shared_name_is_there(cp):
    assert [name for name in namespace.NAMES if hasattr(np, name) and not hasattr(cp, name)] == []


@pytest.mark.parametrize(
    "name", [name for names in namespace.UFUNCS.values() for name in names.split()]
)
def test_every_ufunc_says_its_name(cp, name):
    function = getattr(cp, name)
    assert isinstance(function, cp.ufunc)
    assert function.name.startswith("cupy_")
    assert (function.nin, function.nout) == (getattr(np, name).nin, getattr(np, name).nout)
