"""The only list of the names that CuPy shares with NumPy, and of their implementations.

Each line of :data:`ROUTINES` is a signature of CuPy 14.2 with these marks:

- ``a*``: must be a device array (or a scalar); anything else raises TypeError, as for a kernel's
  argument. ``a**``: a tuple or list of such arrays. ``a***``: lists are also accepted, but NumPy
  arrays are not.
- ``a``: lists and NumPy arrays are also accepted.
- ``!`` at the end: the function writes into its first argument.
- ``-> kernel``: the function launches only this kernel. Without this mark, the recorder's entry
  says that the number of kernels is unknown; no kernel is recorded for a view of an argument.
- ``= host``: the result stays on the host.

NumPy's function of the same name computes the result. Ufuncs are in ``_ufunc``, reductions in
``_reductions`` and creation functions in ``_creation``; ``_special`` contains the functions that a
line cannot describe.
"""

from __future__ import annotations

ROUTINES = """
# shape and order
reshape(a*, newshape, order='C', *, copy=None)
ravel(a*, order='C')
moveaxis(a*, source, destination)
rollaxis(a*, axis, start=0)
swapaxes(a*, axis1, axis2)
transpose(a*, axes=None)
permute_dims(a*, axes=None)
matrix_transpose(x*, /)
atleast_1d(*arys)
atleast_2d(*arys)
atleast_3d(*arys)
broadcast_to(array*, shape)
broadcast_arrays(*args*)
expand_dims(a*, axis)
squeeze(a*, axis=None)
flip(a*, axis=None)
fliplr(a*)
flipud(a*)
rot90(a*, k=1, axes=(0, 1))
roll(a*, shift, axis=None)
resize(a, new_shape)
repeat(a*, repeats***, axis=None)
tile(A, reps)
trim_zeros(filt*, trim='fb')
# joining and splitting
stack(tup**, axis=0, out=None, *, dtype=None, casting='same_kind')
hstack(tup**, *, dtype=None, casting='same_kind')
vstack(tup**, *, dtype=None, casting='same_kind')
dstack(tup**)
row_stack(tup**, *, dtype=None, casting='same_kind')
column_stack(tup**)
append(arr, values, axis=None)
delete(arr*, indices, axis=None)
split(ary*, indices_or_sections, axis=0)
array_split(ary*, indices_or_sections, axis=0)
hsplit(ary*, indices_or_sections)
vsplit(ary*, indices_or_sections)
dsplit(ary*, indices_or_sections)
pad(array, pad_width, mode='constant', **kwargs)
# matrices
diag(v, k=0)
diagflat(v, k=0)
diagonal(a*, offset=0, axis1=0, axis2=1)
tril(m, k=0)
triu(m, k=0)
vander(x, N=None, increasing=False)
trace(a*, offset=0, axis1=0, axis2=1, dtype=None, out=None)
# indices
indices(dimensions, dtype=int)
ix_(*args)
diag_indices(n, ndim=2)
diag_indices_from(arr*)
tril_indices(n, k=0, m=None)
triu_indices(n, k=0, m=None)
tril_indices_from(arr*, k=0)
triu_indices_from(arr*, k=0)
meshgrid(*xi*, **kwargs)
unravel_index(indices*, dims, order='C')
ravel_multi_index(multi_index, dims, mode='wrap', order='C')
choose(a*, choices, out=None, mode='raise')
compress(condition, a*, axis=None, out=None)
extract(condition, a*)
select(condlist**, choicelist**, default*=0)
take_along_axis(a*, indices*, axis)
put_along_axis(arr*, indices*, values, axis) !
place(arr*, mask, vals) !
putmask(a*, mask*, values*) !
fill_diagonal(a*, val, wrap=False) !
# searching and sorting
argwhere(a*)
flatnonzero(a*)
nonzero(a*)
searchsorted(a*, v*, side='left', sorter=None) -> cupy_searchsorted_kernel
sort(a*, axis=-1, kind=None)
argsort(a*, axis=-1, kind=None)
partition(a*, kth, axis=-1)
argpartition(a*, kth, axis=-1)
lexsort(keys)
sort_complex(a*)
unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, \
equal_nan=True)
unique_all(x)
unique_counts(x)
unique_inverse(x)
unique_values(x)
union1d(arr1*, arr2*)
intersect1d(arr1*, arr2*, assume_unique=False, return_indices=False)
setdiff1d(ar1*, ar2*, assume_unique=False)
setxor1d(ar1*, ar2*, assume_unique=False)
isin(element*, test_elements*, assume_unique=False, invert=False)
count_nonzero(a*, axis=None)
# statistics
average(a, axis=None, weights=None, returned=False, *, keepdims=False)
median(a*, axis=None, out=None, overwrite_input=False, keepdims=False)
nanmedian(a*, axis=None, out=None, overwrite_input=False, keepdims=False)
percentile(a*, q, axis=None, out=None, overwrite_input=False, method='linear', keepdims=False)
quantile(a*, q, axis=None, out=None, overwrite_input=False, method='linear', keepdims=False)
histogram(x*, bins=10, range=None, density=False, weights=None)
histogram2d(x*, y*, bins=10, range=None, weights=None, density=None)
histogramdd(sample, bins=10, range=None, weights=None, density=False)
bincount(x*, weights=None, minlength=0)
digitize(x*, bins*, right=False)
corrcoef(a, y=None, rowvar=True, *, dtype=None)
cov(a, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None)
correlate(a*, v*, mode='valid')
convolve(a*, v*, mode='full')
# mathematics
around(a, decimals=0, out=None) -> cupy_round
round(a, decimals=0, out=None) -> cupy_round
angle(z*, deg=False) -> cupy_angle
real(val)
imag(val)
real_if_close(a*, tol=100)
nan_to_num(x*, copy=True, nan=0.0, posinf=None, neginf=None) -> cupy_nan_to_num
interp(x*, xp*, fp*, left=None, right=None, period=None) -> cupy_interp
unwrap(p, discont=None, axis=-1, *, period=6.283185307179586)
i0(x*) -> cupy_i0
sinc(x*) -> cupy_sinc
fix(x*) -> cupy_fix
cumulative_sum(x*, /, *, axis=None, dtype=None, out=None, include_initial=False)
cumulative_prod(x*, /, *, axis=None, dtype=None, out=None, include_initial=False)
nancumsum(a*, axis=None, dtype=None, out=None)
nancumprod(a*, axis=None, dtype=None, out=None)
diff(a, n=1, axis=-1, prepend=None, append=None)
ediff1d(arr*, to_end=None, to_begin=None)
gradient(f, *varargs, axis=None, edge_order=1)
trapezoid(y*, x=None, dx=1.0, axis=-1)
cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None)
dot(a*, b*, out=None)
vdot(a*, b*)
inner(a*, b*)
outer(a*, b*, out=None)
matmul(x1*, x2*, /, out=None, *, casting='same_kind', order='K', dtype=None, axes=None)
tensordot(a*, b*, axes=2)
einsum(*operands, **kwargs)
kron(a*, b*)
# logic
isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False) -> cupy_is_close
allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False)
array_equal(a1*, a2*, equal_nan=False)
array_equiv(a1*, a2*)
iscomplex(x)
isreal(x)
isneginf(x*, out=None)
isposinf(x*, out=None)
iscomplexobj(x) = host
isrealobj(x) = host
isfortran(a*) = host
isscalar(element) = host
ndim(a) = host
shape(a) = host
size(a, axis=None) = host
may_share_memory(a*, b*, max_work=None) = host
shares_memory(a*, b*, max_work=None) = host
# bits
packbits(a*, axis=None, bitorder='big')
unpackbits(a*, axis=None, bitorder='big')
# windows
bartlett(M) -> cupy_bartlett
blackman(M) -> cupy_blackman
hamming(M) -> cupy_hamming
hanning(M) -> cupy_hanning
kaiser(M, beta) -> cupy_kaiser
# polynomials
poly(seq_of_zeros)
polyfit(x*, y*, deg, rcond=None, full=False, w=None, cov=False)
roots(p)
# text
array2string(a, *args, **kwargs) = host
array_repr(arr, max_line_width=None, precision=None, suppress_small=None) = host
array_str(arr, max_line_width=None, precision=None, suppress_small=None) = host
base_repr(number, base=2, padding=0) = host
binary_repr(num, width=None) = host
format_float_positional(x, *args, **kwargs) = host
format_float_scientific(x, *args, **kwargs) = host
"""

