"""Array creation: from host data, from other arrays or by a rule."""

from __future__ import annotations

import numpy as np

from virtualgpu.standins.interface import devices

from .. import _launches
from .core import (
    copy_into,
    empty,
    fresh,
    from_host,
    layout,
    like,
    ndarray,
    supported,
    view_of,
    wrote,
)
from .indexing import fill
from .operands import as_array, on_host, wrap
from .operators import named


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    """Return a new array from numbers, NumPy arrays, device arrays or nested lists of them.

    Parameters
    ----------
    copy : bool or None
        If None, a device array is copied only if it must be. If False, a ValueError is raised
        where a copy is necessary.
    order : 'C', 'F', 'A' or 'K'
    ndmin : int
    subok, blocking
        Accepted without effect: there are no subclasses, and a copy has finished on return.
    """
    given = as_array(obj)
    if given is None:
        gathered = obj if _joined_shape(obj) is None else _gather(obj)
        host = np.array(gathered, dtype=dtype, copy=None, ndmin=ndmin, order=layout(order))
        if not host.dtype.isnative:
            host = host.astype(host.dtype.newbyteorder("="))
        supported(host.dtype)
        return from_host(host, layout(order))
    if given.size and given.data.device_id != devices.number():  # copies it to the current device
        given = from_host(given._host, layout(order))
    made = convert(given, given.dtype if dtype is None else supported(dtype), order, bool(copy))
    if copy is False and made is not given:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if ndmin > made.ndim:
        made = made.reshape((1,) * (ndmin - made.ndim) + made.shape)
    return made


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    """Return ``a`` on the device, copied only if its device, type or layout differs."""
    return array(a, dtype, copy=copy, order=order)


def asanyarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    """Return the same as :func:`asarray`."""
    return asarray(a, dtype, order, copy=copy)


def ascontiguousarray(a, dtype=None):
    """Return ``a`` in C order, with at least one dimension."""
    return array(a, dtype, copy=None, order="C", ndmin=1)


def asfortranarray(a, dtype=None):
    """Return ``a`` in Fortran order, with at least one dimension."""
    return array(a, dtype, copy=None, order="F", ndmin=1)


def require(a, dtype=None, requirements=None):
    """Return ``a`` in C or Fortran order, or owning its memory.

    The requirements are 'C', 'F', 'O' or NumPy's longer names.

    Raises ValueError for other flags and for an invalid dtype.
    """
    flags = {flag.upper()[0] for flag in requirements or ()}
    if not flags <= set("CFO") or flags >= set("CF"):
        raise ValueError(f"Incorrect flags in requirements: {requirements}")
    try:
        return array(a, dtype, "O" in flags or None, next(iter(flags & set("CF")), "A"))
    except TypeError:
        raise ValueError(f'Incorrect dtype "{dtype}" provided') from None


def asfarray(a, dtype=float):
    """Return ``a`` as an array of floats or complex numbers."""
    dtype = np.dtype(dtype)
    return asarray(a, dtype if dtype.kind in "fc" else float)


def asarray_chkfinite(a, dtype=None, order=None):
    """Return the same as :func:`asarray`. Raises ValueError for infinities and NaN."""
    made = asarray(a, dtype, order)
    if not np.isfinite(made._host).all():
        raise ValueError("array must not contain Infs or NaNs")
    return made


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True) -> np.ndarray:
    """Return a NumPy array with the elements of ``a``, a device array or any NumPy input."""
    given = as_array(a)
    if given is not None:
        return given.get(stream, order, out, blocking)
    host = np.asarray(a, order=order)
    if out is None:
        return host
    out[...] = host
    return out


def copy(a, order="K"):
    """Return a copy of a CuPy array."""
    return (a if isinstance(a, ndarray) else asarray(a)).copy(order=order)


def astype(x, dtype, /, *, copy=True):
    """Return ``x.astype(dtype)`` for a CuPy array. Raises TypeError for anything else."""
    if not isinstance(x, ndarray):
        raise TypeError(f"Input should be a CuPy array. It is a {type(x)} instead.")
    return x.astype(dtype, copy=copy)


def zeros(shape, dtype=float, order="C"):
    """Return an array of zeros, written by a memset instead of a kernel."""
    return full(shape, 0, dtype, order)


def ones(shape, dtype=float, order="C"):
    return full(shape, 1, dtype, order)


def full(shape, fill_value, dtype=None, order="C"):
    """Return an array of equal elements; ``fill_value`` is a scalar or a 0-d CuPy array."""
    if dtype is None:
        given = as_array(fill_value)
        dtype = given.dtype if given is not None else np.array(fill_value).dtype
    made = fresh(shape, supported(dtype), order)
    fill(made, fill_value)
    return made


def _like(a, dtype, order, subok, shape, *, poison: bool = False):
    """Return an uninitialised array with the shape and layout of ``a``."""
    if subok is not None:
        raise TypeError("subok is not supported yet")
    given = as_array(a)
    host = given._host if given is not None else asarray(a)._host
    return like(np.empty_like(host, dtype=dtype, order=layout(order), shape=shape), poison=poison)


def empty_like(prototype, dtype=None, order="K", subok=None, shape=None):
    """Return an uninitialised array with the shape, type and layout of ``prototype``."""
    return _like(prototype, dtype, order, subok, shape, poison=True)


def zeros_like(a, dtype=None, order="K", subok=None, shape=None):
    return full_like(a, 0, dtype, order, subok, shape)


