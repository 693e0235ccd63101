"""``ReductionKernel``: map each element, reduce along axes, and map each result."""

from __future__ import annotations

import operator

import numpy as np

from virtualgpu.standins.interface import Argument, source_path

from .._arrays import core
from .._arrays.operands import as_array
from . import kernel
from .code import prelude, quoted, type_name

BLOCK = 512  # threads, as in a CuPy reduction


class ReductionKernel(kernel.GeneratedKernel):
    """Kernel that reduces its inputs along axes.

    >>> l2norm = cupy.ReductionKernel(
    ...     "T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")

    Each call is one launch, in which a block of 512 threads computes one result, or several if the
    axis is short. Each thread first reduces elements at a constant stride; then the block halves
    the partial results step by step in shared memory. The order of additions differs from CuPy's,
    which guarantees none, so sums can differ in the last bits.

    Parameters
    ----------
    in_params, out_params : str
        Declarations as for :class:`ElementwiseKernel`; one output.
    map_expr : str
        An expression that maps an element of the inputs to the value to reduce.
    reduce_expr : str
        An expression of two such values, ``a`` and ``b``.
    post_map_expr : str
        A statement that assigns the output from the reduced value ``a``.
    identity : str
        The start value. With ``None`` or '', the input must not be empty.
    name : str
    reduce_type : str, optional
        C++ type of the values to reduce; by default that of the output.
    reduce_dims : bool
        If True, dimensions are merged where the arrays allow it.
    preamble : str
        C++ code before the kernel.
    options : tuple of str
        Compiler options for NVRTC.
    """

    _kind = "reduction"

    def __init__(
        self,
        in_params,
        out_params,
        map_expr,
        reduce_expr,
        post_map_expr,
        identity,
        name="reduce_kernel",
        reduce_type=None,
        reduce_dims=True,
        preamble="",
        options=(),
    ):
        self._init(in_params, out_params, name, options)
        if self.nout != 1:
            raise ValueError(f"a reduction has one output, but {self.nout} are declared")
        if reduce_type is None:
            reduce_type = self.out_params[0].ctype
        self.map_expr, self.reduce_expr, self.post_map_expr = map_expr, reduce_expr, post_map_expr
        self.identity = self._start = "" if identity is None else str(identity)
        self.reduce_type, self.reduce_dims, self.preamble = reduce_type, reduce_dims, preamble

    def __call__(self, *args, out=None, axis=None, keepdims=False, stream=None):
        """Compile the kernel for the argument types if necessary, and launch it.

        Parameters
        ----------
        args : cupy.ndarray or numbers
            The inputs, broadcast against each other; the output may follow.
        out : cupy.ndarray, optional
        axis : int or tuple of int, optional
            The axes to reduce; all by default.
        keepdims : bool
            If True, the reduced axes remain as axes of length 1.

        Returns
        -------
        cupy.ndarray

        Raises
        ------
        ValueError
            If there is neither an element nor an identity, if an axis is repeated, or if shapes do
            not match.
        """
        self._count(len(args))
        given = list(args[self.nin :])
        if out is not None:
            if given:
                raise ValueError("cannot specify 'out' as both a positional and keyword argument")
            given = [out]
        given = [one if (array := as_array(one)) is None else array for one in given]
        values = [kernel.operand(value) for value in args[: self.nin]]
        if any(not isinstance(one, core.ndarray) for one in given):
            raise TypeError("Output arguments type must be cupy.ndarray")
        in_types, out_types, meaning = kernel.resolve_types(
            self.in_params,
            self.out_params,
            [value.dtype if is_array else None for value, is_array in values],
            [one.dtype for one in given],
        )
        operands = [
            value if is_array else kernel.number(value, wanted)
            for (value, is_array), wanted in zip(values, in_types, strict=True)
        ]
        operands, shape = kernel.broadcast(operands, self.in_params)
        if shape is None:
            raise ValueError("Loop size is undecided.")
        reduced, kept = _axes(axis, len(shape))
        out_shape = tuple(
            1 if i in reduced else length for i, length in enumerate(shape) if keepdims or i in kept
        )
        (result,) = kernel.new_outputs(self.out_params, out_types, out_shape, given)
        if result.size == 0:
            return result
        if 0 in shape and not self.identity:
            raise ValueError(
                f"zero-size array to reduction operation {self.name} which has no identity"
            )
        arrays = [one for one in operands if one.is_array]
        if (
            len(arrays) == 1
            and not arrays[0].contiguous
            and not any(one.raw for one in self.in_params)
        ):
            # Reduce in memory order, so that neighbouring elements are read together.
            reduced = tuple(sorted(reduced, key=lambda axis: -abs(arrays[0].strides[axis])))
        self._launch(operands, shape, reduced + kept, len(reduced), result, meaning, stream)
        return result

    def _launch(self, operands, shape, order, reduced: int, result, meaning, stream) -> None:
        if order != tuple(range(len(order))):
            if any(one.raw for one in self.in_params):
                raise NotImplementedError(
                    f"{self.name}: with a raw parameter only the first axes can be reduced: "
                    "transpose the others"
                )
            operands = [_transpose(one, order) if one.is_array else one for one in operands]
            shape = tuple(shape[axis] for axis in order)
        # Neighbouring threads should read neighbouring elements, either of one result or of
        # several.
        nearest = min(
            (
                axis
                for one in operands
                if one.is_array
                for axis in range(len(shape))
                if len(one.strides) == len(shape) and one.strides[axis]
            ),
            key=lambda axis: min(
                abs(one.strides[axis])
                for one in operands
                if one.is_array and len(one.strides) == len(shape)
            ),
            default=0,
        )
        along = nearest < reduced
        size = int(np.prod(shape, dtype=np.int64))
        if self.reduce_dims and 0 not in shape:
            operands, shape = kernel.squash(operands, self.in_params, shape)
        output = kernel.output(result)
        (output,), out_shape = kernel.squash([output], self.out_params, output.shape)
        count = output.size
        lanes = 1 << max(0, min(BLOCK, max(1, size // count)) - 1).bit_length()
        function = self._function([*operands, output], (len(shape), len(out_shape)), meaning)
        per_block = BLOCK // lanes
        arguments = [
            *(one.argument() for one in (*operands, output)),
            kernel.indexer(shape),
            kernel.indexer(out_shape),
            Argument(np.array([lanes, along], np.int32).tobytes()),
        ]
        function((-(-count // per_block),), (BLOCK,), arguments, stream=stream, size=size)

    def _code(self, operands, dimensions: tuple[int, int], meaning: dict[str, np.dtype]) -> str:
        *operands, output = operands
        declared, elements = [], []
        for one, given in zip(self.in_params, operands, strict=True):
            is_element = given.is_array and not one.raw
            declared.append(f"const {given.c_type()} {'_raw_' if is_element else ''}{one.name}")
            if is_element:
                elements.append(f"const {one.ctype} &{one.name} = _raw_{one.name}[_in_ind.get()];")
        (result,) = self.out_params
        declared += [
            f"{output.c_type()} _raw_{result.name}",
            f"CIndexer<{dimensions[0]}> _in_ind",
            f"CIndexer<{dimensions[1]}> _out_ind",
            "const _Plan _plan",
        ]
        elements = "\n            ".join(elements)
        path = source_path(self.map_expr, f"{self.name} (map)")
        return f"""{prelude(one.dtype for one in (*operands, output))}{kernel.typedefs(meaning)}
typedef long long IndexT;
struct _Plan {{ int lanes, along; }};
{quoted(self.preamble, f"{self.name} (preamble)") if self.preamble else ""}
#define REDUCE(a, b) ({_one_line(self.reduce_expr)})
#define POST_MAP(a) ({_one_line(self.post_map_expr)})
typedef {self.reduce_type} _type_reduce;
extern "C" __global__ void {self.name}({", ".join(declared)}) {{
    __shared__ __align__(16) char _memory[{BLOCK} * sizeof(_type_reduce)];
    _type_reduce *_shared = reinterpret_cast<_type_reduce *>(_memory);
    const int _tid = threadIdx.x, _results = {BLOCK} / _plan.lanes;
    // Which of the block's results this thread works for, and as which of its lanes.
    const int _lane = _plan.along ? _tid % _plan.lanes : _tid / _results;
    const int _mine = _plan.along ? _tid / _plan.lanes : _tid % _results;
    const int _step = _plan.along ? 1 : _results;
    const ptrdiff_t _i = ptrdiff_t(blockIdx.x) * _results + _mine;
    _type_reduce _s = _type_reduce({self._start});
    if (_i < _out_ind.size()) {{
        IndexT _J = _lane;
        for (ptrdiff_t _j = _i + _lane * _out_ind.size(); _j < _in_ind.size();
             _j += _plan.lanes * _out_ind.size(), _J += _plan.lanes) {{
            _in_ind.set(_j);
            {elements}
#line 1 "{path}"
            _type_reduce _a = static_cast<_type_reduce>({_one_line(self.map_expr)});
#line 1 "generated by CuPy"
            _s = REDUCE(_s, _a);
        }}
    }}
    _shared[_tid] = _s;
    __syncthreads();
    for (int _half = _plan.lanes / 2; _half > 0; _half /= 2) {{
        if (_lane < _half) {{
            _type_reduce _a = _shared[_tid], _b = _shared[_tid + _half * _step];
            _shared[_tid] = REDUCE(_a, _b);
        }}
        __syncthreads();
    }}
    if (_lane == 0 && _i < _out_ind.size()) {{
        _s = _shared[_tid];
        _out_ind.set(_i);
        {type_name(output.dtype)} &{result.name} = _raw_{result.name}[_out_ind.get()];
        POST_MAP(_s);
    }}
}}
"""


def _one_line(expression: str) -> str:
    return " ".join(expression.split("\n"))


def _axes(axis, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes to reduce and the axes to keep, in order.

    Raises AxisError or ValueError.
    """
    if axis is None:
        return tuple(range(ndim)), ()
    wanted = axis if isinstance(axis, tuple | list) else (axis,)
    reduced = []
    for one in map(operator.index, wanted):
        if not -ndim <= one < ndim:
            raise np.exceptions.AxisError(one, ndim)
        reduced.append(one % ndim)
    if len(set(reduced)) != len(reduced):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(reduced)), tuple(i for i in range(ndim) if i not in reduced)


def _transpose(one: kernel.Operand, order: tuple[int, ...]) -> kernel.Operand:
    return one._replace(
        shape=tuple(one.shape[axis] for axis in order),
        strides=tuple(one.strides[axis] for axis in order),
        contiguous=False,
    )
