"""Operations of Tile IR: their bytecode and the types they take.

Each row is an operation. Its columns are: opcode, name and number of results (``*``: as many as the
bytecode lists) | flags | attributes | operands | number of regions | types.

- ``@13.3`` before the flags or after an attribute means that they exist since that version.
- A name with ``?`` is present if its flag is set. ``*name`` is a list that is preceded by its
  length. ``all`` before the operands means that one length covers all of them.
- The kind of an attribute follows the colon: an enumeration of :data:`ENUMERATIONS`, or a reader in
  :mod:`.body`.
- The types are those of the operands, ``>``, and those of the results. ``f`` is a tile of floats,
  ``i`` of integers, ``n`` of either, ``p`` of pointers, ``a`` of anything, ``b`` of i1. Equal
  letters mean equal types; a letter with ``'`` only has the same shape. ``:name`` is a rule of
  :mod:`.verify`.
"""

from __future__ import annotations

from dataclasses import dataclass

ENUMERATIONS = {
    "atomic": ("and", "or", "xor", "add", "addf", "max", "min", "umax", "umin", "xchg"),
    "ordering": ("unordered", "ordered"),
    "predicate": ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    "overflow": ("none", "nsw", "nuw", "nw"),
    "order": ("weak", "relaxed", "acquire", "release", "acq_rel"),
    "scope": ("tl_blk", "device", "sys"),
    "rounding": (
        "nearest_even",
        "zero",
        "negative_inf",
        "positive_inf",
        "approx",
        "full",
        "nearest_int_to_zero",
        "nearest_away",
    ),
    "sign": ("unsigned", "signed"),
}

_TABLE = """
0 absf 1         | | | source | | f > f
1 absi 1         | | | source | | i > i
2 addf 1         | ftz | rounding:rounding | lhs rhs | | f f > f
3 addi 1         | | overflow:overflow | lhs rhs | | i i > i
4 andi 1         | | | lhs rhs | | i i > i
5 assert 0       | | message:string | condition | | b >
6 assume 1       | | predicate:predicate_of | value | | :same
7 atomic_cas_tko 2 | mask token | order:order scope:scope | pointers cmp val mask? token? | | :atomic
8 atomic_rmw_tko 2 | mask token | order:order scope:scope mode:atomic | pointers arg mask? token? | | :atomic
9 bitcast 1      | | | source | | :bitcast
10 break 0*      | | | all *values | | :leave
11 broadcast 1   | | | source | | :broadcast
12 cat 1         | | dim:int | lhs rhs | | :cat
13 ceil 1        | | | source | | f > f
14 cmpf 1        | | predicate:predicate ordering:ordering | lhs rhs | | f f > b'
15 cmpi 1        | | predicate:predicate sign:sign | lhs rhs | | i i > b'
16 constant 1    | | value:dense | | | :constant
17 continue 0*   | | | all *values | | :leave
18 cos 1         | | | source | | f > f
19 cosh 1        | | | source | | f > f
20 divf 1        | ftz | rounding:rounding | lhs rhs | | f f > f
21 divi 1        | | sign:sign rounding:rounding | lhs rhs | | i i > i
23 exp 1         | | rounding:rounding@13.3 | source | | f > f
24 exp2 1        | ftz | | source | | f > f
37 exti 1        | | sign:sign | source | | i > i'
38 extract 1*    | | | all source *indices | | :extract
39 floor 1       | | | source | | f > f
40 fma 1         | ftz | rounding:rounding | lhs rhs acc | | f f f > f
41 for *         | @13.2 unsigned | | all lower upper step *values | 1 | :for
42 ftof 1        | | rounding:rounding | source | | f > f'
43 ftoi 1        | @13.4 saturating | sign:sign rounding:rounding | source | | f > i'
44 get_global 1  | | name:string | | | :global
45 get_index_space_shape * | | | view | | :sizes
46 get_num_tile_blocks 3 | | | | | :scalars
47 get_tensor_shape * | | | view | | :sizes
48 get_tile_block_id 3 | | | | | :scalars
50 if *          | | | condition | 2 | :if
51 int_to_ptr 1  | | | source | | i > p'
58 iota 1        | | | | | :iota
59 itof 1        | | sign:sign rounding:rounding | source | | i > f'
60 join_tokens 1* | | | all *tokens | | :tokens
61 load_ptr_tko 2 | scope hints mask padding token | order:order scope?:scope hints?:hints | source mask? padding? token? | | :load
62 load_view_tko 2* | scope hints token | order:order scope?:scope hints?:hints inbounds:bools@13.4 | view *indices token? | | :view
63 log 1         | | | source | | f > f
64 log2 1        | | | source | | f > f
65 loop *        | | | all *values | 1 | :loop
66 make_partition_view 1 | | | tensor | | :make_view
67 make_tensor_view 1* | | | base *shape *strides | | :make_tensor
68 make_token 1  | | | | | :tokens
69 maxf 1        | nan ftz | | lhs rhs | | f f > f
70 maxi 1        | | sign:sign | lhs rhs | | i i > i
71 minf 1        | nan ftz | | lhs rhs | | f f > f
72 mini 1        | | sign:sign | lhs rhs | | i i > i
73 mmaf 1        | @13.3 fast | | lhs rhs acc | | :mma
74 mmai 1        | | left:sign right:sign | lhs rhs acc | | :mma
76 mulf 1        | ftz | rounding:rounding | lhs rhs | | f f > f
77 mulhii 1      | | | lhs rhs | | i i > i
78 muli 1        | | overflow:overflow | lhs rhs | | i i > i
79 negf 1        | | | source | | f > f
80 negi 1        | | overflow:overflow@13.2 | source | | i > i
81 offset 1      | | | pointers offset | | p i' > p
82 ori 1         | | | lhs rhs | | i i > i
83 permute 1     | | permutation:integers | source | | :permute
84 pow 1         | | | source exponent | | f f > f
85 print_tko *   | @13.2 token | text:string | *values token? | | :print
86 ptr_to_int 1  | | | source | | p > i'
87 ptr_to_ptr 1  | | | source | | p > q'
88 reduce *      | | dim:int identities:array | all *values | 1 | :fold
89 remf 1        | | | lhs rhs | | f f > f
90 remi 1        | | sign:sign | lhs rhs | | i i > i
91 reshape 1     | | | source | | :reshape
92 return 0*     | | | all *values | | :leave
93 rsqrt 1       | ftz | | source | | f > f
94 scan *        | | dim:int reverse:bool identities:array | all *values | 1 | :fold
95 select 1      | | | condition yes no | | b' a a > a
96 shli 1        | | overflow:overflow | lhs rhs | | i i > i
97 shri 1        | | sign:sign | lhs rhs | | i i > i
98 sin 1         | | | source | | f > f
99 sinh 1        | | | source | | f > f
100 sqrt 1       | ftz | rounding:rounding | source | | f > f
101 store_ptr_tko 1 | scope hints mask token | order:order scope?:scope hints?:hints | pointers value mask? token? | | :store
102 store_view_tko 1* | scope hints token | order:order scope?:scope hints?:hints inbounds:bools@13.4 | value view *indices token? | | :view
103 subf 1       | ftz | rounding:rounding | lhs rhs | | f f > f
104 subi 1       | | overflow:overflow | lhs rhs | | i i > i
105 tan 1        | | | source | | f > f
106 tanh 1       | | rounding:rounding@13.2 | source | | f > f
107 trunci 1     | | overflow:overflow | source | | i > i'
108 xori 1       | | | lhs rhs | | i i > i
109 yield 0*     | | | all *values | | :leave
110 atan2 1      | | | x y | | f f > f
111 pack 1       | | | source | | :pack
112 unpack 1     | | | source | | :pack
113 alloca 1     | global | count:int alignment:int | | | :alloca
115 make_gather_scatter_view 1 | | | tensor | | :make_view
116 make_strided_view 1 | | | tensor | | :make_view
117 atomic_red_view_tko 1* | token | order:order scope:scope mode:atomic | view *indices value token? | | :view
118 insert 1*    | | | all source destination *indices | | :insert
119 gdc_launch_dependents_tko 1 | | | all *tokens | | :tokens
120 gdc_wait_tko 1 | | | all *tokens | | :tokens
121 fpowi 1      | | | source exponent | | f i' > f
122 memory_fence_alias_tko 1 | | | token | | :tokens
"""  # noqa: E501  (a row an operation)

