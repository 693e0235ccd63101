"""PTX text becomes the right records, and malformed text a PTXSyntaxError that quotes its line."""

from __future__ import annotations

import pytest

from ptx_lab import HEADER
from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction
from virtualgpu.ptx import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Register,
    Symbol,
    Vector,
    parse,
)


def function(body: str, parameters: str = "", before: str = "") -> Function:
    return parse(f"{HEADER}{before}\n.visible .entry k({parameters})\n{{\n{body}\n}}\n").functions[
        "k"
    ]


def instructions(body: str) -> list[Instruction]:
    registers = ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<4>;"
    return function(registers + body).body


def one(text: str) -> Instruction:
    (found,) = instructions(text)
    return found


def test_head_of_a_module():
    module = parse(".version 8.4\n.target sm_90a, debug\n.address_size 64\n")
    assert (module.version, module.target) == ("8.4", "sm_90a")


def test_instruction_anatomy():
    found = one("@!%p1 mad.wide.s32 %rd1, %r2, -4, %rd3;")
    assert (found.opcode, found.modifiers) == ("mad", ("wide", "s32"))
    assert found.name == "mad.wide.s32"
    assert found.guard == (Register("%p1"), True)
    assert found.operands == (Register("%rd1"), Register("%r2"), Immediate(-4), Register("%rd3"))
    assert found.text == "@!%p1 mad.wide.s32 %rd1, %r2, -4, %rd3"


def test_second_destination_and_negated_operand():
    found = one("setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;")
    assert found.second == Register("%p2")
    assert found.operands[3] == Register("!%p3")
    assert one("setp.lt.s32 %p1|_, %r1, %r2;").second is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("[%rd1]", Address(Register("%rd1"))),
        ("[%rd1+16]", Address(Register("%rd1"), 16)),
        ("[%rd1+-16]", Address(Register("%rd1"), -16)),
        ("[%rd1 + 8 + 4]", Address(Register("%rd1"), 12)),
        ("[table+4]", Address(Symbol("table"), 4)),
        ("[0x10]", Address(Immediate(16))),
    ],
)
def test_addresses(text, address):
    assert one(f"ld.global.u32 %r1, {text};").operands[1] == address


