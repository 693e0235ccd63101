"""Numba's own types in kernels of numba-cuda-mlir, which accepts only its own types.

Programs for ``numba.cuda`` contain ``from numba import cuda, float32``. If ``numba.cuda`` refers
to the successor (:mod:`virtualgpu.successor.choice`), ``float32`` then means the successor's type
of that name, in a kernel, in a signature, or as the element type of a shared array.

It relies on these parts of numba-cuda-mlir 0.6: ``typeof_impl`` gives types to a kernel's globals,
and signatures pass through ``sigutils.is_signature`` and ``sigutils.normalize_signature``.
"""

from __future__ import annotations

from typing import Any


def accept() -> None:
    """Make the successor accept Numba's types from now on."""
    from numba.core import types, typing
    from numba_cuda_mlir.numba_cuda.core import sigutils
    from numba_cuda_mlir.numba_cuda.typing import typeof

    typeof_impl: Any = typeof.typeof_impl

    def type_of_numbas(value: Any, context: Any) -> Any:
        return typeof_impl(successors(value), context)

    typeof_impl.register(types.Type, type_of_numbas)
    is_signature, normalize = sigutils.is_signature, sigutils.normalize_signature

    def normalize_signature(signature: Any) -> Any:
        if isinstance(signature, tuple):
            signature = tuple(map(successors, signature))
        elif isinstance(signature, typing.Signature):
            from numba_cuda_mlir.numba_cuda import typing as successor

            signature = successor.signature(
                successors(signature.return_type), *map(successors, signature.args)
            )
        return normalize(signature)

    sigutils.normalize_signature = normalize_signature
    sigutils.is_signature = lambda signature: (
        is_signature(signature) or isinstance(signature, typing.Signature)
    )


def successors(kind: Any) -> Any:
    """Return the successor's type for Numba's type ``kind``; others are returned unchanged.

    Raises TypeError for a type that the successor lacks.
    """
    from numba.core import types
    from numba_cuda_mlir.numba_cuda import types as successor

    if not isinstance(kind, types.Type):
        return kind
    if isinstance(kind, types.Array):
        return successor.Array(
            successors(kind.dtype),
            kind.ndim,
            kind.layout,
            readonly=not kind.mutable,
            aligned=kind.aligned,
        )
    if isinstance(kind, types.NumberClass):
        return successor.NumberClass(successors(kind.instance_type))
    if isinstance(kind, types.BaseTuple):
        return successor.BaseTuple.from_types([successors(item) for item in kind])
    if isinstance(kind, types.Number | types.Boolean | types.NoneType):
        return getattr(successor, kind.name)
    raise TypeError(f"numba-cuda-mlir has no type that corresponds to Numba's {kind}")
