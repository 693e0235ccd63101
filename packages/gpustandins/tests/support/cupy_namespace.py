"""One call or more of every name that CuPy shares with NumPy, to be run on both.

Each line is an expression; ``xp`` is the module, and the arrays are its own.
"""

from __future__ import annotations

import builtins

import numpy as np

#: CuPy 14.2's public names that NumPy 2 has too (functions, types, constants).
NAMES = """
abs absolute acos acosh add all allclose amax amin angle any append apply_along_axis
apply_over_axes arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
argpartition argsort argwhere around array array2string array_equal array_equiv array_repr
array_split array_str asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray asin
asinh astype atan atan2 atanh atleast_1d atleast_2d atleast_3d average bartlett base_repr
binary_repr bincount bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not
bitwise_or bitwise_right_shift bitwise_xor blackman bool bool_ broadcast broadcast_arrays
broadcast_shapes broadcast_to byte c_ can_cast cbrt cdouble ceil choose clip column_stack
common_type complex128 complex64 complexfloating compress concat concatenate conj conjugate
convolve copy copysign copyto corrcoef correlate cos cosh count_nonzero cov cross csingle cumprod
cumsum cumulative_prod cumulative_sum deg2rad degrees delete diag diag_indices diag_indices_from
diagflat diagonal diff digitize divide divmod dot double dsplit dstack dtype e ediff1d einsum
empty empty_like equal euler_gamma exceptions exp exp2 expand_dims expm1 extract eye fabs fft
fill_diagonal finfo fix flatiter flatnonzero flip fliplr flipud float16 float32 float64
float_power floating floor floor_divide fmax fmin fmod format_float_positional
format_float_scientific frexp from_dlpack frombuffer fromfile fromfunction fromiter fromstring
full full_like gcd generic genfromtxt get_printoptions gradient greater greater_equal half hamming
hanning heaviside histogram histogram2d histogramdd hsplit hstack hypot i0 identity iinfo imag
index_exp indices inexact inf inner int16 int32 int64 int8 int_ intc integer interp intersect1d
intp invert isclose iscomplex iscomplexobj isdtype isfinite isfortran isin isinf isnan isneginf
isposinf isreal isrealobj isscalar issubdtype iterable ix_ kaiser kron lcm ldexp left_shift less
less_equal lexsort lib linalg linspace load loadtxt log log10 log1p log2 logaddexp logaddexp2
logical_and logical_not logical_or logical_xor logspace long longlong mask_indices matmul
matrix_transpose max maximum may_share_memory mean median meshgrid mgrid min min_scalar_type
minimum mintypecode mod modf moveaxis multiply nan nan_to_num nanargmax nanargmin nancumprod
nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar ndarray ndim ndindex
negative newaxis nextafter nonzero not_equal number ogrid ones ones_like outer packbits pad
partition percentile permute_dims pi piecewise place poly poly1d polyadd polyfit polymul
polynomial polysub polyval positive pow power printoptions prod promote_types ptp put
put_along_axis putmask quantile r_ rad2deg radians random ravel ravel_multi_index real
real_if_close reciprocal remainder repeat require reshape resize result_type right_shift rint roll
rollaxis roots rot90 round s_ save savetxt savez savez_compressed searchsorted select
set_printoptions setdiff1d setxor1d shape shares_memory short sign signbit signedinteger sin sinc
single sinh size sort sort_complex split sqrt square squeeze stack std subtract sum swapaxes take
take_along_axis tan tanh tensordot testing tile trace transpose trapezoid tri tril tril_indices
tril_indices_from trim_zeros triu triu_indices triu_indices_from true_divide trunc typename typing
ubyte ufunc uint uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong union1d unique unique_all
unique_counts unique_inverse unique_values unpackbits unravel_index unsignedinteger unwrap ushort
vander var vdot vectorize vsplit vstack where zeros zeros_like
""".split()


