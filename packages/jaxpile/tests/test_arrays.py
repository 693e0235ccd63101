"""Arrays that lie on the device: read there, and results that stay there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpile
from jaxpile.cuda.arrays import arriving, on_device, staying, taken
from jaxpile.cuda.codegen import generate
from jaxpile.cuda.launch import Launcher
from jaxpile.primitives import default_registry
from jaxpile.stages import program_of

X = np.random.default_rng(3).normal(size=(6, 7))


@pytest.fixture
def cupy():
    """CuPy with a GPU, or the virtual one's stand-in."""
    virtual = pytest.importorskip("virtualgpu", reason="no stand-in for cupy here")
    active = virtual.is_active()
    virtual.activate()
    import cupy

    yield cupy
    if not active:
        virtual.deactivate()


def launcher(function, *args) -> Launcher:
    lowered = jaxpile.jit(function).lower(*args)
    return Launcher(program_of(lowered.jaxpr, default_registry(), "f", "gpu"))


def test_what_lies_on_a_device(cupy):
    from numba import cuda

    on = cupy.zeros(3)
    assert on_device(on) and on_device(cuda.to_device(np.zeros(3)))
    for host in (np.zeros(3), np.float64(1), jnp.zeros(3), 1.0, [1.0], cupy.ndarray):
        assert not on_device(host)
    assert arriving(on) is on and isinstance(arriving(jnp.zeros(3)), np.ndarray)


def test_an_argument_on_the_device_is_read_there(cupy):
    on = cupy.asarray(X)
    assert taken(cupy, on, np.dtype(float)).data.ptr == on.data.ptr
    assert taken(cupy, on.T, np.dtype(float)).data.ptr != on.data.ptr  # it has gaps
    assert taken(cupy, on, np.dtype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(taken(cupy, X, np.dtype(float)).get(), X.ravel())


def test_results_are_made_on_the_device_and_no_argument_is_given_away(cupy):
    run = launcher(lambda x: (x * 2, x, x * 2, jnp.arange(7.0)), X)
    on = cupy.asarray(X)
    found = run([on])
    assert all(isinstance(one, cupy.ndarray) for one in found)
    addresses = [on.data.ptr, *(one.data.ptr for one in found)]
    assert len(set(addresses)) == len(addresses)
    again = run([on])
    for one, two, wanted in zip(found, again, (X * 2, X, X * 2, np.arange(7.0)), strict=True):
        np.testing.assert_array_equal(one.get(), wanted)
        np.testing.assert_array_equal(two.get(), wanted)
    assert not {one.data.ptr for one in found} & {two.data.ptr for two in again}


def test_arguments_are_let_go_when_the_launches_are_done(cupy):
    run = launcher(lambda x: x + 1, X)
    run([X])
    cupy.cuda.runtime.deviceSynchronize()
    run([X])
    assert len(run.queued) <= 1  # the last call's, which may still run


@pytest.mark.parametrize("given", ["cupy", "numba", "turned", "float32"])
def test_a_compiled_function_takes_other_libraries_arrays(given, cupy):
    from numba import cuda

    array = {
        "cupy": lambda: cupy.asarray(X),
        "numba": lambda: cuda.to_device(X),
        "turned": lambda: cupy.asarray(X.T.copy()).T,
        "float32": lambda: cupy.asarray(X.astype(np.float32)),
    }[given]()
    function = jaxpile.jit(lambda x, n: jnp.sin(x) * n, backend="cuda", static_argnames="n")
    found = function(array, n=3)
    assert isinstance(found, jax.Array) and found.dtype == array.dtype
    wanted = np.sin(X.astype(found.dtype)) * 3
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if given == "float32" else 1e-14)
    assert function.lower(array, n=3).in_avals[0].shape == X.shape


def test_where_jax_has_no_such_device_results_come_to_the_cpu(cupy):
    if jax.default_backend() != "cpu":
        assert staying(cupy) is jax.dlpack.from_dlpack
        return
    assert staying(cupy) is None
    found = jaxpile.jit(lambda x: (x + 1, jax.random.key(3)), backend="cuda")(cupy.asarray(X))
    assert {one.devices().pop().platform for one in found} == {"cpu"}


def test_keys_go_by_the_host(cupy):
    key = jax.random.key(5)
    function = lambda key: jax.random.split(key)  # noqa: E731
    found = jaxpile.jit(function, backend="cuda")(key)
    assert (jax.random.key_data(found) == jax.random.key_data(function(key))).all()


def test_cpu_programs_refuse_arrays_of_the_device(cupy):
    with pytest.raises(TypeError, match="NumPy"):
        jaxpile.jit(lambda x: x + 1)(cupy.asarray(X))


def test_kernels_number_their_threads_by_32_bits_where_that_is_enough():
    def text(size):
        kind = jax.ShapeDtypeStruct((size,), np.int8)
        lowered = jaxpile.jit(lambda x: x + 1).lower(kind)
        return generate(program_of(lowered.jaxpr, default_registry(), "f", "gpu")).text

    assert "const unsigned thread" in text(2**32 - 256)
    assert "const long long thread" in text(2**32 - 255)
