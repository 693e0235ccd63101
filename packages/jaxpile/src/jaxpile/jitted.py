"""Function ``jit``, which compiles once for each kind of arguments and keeps the result."""

from __future__ import annotations

import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

import jax
import numpy as np

from jaxpile.cuda.arrays import on_device
from jaxpile.errors import JaxpileError
from jaxpile.registry import Registry
from jaxpile.stages import Compiled, Lowered, lower

BACKENDS = ("llvm", "cuda")


def jit(
    function: Callable | None = None,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: int | Iterable[int] = (),
    donate_argnames: str | Iterable[str] = (),
    backend: str = "llvm",
    translators: Mapping | None = None,
    cache_size: int = 64,
):
    """Compile a function of arrays; used as a decorator, with or without arguments.

    Arguments are pytrees of arrays and numbers. Static arguments are hashable values, and each
    value needs its own program. Results are jax.Arrays on the CPU. With tracers (in jax.grad,
    vmap, jax.jit …) the function itself runs, so that JAX's transformations compose with it. The
    options of jax.jit for donating arguments are accepted, but no argument's memory is
    overwritten.

    ``backend``: "llvm" for this CPU, or "cuda" for a GPU through CuPy. With "cuda", arguments on
    the device are read there, and results stay there if JAX has that GPU. ``translators``: a
    Registry in place of the default one. ``cache_size``: number of compiled programs that are
    kept; the least recently used one is dropped first.

    Raises UnsupportedPrimitive, UnsupportedType and UnsupportedProgram when a call has to compile.
    """
    if function is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            backend=backend,
            translators=translators,
            cache_size=cache_size,
        )
    return Jitted(function, static_argnums, static_argnames, backend, translators, cache_size)


class Jitted:
    """A function with its compiled programs, one for each kind of arguments."""

    def __init__(self, function, static_argnums, static_argnames, backend, translators, cache_size):
        if not callable(function):
            raise TypeError(f"jit compiles functions, and {function!r} is not a function")
        if backend not in BACKENDS:
            raise ValueError(f"backend must be {' or '.join(map(repr, BACKENDS))}, not {backend!r}")
        if cache_size < 1:
            raise ValueError(
                "cache_size is the number of programs kept and must be at least "
                f"1, not {cache_size}"
            )
        functools.update_wrapper(self, function)
        self.function, self.backend, self.cache_size = function, backend, cache_size
        self.name = getattr(function, "__name__", type(function).__name__)
        self.signature = _signature(function)
        self.static_numbers, self.static_names = _statics(
            self.signature, static_argnums, static_argnames
        )
        self.registry = translators
        self.programs: OrderedDict[tuple, Compiled] = OrderedDict()
        self.lock = threading.Lock()
        self.traced = jax.jit(
            function,
            static_argnums=self.static_numbers or None,
            static_argnames=self.static_names or None,
        )

    def __get__(self, instance, owner=None):
        """Bind the instance as the first argument, which is a pytree or static."""
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        if self.static_names or self.static_numbers:
            static, moving, named = self._split(args, kwargs)
        else:
            static, moving, named = (), args, kwargs
        leaves, tree = jax.tree_util.tree_flatten((moving, named))
        kinds = []
        for leaf in leaves:
            if isinstance(leaf, jax.core.Tracer):
                return self.function(*args, **kwargs)
            kinds.append(kind_of(leaf))
        key = (tree, tuple(kinds), static, jax.config.jax_enable_x64)
        compiled = self.programs.get(key)
        if compiled is None:
            compiled = self._lower(args, kwargs, tree).compile()
            with self.lock:
                self.programs[key] = compiled
                while len(self.programs) > self.cache_size:
                    self.programs.popitem(last=False)
        elif len(self.programs) > 1:
            with self.lock:
                if key in self.programs:
                    self.programs.move_to_end(key)
        return compiled.run(leaves)

    def lower(self, *args, **kwargs) -> Lowered:
        """Trace for these arguments. An array argument may be a jax.ShapeDtypeStruct."""
        _, moving, named = self._split(args, kwargs)
        return self._lower(args, kwargs, jax.tree_util.tree_structure((moving, named)))

    def cache_info(self) -> tuple[int, int]:
        """Return the number of compiled programs kept and the largest number allowed."""
        return len(self.programs), self.cache_size

    def clear_cache(self) -> None:
        self.programs.clear()

    def _lower(self, args, kwargs, tree) -> Lowered:
        from jaxpile.primitives import default_registry

        registry = self.registry
        if registry is None:
            registry = default_registry()
        elif not isinstance(registry, Registry):
            registry = Registry(registry)
        args, kwargs = jax.tree_util.tree_map(_traceable, (args, kwargs))
        return lower(self.traced.trace(*args, **kwargs), tree, registry, self.name, self.backend)

    def _split(self, args, kwargs) -> tuple[tuple, tuple, dict]:
        """Split arguments into static values and others.

        Static values are stored by name, so that positional and keyword arguments agree.
        """
        static: list[tuple] = []
        moving: list = []
        parameters = list(self.signature.parameters) if self.signature else []
        for k, value in enumerate(args):
            if k in self.static_numbers:
                static.append((parameters[k] if k < len(parameters) else k, value))
            else:
                moving.append(value)
        named = {}
        for name, value in kwargs.items():
            if name in self.static_names:
                static.append((name, value))
            else:
                named[name] = value
        for name, value in static:
            try:
                hash(value)
            except TypeError:
                raise JaxpileError(
                    f"the static argument {name!r} of {self.name} is of type "
                    f"{type(value).__name__}, "
                    "which has no hash. Pass a tuple, a number or a string, or make the argument "
                    "an array."
                ) from None
        # 1, 1.0 and True are equal, but a program may treat them differently
        typed = tuple(
            sorted(((str(n), type(v).__name__, v) for n, v in static), key=lambda item: item[:2])
        )
        return typed, tuple(moving), named


