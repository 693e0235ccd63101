"""Mutations of real PTX: words are swapped, deleted, doubled or made extreme."""

from __future__ import annotations

import re
from functools import cache
from random import Random

SOURCE = r"""
struct Pair { double weight; int count[3]; };
typedef float (*Unary)(float);
__device__ float half_of(float x) { return x / 2; }
__device__ float square(float x) { return x * x; }
__device__ Unary unary[2] = {half_of, square};
__constant__ float coefficients[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ int total;

__noinline__ __device__ Pair make(int i)
{
    Pair p; p.weight = sqrt((double)i);
    for (int j = 0; j < 3; j++) p.count[j] = i + j;
    return p;
}
__noinline__ __device__ double take(Pair p, int k) { return p.weight + p.count[k % 3]; }
__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void add(const float *a, float *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i] + coefficients[i & 7] * __sinf(a[i]);
}
extern "C" __global__ void reduce(const float *a, float *b, int n)
{
    __shared__ float tile[64];
    tile[threadIdx.x % 64] = a[threadIdx.x % n];
    for (int half = 32; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];
    }
    if (threadIdx.x == 0) atomicAdd(b, tile[0]);
}
extern "C" __global__ void calls(const float *a, double *b, int n)
{
    int i = threadIdx.x;
    b[i % n] = take(make(i), i) + fibonacci(i % 7) + unary[i % 2](a[i % n]);
    switch (i % 5) { case 0: b[0] = 1; break; case 1: b[1] /= 3; break;
                     case 2: total += i; break; case 3: printf("%d %f\n", i, b[0]); break; }
}
extern "C" __global__ void warps(const int *a, unsigned *b, int n)
{
    int v = a[threadIdx.x % n], scratch[4] = {v, v + 1, v + 2, v + 3};
    for (int i = 16; i; i /= 2) v += __shfl_down_sync(0xffffffff, v, i);
    unsigned same = __match_any_sync(0xffffffff, v & 3);
    unsigned votes = __ballot_sync(0xffffffff, v > 3);
    asm volatile("{ .reg .pred %%p1; setp.gt.u32 %%p1, %1, 3; @%%p1 bra Done;\n"
                 "add.u32 %0, %1, 1;\nDone: }" : "=r"(same) : "r"(votes));
    __syncwarp();
    b[threadIdx.x % n] = same ^ scratch[v & 3] ^ __popc(votes);
    __threadfence();
    while (atomicCAS(b, 0u, 1u) == 7u) __nanosleep(10);
}
"""
_WORD = re.compile(r"[.%$\w]+|\s+|.", re.DOTALL)
_EXTREMES = (
    "0",
    "-1",
    "1",
    "31",
    "64",
    "4096",
    "65536",
    "2147483647",
    "4294967296",
    "-2147483648",
    "0x7fffffffffffffff",
    "18446744073709551615",
    "99999999999999999999999",
    "08",
    "0f7F800000",
    "0d8000000000000000",
    "0fZZ",
    "1.5",
)
_WORDS = (
    ";",
    ",",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "@",
    "!",
    "|",
    ":",
    "+",
    "-",
    "=",
    "<",
    ">",
    '"',
    "/*",
    "//",
    "\0",
    "é",
    ".global",
    ".shared",
    ".local",
    ".param",
    ".reg",
    ".pred",
    ".b32",
    ".b64",
    ".f64",
    ".v4",
    ".entry",
    ".func",
    ".visible",
    ".extern",
    ".loc",
    ".file",
    "ret",
    "bra",
    "call",
    "exit",
    "bar.sync",
    "_",
    "%r1",
    "%rd1",
    "%p1",
    "%tid.x",
    "generic",
)


@cache
def corpus() -> tuple[list[str], ...]:
    """Return the PTX of :data:`SOURCE` as words, one text per kernel with all that it uses."""
    from virtualgpu.compilers.nvrtc import compile_to_ptx

    shared, *kernels = re.split(r"(?=extern \"C\")", SOURCE)
    texts = [compile_to_ptx(shared + kernel)[0] for kernel in kernels]
    texts.append(compile_to_ptx(shared + kernels[1], options=("-G",))[0])
    return tuple(_WORD.findall(t) for t in texts)


def mutated(random: Random) -> str:
    """Return one text of the corpus with one to eight mutations."""
    words = list(random.choice(corpus()))
    for _ in range(1 << random.randrange(4)):
        _mutate(random, words)
    return "".join(words)


def _mutate(random: Random, words: list[str]) -> None:
    at = random.randrange(len(words))
    lot = random.random()
    if lot < 0.25:  # replace a word by another of the text
        words[at] = random.choice(words)
    elif lot < 0.35:
        words[at] = random.choice(_WORDS)
    elif lot < 0.55:  # replace the next number by an extreme one
        while at < len(words) and not words[at].isdigit():
            at += 1
        if at < len(words):
            words[at] = random.choice(_EXTREMES)
    elif lot < 0.65:
        del words[at]
    elif lot < 0.72:
        words.insert(at, words[at])
    elif lot < 0.80:  # swap two ranges of words
        other, length = random.randrange(len(words)), random.randrange(1, 40)
        one, two = words[at : at + length], words[other : other + length]
        words[at : at + length] = two
        words[other : other + length] = one
    elif lot < 0.88:  # delete a range of words
        del words[at : at + random.randrange(1, 60)]
    elif lot < 0.96:  # change a modifier
        while at < len(words) and words[at].count(".") < 1:
            at += 1
        if at < len(words):
            parts = words[at].split(".")
            parts[random.randrange(len(parts))] = random.choice(
                (
                    "u32",
                    "s64",
                    "f16",
                    "f64",
                    "b8",
                    "pred",
                    "v2",
                    "global",
                    "shared",
                    "sync",
                    "cc",
                    "sat",
                    "rn",
                    "wide",
                    "hi",
                    "f16x2",
                    "b128",
                    "approx",
                    "",
                )
            )
            words[at] = ".".join(parts)
    else:  # replace a register or name
        names = [w for w in words[:400] if w[:1] in "%_$L"] or words
        words[at] = random.choice(names)


def soup(random: Random) -> str:
    """Return PTX words in random order, after a header that lets the parser start."""
    words = random.choice(corpus())
    begin = random.randrange(len(words))
    cut = words[begin : begin + random.randrange(200)]
    random.shuffle(cut)
    odd = [random.choice(_WORDS + _EXTREMES) for _ in range(random.randrange(20))]
    head = ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p1)\n{"
    return head + " ".join([*cut, *odd])