def test_vectors_calls_and_modifiers_with_two_colons():
    assert one("ld.global.L1::no_allocate.v4.u32 {%r1, _, %r2, %r3}, [%rd1];").operands[0] == (
        Vector((Register("%r1"), Register("_"), Register("%r2"), Register("%r3")))
    )
    call = one("call.uni (value), function, (first, second), prototype;")
    assert call.operands == (
        Vector((Symbol("value"),)),
        Symbol("function"),
        Vector((Symbol("first"), Symbol("second"))),
        Symbol("prototype"),
    )
    assert one("ld.global.L2::128B.u32 %r1, [%rd1];").modifiers == ("global", "L2:128B", "u32")


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("0", 0),
        ("017", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("42U", 42),
        ("0xFFU", 255),
        ("-1", -1),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_integer_literals(literal, value):
    assert one(f"mov.u64 %rd1, {literal};").operands[1] == Immediate(value)


@pytest.mark.parametrize(
    ("literal", "bits", "kind"),
    [
        ("0f3F800000", 0x3F800000, "f32"),
        ("0F7fC00000", 0x7FC00000, "f32"),
        ("0d3FF0000000000000", 0x3FF0000000000000, "f64"),
        ("1.0", 0x3FF0000000000000, "f64"),
        ("2.5e-1", 0x3FD0000000000000, "f64"),
    ],
)
def test_float_literals_are_bits(literal, bits, kind):
    assert one(f"mov.f32 %f1, {literal};").operands[1] == Immediate(bits, kind)


def test_an_inner_scope_hides_outer_registers():
    found = function("""
        .reg .b32 %r<4>;
        mov.u32 %r1, 1;
        { .reg .b64 %r<2>; .reg .pred p; mov.u64 %r1, 2; setp.eq.u64 p, %r1, %r1;
          mov.u32 %r3, 3; }
        { .reg .b16 %r1; mov.u16 %r1, 4; }
        mov.u32 %r1, 5;""")
    names = [i.operands[0].name for i in found.body]
    assert names[0] == names[5] == "%r1"
    assert len({names[0], names[1], names[4]}) == 3
    assert names[3] == "%r3"  # beyond the inner range: the outer one
    kinds = [found.registers[n] for n in names]
    assert kinds == ["b32", "b64", "pred", "b32", "b16", "b32"]


def test_an_inner_scope_hides_outer_variables():
    """NVVM declares ``param0`` anew, with another type, for every call."""
    found = function("""
        .reg .b64 %rd<4>;
        { .param .b64 param0; st.param.b64 [param0], %rd1; }
        { .param .align 8 .b8 param0[16]; st.param.b64 [param0+8], %rd1; }""")
    first, second = (i.operands[0].base.name for i in found.body)
    assert (found.variables[first].size, found.variables[second].size) == (8, 16)


def test_shared_variables_of_two_functions_are_two():
    module = parse(
        HEADER
        + """
        .func f() { .shared .b32 x; st.shared.b32 [x], 1; ret; }
        .func g() { .shared .b32 x; st.shared.b32 [x], 2; ret; }"""
    )
    names = {f.body[0].operands[0].base.name for f in module.functions.values()}
    assert len(names) == 2


def test_labels_of_inline_assembly_may_repeat():
    found = function("""
        { bra Done; Done: }
        { bra Done; Done: }
        bra Done; Done: ret;""")
    targets = [found.labels[i.operands[0].name] for i in found.body[:3]]
    assert targets == [1, 2, 3]


def test_a_label_is_looked_for_outwards():
    found = function("Again: { { bra Again; } } { Inner: bra Inner; }")
    assert [found.labels[i.operands[0].name] for i in found.body] == [0, 1]


def test_tables_of_branches():
    found = function(".reg .b32 %r<2>; ts: .branchtargets A, B, A; brx.idx %r1, ts; A: ret; B:")
    assert found.branch_targets["ts"] == ("A", "B", "A")
    assert found.body[0].operands[1] == Label("ts")


def test_source_lines():
    module = parse(
        HEADER
        + """
        .visible .entry k() {
            ret;
            .loc 1 7 3
            ret;
            .loc 1 0 3
            exit;
            .loc 2 9 1, function_name $L__name, inlined_at 1 8 5
            trap;
            .loc 3 1 1
            ret;
            .loc 4 2 1
            ret;
        }
        .file 1 "/tmp/one.py"
        .file 2 "two.h", 1700000000, 4096
        .file 4 "/tmp/<ipython-input-2-9b43365d>"
        .section .debug_str { $L__name: .b8 102 }"""
    )
    found = [i.source for i in module.functions["k"].body]
    assert found[0] is None
    assert found[1] == ("/tmp/one.py", 7)
    assert found[2] == ("/tmp/one.py", 7)  # line 0: what NVVM made by itself
    assert found[3] == ("two.h", 9)
    assert found[4] is None  # a file that the module never names
    assert found[5] == ("<ipython-input-2-9b43365d>", 2)  # what is no file lies in no folder
    assert module.functions["k"].source == ("/tmp/one.py", 7)


def test_variables():
    module = parse(
        HEADER
        + """
        .visible .global .align 8 .u32 plain = 5;
        .const .f32 numbers[2][3] = {{0f00000000, 0f3F800000, 2.0}, {0f40400000}};
        .global .b8 bytes[] = {0xFF(generic(plain)+2), 0xFF00(plain)};
        .global .u64 pointers[] = {plain, generic(numbers)+4, 0};
        .extern .shared .align 16 .b8 dynamic[];
        .weak .global .attribute(.managed) .v4 .f32 quad;
        .shared .b16 one, two[3];"""
    )
    v = module.variables
    assert (v["plain"].space, v["plain"].align, v["plain"].values) == ("global", 8, (5,))
    assert (v["numbers"].count, v["numbers"].size, len(v["numbers"].values)) == (6, 24, 4)
    assert v["bytes"].values == (Symbol("plain", 2, 0xFF), Symbol("plain", 0, 0xFF00))
    assert v["pointers"].values == (Symbol("plain"), Symbol("numbers", 4), 0)
    assert (v["pointers"].count, v["pointers"].size) == (3, 24)
    assert (v["dynamic"].size, v["dynamic"].align, v["dynamic"].is_array) == (0, 16, True)
    assert (v["quad"].size, v["quad"].align, v["quad"].linkage) == (16, 16, "weak")
    assert (v["one"].size, v["two"].size) == (2, 6)


def test_functions():
    module = parse(
        HEADER
        + """
        .extern .func (.param .b32 status) vprintf (.param .b64 text, .param .b64 values);
        .func (.param .align 8 .b8 ret[16]) f(.param .b32 x) .noreturn { ret; }
        .alias same, f;
        .visible .entry k(.param .u64 .ptr .global .align 8 out, .param .f32 x)
        .reqntid 8, 4 .minnctapersm 2 { ret; }
        .entry limited() .maxntid 16, 2, 1 { ret; }"""
    )
    f = module.functions
    assert f["vprintf"].is_declaration
    assert not f["f"].is_declaration
    assert f["same"] is f["f"]
    assert [p.size for p in f["f"].returns + f["f"].parameters] == [16, 4]
    assert (f["k"].is_entry, f["k"].linkage, f["k"].required_block) == (True, "visible", (8, 4, 1))
    assert [p.element for p in f["k"].parameters] == ["u64", "f32"]
    assert f["limited"].maximum_threads == 32


def test_comments_and_pragmas_say_nothing():
    assert one(
        '// bra X;\n .pragma "nounroll"; /* ret; \n ret; */ mov.u32 %r1, /* 1 */ 2;'
    ).operands[1] == Immediate(2)


def test_a_trailing_nul_is_no_part_of_the_text():
    assert parse(HEADER + "\0\n\0").version == "8.4"


MALFORMED = {
    "cut short": ".visible .entry k() { mov.u32",
    "no closing brace": ".visible .entry k() { ret;",
    "no semicolon": ".visible .entry k() { ret }",
    "undeclared register in a guard": ".visible .entry k() { @%p1 ret; }",
    "register beyond its range": ".visible .entry k() { .reg .b32 %r<2>; @%r2 ret; }",
    "unknown type": ".visible .entry k() { .reg .b33 %r1; }",
    "unknown directive": ".visibly .entry k() { }",
    "a stray sign": ".visible .entry k() { $ $ }",
    "no character of PTX": ".visible .entry k() { ret; } \N{SNOWMAN}",
    "branch to nowhere": ".visible .entry k() { bra Nowhere; }",
    "branch into an inner scope": ".visible .entry k() { bra In; { In: ret; } }",
    "branch to a register": ".visible .entry k() { .reg .b32 %r1; bra %r1; }",
    "table of labels that are not": ".visible .entry k() { t: .branchtargets No; }",
    "label twice": ".visible .entry k() { A: A: ret; }",
    "function twice": ".func f() { ret; } .func f() { ret; }",
    "octal with an 8": ".visible .entry k() { mov.u32 %r1, 08; }",
    "65 bits": ".global .u64 x = 0x10000000000000000;",
    "a number of 5000 digits": f".global .u64 x = {'9' * 5000};",
    "an address of 32 bits": ".address_size 32",
    "alignment of three": ".global .align 3 .b8 x;",
    "alignment of zero": ".global .align 0 .b8 x;",
    "variable of 2**40 bytes": ".global .b8 x[1099511627776];",
    "variable of negative size": ".global .b8 x[-1];",
    "variable without a type": ".global x;",
    "a mask of nothing": ".global .b8 x[] = {0(x)};",
    "a mask of a number": ".global .b8 x[] = {255(1)};",
    "alias of nothing": ".alias a, b;",
    "a file without a name": ".file 1 name",
    "vectors in vectors": f".visible .entry k() {{ mov.u32 {'{' * 100}",
    "initial values in initial values": f".global .b8 x[] = {'{' * 100}",
    "scopes in scopes": f".visible .entry k() {{ {'{' * 100}",
    "a million registers and one": ".visible .entry k() { .reg .b32 %r<1048577>; }",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_malformed_text_is_a_syntax_error(text):
    with pytest.raises(PTXSyntaxError, match=r"PTX line 4"):
        parse(HEADER + text)


def test_a_syntax_error_quotes_the_line():
    with pytest.raises(PTXSyntaxError) as error:
        parse(HEADER + ".visible .entry k()\n{\n  mov.u32 %r1 %r2;\n}\n")
    assert str(error.value).splitlines() == [
        "PTX line 6: expected ';', found '%r2'",
        "    mov.u32 %r1 %r2;",
    ]


def test_a_long_word_of_digits_costs_no_time():
    """A pattern that tries every split of the digits would take hours."""
    with pytest.raises(PTXSyntaxError):
        parse(f"{HEADER}.visible .entry k() {{ .reg .b32 %r<2>; @%r{'1' * 400_000}x ret; }}")


@pytest.mark.parametrize(
    "text",
    [
        ".visible .entry k() { .reg .v2 .f32 x; }",
    ],
)
def test_what_the_machine_lacks_is_named(text):
    with pytest.raises(UnsupportedInstruction):
        parse(HEADER + text)


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("/env/site-packages/nvidia/cu13/include/cccl/cuda/copy.h", 12),
        ("/usr/local/cuda-12.8/include/cooperative_groups.h", 12),
        ("/home/course/project/include/mine.h", 31),
    ],
)
def test_what_a_header_of_the_toolkit_inlines_is_of_the_line_that_calls_it(header, line):
    module = parse(
        HEADER
        + f""".visible .entry k() {{
            .loc 1 10 1
            .loc 2 20 2, function_name $L__outer, inlined_at 1 12 5
            .loc 2 31 4, function_name $L__inner, inlined_at 2 20 2
            membar.gl;
            ret;
        }}
        .file 1 "kernel.cu"
        .file 2 "{header}"
        """
    )
    assert module.functions["k"].body[0].source.line == line