def kind_of(leaf) -> tuple:
    """Return shape, dtype and weak type of an array argument, as JAX sees it."""
    if isinstance(leaf, jax.Array):
        return leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)  # keys have no weak type
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.shape, leaf.dtype, False
    if isinstance(leaf, bool | int | float | complex):
        return (), type(leaf), True
    if on_device(leaf):
        return tuple(leaf.shape), leaf.dtype, False
    if hasattr(leaf, "__jax_array__") or hasattr(leaf, "__array__"):
        array = jax.numpy.asarray(leaf)
        return array.shape, array.dtype, array.weak_type
    raise TypeError(
        f"{leaf!r} ({type(leaf).__name__}) is not an array. Arguments that are not arrays must "
        "be static. Name them in static_argnames."
    )


def _traceable(leaf):
    """Return the value that JAX traces instead of another library's device array."""
    if isinstance(leaf, jax.Array) or not on_device(leaf):
        return leaf
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def _signature(function):
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _statics(signature, numbers, names) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return numbers and names of the static arguments; each is derived from the other."""
    numbers = (numbers,) if isinstance(numbers, int) else tuple(numbers or ())
    names = (names,) if isinstance(names, str) else tuple(names or ())
    if signature is None:
        return numbers, names
    parameters = list(signature.parameters.values())
    places = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    unknown = [
        name
        for name in names
        if name not in signature.parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters)
    ]
    if unknown:
        raise ValueError(
            f"static_argnames has {unknown[0]!r}, which is not an argument of the function. "
            f"Its arguments are {', '.join(signature.parameters)}"
        )
    numbers = tuple(n % len(places) if n < 0 else n for n in numbers)
    both = {*numbers, *(places.index(name) for name in names if name in places)}
    named = {*names, *(places[n] for n in numbers if n < len(places))}
    keywords = {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}
    return tuple(sorted(both)), tuple(sorted(named & keywords | set(names)))