def arrays(xp) -> dict:
    """The arrays that the expressions name, as arrays of ``xp``."""
    random = np.random.default_rng(4)
    host = {
        "f": random.uniform(0.1, 0.9, 24),  # floats
        "g": random.uniform(0.1, 0.9, 24),
        "s": random.normal(0, 3, 24).astype(np.float32),  # signs
        "i": random.integers(-9, 9, 24),
        "u": random.integers(0, 8, 24).astype(np.uint8),
        "b": random.integers(0, 2, 24).astype(bool),
        "z": random.normal(size=24) + 1j * random.normal(size=24),
        "m": random.normal(size=(4, 6)),
        "q": random.normal(size=(5, 5)) + 4 * np.eye(5),
        "t": random.normal(size=(2, 3, 4)),
        "n": np.array([1.0, np.nan, -2.0, np.inf, 0.0, np.nan]),
        "w": np.array([3, 1, 3, 2, 1, 1]),
        "p": np.sort(random.uniform(0, 1, 6)),
    }
    made = {name: xp.asarray(value) for name, value in host.items()}
    return {**made, "xp": xp, "np": np}


#: Ufuncs by the kind of their arguments; every NumPy ufunc of NAMES is in here once.
UFUNCS = {
    "f": "abs absolute acos arccos arcsin arctan arctanh asin atan atanh cbrt ceil conj conjugate "
    "cos cosh deg2rad degrees exp exp2 expm1 fabs floor frexp log log10 log1p log2 modf "
    "negative positive rad2deg radians reciprocal rint sign signbit sin sinh sqrt square tan "
    "tanh trunc isfinite isinf isnan logical_not arcsinh asinh",
    "f+1": "arccosh acosh",
    "i": "abs absolute bitwise_count bitwise_invert bitwise_not invert negative sign sqrt square "
    "exp positive",
    "s": "abs ceil floor trunc rint sign signbit square sin exp",
    "z": "abs conj conjugate exp sqrt square sin reciprocal negative",
    "n": "isfinite isinf isnan sign abs sqrt",
    "f, g": "add arctan2 atan2 copysign divide divmod equal float_power floor_divide fmax fmin "
    "fmod greater greater_equal heaviside hypot less less_equal logaddexp logaddexp2 "
    "logical_and logical_or logical_xor maximum minimum mod multiply nextafter not_equal "
    "pow power remainder subtract true_divide",
    "i, u": "add bitwise_and bitwise_or bitwise_xor gcd lcm maximum minimum multiply not_equal "
    "subtract true_divide floor_divide mod remainder fmod divmod power",
    "u, u": "left_shift right_shift bitwise_left_shift bitwise_right_shift add gcd lcm",
    "f, i": "ldexp add multiply",
    "z, f": "add subtract multiply divide power equal",
    "b, b": "logical_and logical_or logical_xor bitwise_and add multiply",
    "f, 2": "add power multiply floor_divide maximum",
    "2, f": "subtract power true_divide",
    "u, 3": "add multiply subtract",
}