LINALG = """
cholesky(a*)
cond(x, p=None)
cross(x1*, x2*, /, *, axis=-1)
det(a*)
eig(a*)
eigh(a*, UPLO='L')
eigvals(a*)
eigvalsh(a*, UPLO='L')
inv(a*)
lstsq(a*, b*, rcond=None)
matmul(x1*, x2*, /, out=None, *, casting='same_kind', order='K', dtype=None)
matrix_power(M*, n)
matrix_transpose(a*)
norm(x*, ord=None, axis=None, keepdims=False)
pinv(a*, rcond=1e-15)
qr(a*, mode='reduced')
slogdet(a*)
solve(a*, b*)
svd(a*, full_matrices=True, compute_uv=True)
tensorinv(a*, ind=2)
tensorsolve(a*, b*, axes=None)
"""

FFT = """
fft(a*, n=None, axis=-1, norm=None)
ifft(a*, n=None, axis=-1, norm=None)
fft2(a*, s=None, axes=(-2, -1), norm=None)
ifft2(a*, s=None, axes=(-2, -1), norm=None)
fftn(a*, s=None, axes=None, norm=None)
ifftn(a*, s=None, axes=None, norm=None)
rfft(a*, n=None, axis=-1, norm=None)
irfft(a*, n=None, axis=-1, norm=None)
rfft2(a*, s=None, axes=(-2, -1), norm=None)
irfft2(a*, s=None, axes=(-2, -1), norm=None)
rfftn(a*, s=None, axes=None, norm=None)
irfftn(a*, s=None, axes=None, norm=None)
hfft(a*, n=None, axis=-1, norm=None)
ihfft(a*, n=None, axis=-1, norm=None)
fftfreq(n, d=1.0)
rfftfreq(n, d=1.0)
fftshift(x, axes=None)
ifftshift(x, axes=None)
"""