#: Operations that the bytecode can contain and the virtual GPU cannot run: opcode → name.
LACKING = {
    114: "mmaf_scaled",
    123: "multimem_load_reduce_view_tko",
    124: "multimem_reduce_view_tko",
    125: "multimem_store_view_tko",
    16386: "call (preview)",
}


@dataclass(frozen=True)
class Field:
    """A flag, attribute or operand, which can be optional, a list, or new in a version."""

    name: str
    kind: str = ""
    since: tuple[int, int] = (13, 1)
    optional: bool = False
    is_list: bool = False


@dataclass(frozen=True)
class TileOpcode:
    """One row of the table."""

    code: int
    name: str
    results: int  # -1: as many as are listed
    listed: bool  # their number is written
    flags: tuple[str, ...]
    flags_since: tuple[int, int]
    attributes: tuple[Field, ...]
    operands: tuple[Field, ...]
    together: bool  # one number for all operands
    regions: int
    types: str


def _since(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def _row(line: str) -> TileOpcode:
    head, flags, attributes, operands, regions, kinds = (part.strip() for part in line.split("|"))
    code, name, results = head.split()
    words = flags.split()
    since = _since(words.pop(0)[1:]) if words and words[0][0] == "@" else (13, 1)
    found = []
    for attribute in attributes.split():
        attribute, _, when = attribute.partition("@")
        label, kind = attribute.split(":")
        found.append(
            Field(label.rstrip("?"), kind, _since(when) if when else (13, 1), label.endswith("?"))
        )
    names = operands.split()
    together = names[:1] == ["all"]
    fields = tuple(
        Field(one.strip("*?"), optional=one.endswith("?"), is_list=one[0] == "*")
        for one in names[together:]
    )
    return TileOpcode(
        int(code),
        name,
        -1 if results == "*" else int(results.rstrip("*")),
        "*" in results,
        tuple(words),
        since,
        tuple(found),
        fields,
        together,
        int(regions or 0),
        kinds,
    )


OPCODES = {row.code: row for row in map(_row, _TABLE.strip().splitlines())}