CALLS = """
all(b); any(b); all(m > 0, axis=0); any(m > 2, axis=1, keepdims=True)
amax(m, axis=0); amin(m, axis=1); max(f); min(i); max(m, axis=(0, 1)); ptp(m, axis=1)
sum(f); sum(u); sum(m, axis=0, keepdims=True); sum(m, axis=(0, 1)); sum(b); sum(s); prod(f)
mean(m, axis=0); mean(i); mean(s); std(f, ddof=1); std(m, axis=1); var(m, axis=1); var(z)
argmax(m, axis=1); argmax(f); argmin(f); argmin(m, axis=0, keepdims=True)
nanargmax(n[:3]); nanargmin(n); nansum(n); nanprod(n); nanmax(n); nanmin(n); nanmean(n[:3])
nanstd(n[:3]); nanvar(n[:3]); nancumsum(n[:3]); nancumprod(n[:3]); nanmedian(n[:3])
median(m, axis=0)
average(m, axis=0); average(f, weights=g); percentile(f, 30); percentile(m, 25, axis=0)
quantile(m, np.array([0.1, 0.5]), axis=1); histogram(f, 5)
histogram(f, bins=5, range=(0, 1), density=True)
histogram(f, weights=g); histogram2d(f, g, bins=4); histogramdd(m, 3); bincount(w)
bincount(w, minlength=9); bincount(w, weights=p); digitize(f, p); digitize(f, p, right=True)
corrcoef(m); cov(m); cov(m, rowvar=False); correlate(f, p); convolve(f, p, 'same'); count_nonzero(b)
count_nonzero(m > 0, axis=1); cumsum(m, axis=1); cumsum(u); cumprod(f); cumulative_sum(f)
cumulative_prod(f); diff(m); diff(f, 2); diff(m, axis=0, prepend=xp.zeros((1, 6))); ediff1d(f)
gradient(f); gradient(m, axis=0); trapezoid(f); trapezoid(m, dx=0.5); interp(g, p, xp.arange(6.0))
unwrap(xp.cumsum(f * 4)); around(m, 1); round(m, 2); round(i, -1); clip(m, -1, 0.5)
clip(f, None, 0.5)
angle(z); angle(z, deg=True); real(z); imag(z); real_if_close(z); nan_to_num(n)
nan_to_num(n, nan=7.0)
i0(f); sinc(s); sinc(f); fix(s); cross(t[:, :, 0], t[:, :, 1]); dot(f, g); dot(m, m.T)
dot(t, q[:4, :2])
vdot(z, z); inner(m, m); outer(f, w); matmul(m, m.T); matmul(t, q[:4])
tensordot(t, t, ([0, 1], [0, 1]))
einsum('ij,kj->ik', m, m); einsum('ii', q); kron(m[:2, :2], q); trace(q); trace(t, axis1=1, axis2=2)
isclose(f, f + 1e-9); allclose(f, f + 1e-9); allclose(f, g); array_equal(f, f); array_equal(f, w)
array_equiv(f, f); iscomplex(z); isreal(z); isneginf(n); isposinf(n); iscomplexobj(z); isrealobj(f)
isfortran(m); isscalar(3.0); ndim(t); shape(t); size(t); size(t, 1); may_share_memory(f, f[2:])
shares_memory(f, g); packbits(b); unpackbits(u); unpackbits(u, bitorder='little')
bartlett(7); blackman(8); hamming(9); hanning(6); kaiser(7, 3.5)
reshape(m, (3, 8)); reshape(m, (8, 3), order='F'); ravel(m); ravel(m, 'F'); moveaxis(t, 0, 2)
rollaxis(t, 2); swapaxes(t, 0, 1); transpose(t); transpose(t, (1, 0, 2)); permute_dims(t, (2, 0, 1))
matrix_transpose(t); atleast_1d(f); atleast_2d(f); atleast_3d(m); broadcast_to(p, (3, 6))
broadcast_arrays(p, m[:, :1]); broadcast_shapes((3, 1), (1, 4)); expand_dims(m, 1); squeeze(m[:1])
flip(m); flip(m, 1); fliplr(m); flipud(m); rot90(m); rot90(m, 3); roll(m, 2); roll(m, 1, axis=1)
require(f, requirements='C'); resize(f, (5, 7)); repeat(w, 3); repeat(m, 2, axis=0); tile(w, (2, 2))
trim_zeros(xp.asarray([0, 0, 1, 2, 0])); concatenate((m, m)); concatenate([f, i])
concat((m, m), axis=1)
stack((f, g)); stack([f, g], axis=1); hstack((f, i)); hstack((m, m)); vstack((f, g)); dstack((m, m))
column_stack((f, g, i)); append(f, g); append(m, m, axis=0); delete(f, 3); delete(m, 1, axis=0)
split(m, 2); array_split(f, 5); hsplit(m, 3); vsplit(m, 2); dsplit(t, 2); pad(m, 1)
pad(f, (2, 3), 'edge')
pad(m, ((1, 0), (2, 2)), mode='reflect'); pad(f, 2, constant_values=5.0)
diag(f); diag(m); diag(q, 1); diagflat(w); diagonal(m); diagonal(t, 1, 1, 2); tril(m); triu(m, 1)
tri(4, 5, 1); vander(p); vander(p, 3, increasing=True)
indices((2, 3)); ix_(xp.asarray([0, 2]), xp.asarray([1, 3])); diag_indices(3); diag_indices_from(q)
tril_indices(4); triu_indices(4, 1); tril_indices_from(q); triu_indices_from(q)
mask_indices(4, xp.triu)
meshgrid(p, w); meshgrid(p, w, indexing='ij'); mgrid[0:3, 0:2]; ogrid[0:3, 0:2]; mgrid[0:1:5j]
r_[f, 1.0, w]; c_[f, g]; unravel_index(w, (2, 3)); ravel_multi_index((w % 2, w), (4, 4))
s_[1:2]; index_exp[1:2]; choose(w % 3, [p, p + 1, p + 2]); compress(b, f)
compress(b[:4], m, axis=0)
extract(b, f); select([f > 0.7, f > 0.3], [f, -f]); take(f, w); take(m, w[:3], axis=1)
take_along_axis(m, xp.argsort(m, axis=1), axis=1); where(b, f, g); where(f > 0.5, f, 0); where(b)
argwhere(m > 0); flatnonzero(b); nonzero(m > 0); searchsorted(p, f)
searchsorted(p, f, side='right')
sort(m); sort(m, axis=0); sort(f); argsort(m, axis=0); argsort(f); partition(f, 3)[3]
argpartition(f, 3)[3]; lexsort(xp.stack((w, -w))); sort_complex(z); unique(w)
unique(w, return_index=True, return_inverse=True, return_counts=True); unique(m % 1 > 0.5, axis=0)
unique_all(w); unique_counts(w); unique_inverse(w); unique_values(w); union1d(w, u)
intersect1d(w, u)
setdiff1d(u, w); setxor1d(u, w); isin(u, w); isin(u, w, invert=True)
poly(p); polyadd(p, w); polysub(p, w); polymul(p, w); polyval(p, f); polyfit(f, g, 2); roots(w)
array([1, 2, 3]); array([[1.0, 2], [3, 4]], order='F'); array(f, dtype=np.float32); array(3.5)
array(i, ndmin=2)
asarray(f); asanyarray(f); asarray_chkfinite(f); ascontiguousarray(m.T); asfortranarray(m); copy(m)
astype(f, np.int32); arange(7); arange(2, 9, 3); arange(0, 1, 0.25); arange(5, dtype=np.float32)
linspace(0, 1, 7); linspace(0, 5, 5, endpoint=False); linspace(2, 3, 4, dtype=np.float32)
logspace(0, 2, 5)
zeros((2, 3)); zeros(4, np.int8); ones((2, 2), np.float32); full((2, 2), 7)
full(3, 2.5, np.float32)
zeros_like(m); ones_like(i); full_like(f, 9); empty((3, 2)).shape; empty_like(m).shape; eye(4)
eye(3, 5, 1)
identity(3); frombuffer(b'abcdefgh', np.uint8); fromfunction(lambda a, b: a + b, (3, 3))
fromiter(range(5), np.int64)
fromstring('1 2 3', sep=' '); array2string(w); array_repr(w); array_str(w); base_repr(10, 3)
binary_repr(9)
format_float_positional(1.25); format_float_scientific(1.25)
apply_along_axis(lambda x: x.sum() * 2, 1, m); apply_over_axes(xp.sum, t, (0, 2))
piecewise(f, [f < 0.3, f > 0.6], [-1, 1]); vectorize(lambda x, y: x + 2 * y)(f, g)
can_cast(np.int8, np.int16); common_type(f, s); result_type(i, s); min_scalar_type(200)
promote_types('i4', 'f4')
isdtype(np.dtype('f4'), 'real floating'); issubdtype(np.int8, np.integer); typename('d')
mintypecode('fd')
iterable([1]); finfo('f4').eps; iinfo('i2').max; dtype('f4'); list(xp.ndindex(2, 2))
get_printoptions()['precision']
broadcast(p, m[:, :1]).shape; poly1d([1.0, 2, 3])(2.0); poly1d(p).coeffs; e; pi; inf
newaxis; euler_gamma
linalg.det(q); linalg.inv(q); linalg.solve(q, p[:5]); linalg.solve(q, q.T); linalg.norm(m)
linalg.norm(m, axis=0)
linalg.norm(f, 1); abs(linalg.svd(m)[1]); linalg.svd(m, compute_uv=False); linalg.eigvalsh(q + q.T)
abs(linalg.qr(q)[1]); linalg.cholesky(q @ q.T); linalg.pinv(m); linalg.matrix_rank(m)
linalg.matrix_power(q, 3)
linalg.slogdet(q); linalg.lstsq(m.T, f[:6], rcond=None)[0]; linalg.cond(q)
linalg.tensorinv(q.reshape(5, 5), ind=1)
linalg.tensorsolve(q, p[:5]); linalg.cross(t[:, :, 0], t[:, :, 1]); linalg.matmul(m, m.T)
linalg.matrix_transpose(t)
xp.sort(linalg.eigvals(q).real); linalg.eigh(q + q.T)[0]; xp.sort(linalg.eig(q)[0].real)
fft.fft(f); fft.ifft(z); fft.fft2(m); fft.ifft2(m); fft.fftn(t); fft.ifftn(t); fft.rfft(f)
fft.irfft(z)
fft.rfft2(m); fft.irfft2(m); fft.rfftn(t); fft.irfftn(t); fft.hfft(z); fft.ihfft(f)
fft.fftfreq(7, 0.1)
fft.rfftfreq(7); fft.fftshift(m); fft.ifftshift(f); fft.fft(f, norm='ortho'); fft.fft(s)
lib.stride_tricks.as_strided(f, (3, 4), (8, 16)); lib.stride_tricks.sliding_window_view(f, 5)
polynomial.polynomial.polyval(f, p); polynomial.polynomial.polyvander(f, 3)
polynomial.polynomial.polycompanion(p)
"""