def ones_like(a, dtype=None, order="K", subok=None, shape=None):
    return full_like(a, 1, dtype, order, subok, shape)


def full_like(a, fill_value, dtype=None, order="K", subok=None, shape=None):
    made = _like(a, dtype, order, subok, shape)
    fill(made, fill_value)
    return made


def eye(N, M=None, k=0, dtype=float, order="C"):
    return _made(np.eye(N, M, k, dtype, order), "cupy.eye")


def identity(n, dtype=float):
    return _made(np.identity(n, dtype), "cupy.identity")


def tri(N, M=None, k=0, dtype=float):
    return _made(np.tri(N, M, k, dtype), "cupy_tri", exact=True)


def arange(start, stop=None, step=1, dtype=None):
    """Return evenly spaced values as ``numpy.arange`` does, computed in one kernel."""
    values = [
        None if v is None else v.item() if isinstance(v, ndarray) else v
        for v in (start, stop, step)
    ]
    if values[1] is None:
        values[0], values[1] = 0, values[0]
    return _made(np.arange(*values, dtype=dtype), "cupy_arange", exact=True)


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    """Return ``num`` evenly spaced values from ``start`` to ``stop``."""
    if num < 0:
        raise ValueError("linspace with num<0 is not supported")
    ends = [on_host(start), on_host(stop)]
    with np.errstate(all="ignore"):
        values, step = np.linspace(*ends, num, endpoint, True, dtype, axis)
    made = _made(values, "cupy_linspace", exact=True)
    return (made, wrap(step, []) if np.ndim(step) else step) if retstep else made


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """Return ``base`` to the power of ``linspace(start, stop, num)``."""
    powers = named("power")(base, linspace(start, stop, num, endpoint, axis=axis))
    return powers if dtype is None else powers.astype(dtype)


def _reader(name: str):
    def read(*args, **kwargs):
        return asarray(getattr(np, name)(*args, **kwargs))

    read.__name__ = read.__qualname__ = name
    read.__doc__ = f"Do the same as ``numpy.{name}`` and return the array on the device."
    return read


frombuffer, fromfile, fromfunction, fromiter, fromstring, genfromtxt, loadtxt = map(
    _reader, "frombuffer fromfile fromfunction fromiter fromstring genfromtxt loadtxt".split()
)


def load(file, mmap_mode=None, allow_pickle=None):
    """Load arrays from a ``.npy`` or ``.npz`` file (CuPy arrays by name) or from a pickle."""
    loaded = np.load(file, mmap_mode, allow_pickle=bool(allow_pickle))
    return NpzFile(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else asarray(loaded)


class NpzFile:
    """Arrays of an ``.npz`` file, each copied to the device when it is read."""

    def __init__(self, npz):
        self.npz_file = npz

    def __enter__(self):
        self.npz_file.__enter__()
        return self

    def __exit__(self, *failure):
        self.npz_file.__exit__(*failure)

    def __getitem__(self, key):
        return asarray(self.npz_file[key])

    @property
    def files(self) -> list[str]:
        return self.npz_file.files

    def close(self) -> None:
        self.npz_file.close()


def convert(given: ndarray, dtype: np.dtype, order: str, copy: bool) -> ndarray:
    """Implement ``ndarray.astype``, which documents the arguments."""
    order = layout(order)
    if not copy and dtype == given.dtype and _laid_out(given, order):
        return given
    host = given._host
    made = like(np.empty_like(host, dtype, order))
    same = dtype == host.dtype and made.strides == given.strides and given.flags.forc
    if same:
        np.copyto(made._host, host)  # the driver copies, so no kernel runs
        wrote(made)
    else:
        copy_into(made, host)
    return made


def _laid_out(given: ndarray, order) -> bool:
    flags = given._host.flags
    return {"C": flags.c_contiguous, "F": flags.f_contiguous}.get(order, True)


def _joined_shape(obj) -> tuple[int, ...] | None:
    """Return the shape of nested lists of equal-shaped device arrays, or None.

    If it is None, NumPy receives the object unchanged and raises an error for a device array in
    it.
    """
    if (array := as_array(obj)) is not None:
        return array.shape
    if not isinstance(obj, list | tuple) or not obj:
        return None
    first = _joined_shape(obj[0])
    if first is None or any(_joined_shape(one) != first for one in obj[1:]):
        return None
    return len(obj), *first


def _gather(obj):
    """Convert nested lists of device arrays to a form that NumPy accepts."""
    if isinstance(obj, list | tuple):
        return [_gather(one) for one in obj]
    return on_host(obj)


def _made(host: np.ndarray, name: str, *, exact: bool = False) -> ndarray:
    made = from_host(host)
    if _launches.listening() and host.size:
        _launches.record(name, "elementwise" if exact else "routine", size=host.size, exact=exact)
    return made


def reinterpret(given: ndarray, dtype) -> ndarray:
    """Implement ``ndarray.view``: the same bytes as another type, including dates and times."""
    dtype = np.dtype(dtype)
    kind = dtype if dtype.kind in "mM" and dtype.isnative else supported(dtype)
    return view_of(given, given._host.view(kind))


__all__ = [
    name
    for name, thing in list(globals().items())
    if getattr(thing, "__module__", None) == __name__
    and not name.startswith("_")
    and name not in ("convert", "reinterpret", "NpzFile", "cast")
] + ["empty"]