#: Names that CuPy imports from NumPy unchanged: types, constants and host helpers.
BORROWED = """
bool bool_ broadcast_shapes byte cdouble complex128 complex64 complexfloating csingle double dtype
e euler_gamma finfo float16 float32 float64 floating generic get_printoptions half iinfo index_exp
inexact inf int16 int32 int64 int8 int_ intc integer intp isdtype issubdtype iterable long
longlong mintypecode nan ndindex newaxis number pi printoptions promote_types s_ set_printoptions
short signedinteger single typename ubyte uint uint16 uint32 uint64 uint8 uintc uintp ulong
ulonglong unsignedinteger ushort
""".split()

#: CuPy names that NumPy 2 has dropped, with their values in CuPy.
DROPPED = {
    "Inf": "inf",
    "Infinity": "inf",
    "infty": "inf",
    "PINF": "inf",
    "NAN": "nan",
    "NaN": "nan",
    "cfloat": "complex128",
    "complex_": "complex128",
    "float_": "float64",
    "singlecomplex": "complex64",
}

#: Aliases: another name for the same function.
SAME = {
    "trapz": "trapezoid",
    "round_": "round",
    "cumproduct": "cumprod",
    "in1d": "isin",
}

#: Public names of CuPy 14.2 that raise NotImplementedError here, with alternatives.
MISSING = {
    "fromDlpack": "cupy.from_dlpack",
    "make_aligned_dtype": "numpy.dtype(..., align=True)",
    "set_string_function": "cupy.set_printoptions (NumPy 2 has dropped this function)",
    "find_common_type": "cupy.promote_types or cupy.result_type (NumPy 2 has dropped this "
    "function)",
    "get_array_wrap": "code without this function, which NumPy 2 has dropped",
    "disp": "print (NumPy 2 has dropped this function)",
    "safe_eval": "ast.literal_eval (NumPy 2 has dropped this function)",
    "who": "dir()",
}