#: Statements that change an array: what is compared is the array.
WRITES = """
put(a, [1, 3], 9.0); put_along_axis(a, xp.asarray([0, 2]), 5.0, 0); place(a, a > 0.5, [1.0, 2.0])
putmask(a, a > 0.5, a * 10); copyto(a, 3.0); copyto(a, a[::-1].copy(), where=a > 0.4)
fill_diagonal(a.reshape(4, 6), 7.0)
"""

#: Files: each writes with ``xp`` and reads with ``xp``.
FILES = [
    "save load",
    "savez load",
    "savez_compressed load",
    "savetxt loadtxt",
    "savetxt genfromtxt",
    "tofile fromfile",
]


def calls() -> list[str]:
    """All expressions, each beginning with the name it tests."""
    made = [f"{name}({args})" for args, names in UFUNCS.items() for name in names.split()]
    made += [one.strip() for line in CALLS.strip().splitlines() for one in _split(line)]
    return made


def writes() -> list[str]:
    return [one.strip() for line in WRITES.strip().splitlines() for one in line.split(";")]


def name_of(call: str) -> str:
    """The name of NumPy's namespace that an expression is about."""
    for ahead in ("xp.sort(", "abs(", "list("):
        if call.startswith((ahead + "linalg", ahead + "xp")):
            call = call.removeprefix(ahead)
    return call.removeprefix("xp.").split("(")[0].split("[")[0].split(".")[0].strip()


def evaluate(call: str, names: dict):
    """The value of an expression; names that are not arrays are looked up in ``xp``."""

    class Names(dict):
        def __missing__(self, key):
            return getattr(builtins if key in ("range", "list") else names["xp"], key)

    return eval(call, {"__builtins__": {}}, Names(names))


def _split(line: str) -> list[str]:
    return [one for one in line.split(";") if one.strip()]
