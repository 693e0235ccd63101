"""PTX text to a :class:`~virtualgpu.ptx.module.Module`.

The grammar is that of the PTX ISA, "Syntax" and "Directives", as NVVM and NVRTC write it. Every
malformed text ends in :class:`~virtualgpu.errors.PTXSyntaxError` that quotes the line.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction
from virtualgpu.ptx.module import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Register,
    SourceLine,
    Symbol,
    Variable,
    Vector,
)

MAX_TEXT = 64 << 20  # bytes; the largest module met (numba-cuda's tests) has 1.2 MB
MAX_VARIABLE = 1 << 31  # bytes in one variable
MAX_REGISTERS = 1 << 20  # in one `.reg` directive
MAX_DEPTH = 64  # of scopes, vectors and initialisers inside each other

TYPE_SIZES = {
    **dict.fromkeys(("b8", "u8", "s8"), 1),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 2),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2"), 4),
    **dict.fromkeys(("b64", "u64", "s64", "f64"), 8),
    "b128": 16,
    "pred": 1,
}

_TOKEN = re.compile(
    r"""
    (?P<skip>//[^\n]*|/\*.*?\*/)
  | (?P<string>"[^"\n]*")
  | (?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][-+]?\d+)?)
  | (?P<number>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<word>[%$_a-zA-Z][\w$%]*(?:(?:\.|::)[\w$]+)*)
  | (?P<directive>\.[a-zA-Z_][\w]*(?:::\w+)*)
  | (?P<mark>[{}()\[\],;:@!<>=|+\-*~])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_LINKAGE = {".visible", ".extern", ".weak", ".common"}
_SPACES = {".global", ".const", ".shared", ".local", ".param"}


@lru_cache(maxsize=64)
def parse(text: str) -> Module:
    """Parse PTX text. The same text gives the same module, which nobody may change.

    Raises
    ------
    PTXSyntaxError
        The text is not PTX as the ISA defines it; the message has its line and words.
    UnsupportedInstruction
        A directive that changes what a kernel does and that the machine does not have.
    """
    if len(text) > MAX_TEXT:
        raise PTXSyntaxError(f"PTX text of {len(text)} characters; the limit is {MAX_TEXT}")
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str):
        self.text = text
        self.tokens: list[str] = []
        self.kinds: list[str] = []
        self.starts: list[int] = []
        add, add_kind, add_start = self.tokens.append, self.kinds.append, self.starts.append
        position, end = 0, len(text.rstrip("\0 \n\t\r"))
        for match in _TOKEN.finditer(text, 0, end):
            start = match.start()
            if start != position and (odd := text[position:start].strip(" \t\r\n\f\v")):
                self._fail_at(position, f"unexpected character {odd[0]!r}")
            position = match.end()
            if match.lastgroup != "skip":
                add(match.group())
                add_kind(match.lastgroup)
                add_start(start)
        if odd := text[position:end].strip(" \t\r\n\f\v"):
            self._fail_at(position, f"unexpected character {odd[0]!r}")
        self.tokens.append("")
        self.kinds.append("end")
        self.starts.append(end)
        self.at = 0
        self.result = Module()
        self.locations: list[tuple[Instruction | Function, int, int]] = []

    # -- tokens --------------------------------------------------------------------------------

    def _fail_at(self, position: int, why: str):
        number = self.text.count("\n", 0, position) + 1
        line = self.text[self.text.rfind("\n", 0, position) + 1 :].split("\n", 1)[0].strip()
        raise PTXSyntaxError(f"PTX line {number}: {why}\n    {line[:200]}")

    def fail(self, why: str):
        self._fail_at(self.starts[min(self.at, len(self.starts) - 1)], why)

    def peek(self) -> str:
        return self.tokens[self.at]

    def next(self) -> str:
        token = self.tokens[self.at]
        if self.kinds[self.at] == "end":
            self.fail("the text ends in the middle of a statement")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected {token!r}, found {self.peek()!r}")

    def name(self) -> str:
        if self.kinds[self.at] != "word":
            self.fail(f"expected a name, found {self.peek()!r}")
        return self.next()

    def integer(self) -> int:
        negative = False
        while self.peek() in "+-~" and self.peek():
            negative ^= self.next() == "-"
        if self.kinds[self.at] != "number":
            self.fail(f"expected an integer, found {self.peek()!r}")
        token = self.tokens[self.at]
        try:
            value = _integer(token)
        except ValueError:
            self.fail(f"{token[:24]} is not an integer of 64 bits")
        self.at += 1
        return -value if negative else value

    # -- module level --------------------------------------------------------------------------

    def module(self) -> Module:
        while self.kinds[self.at] != "end":
            self.statement()
        for item, number, line in self.locations:
            if number not in self.result.files:
                continue  # `.loc` of a file the module never names: no source line, no harm
            item.source = SourceLine(self.result.files[number], line)
        return self.result

    def statement(self) -> None:
        token = self.next()
        if token == ".version":
            self.result.version = self.next()
        elif token == ".target":
            self.result.target = self.next()
            while self.accept(","):
                self.next()
        elif token == ".address_size":
            if self.integer() != 64:
                self.fail("only .address_size 64 exists on devices of this century's compilers")
        elif token == ".file":
            number = self.integer()
            if self.kinds[self.at] != "string":
                self.fail("expected a file name in quotes")
            self.result.files[number] = self.next()[1:-1]
            while self.accept(","):
                self.integer()
        elif token == ".section":
            while self.next() != "{":
                pass
            self.skip_braces()
        elif token == ".pragma":
            self.next()
            self.expect(";")
        elif token == ".alias":
            alias, target = self.name(), (self.expect(","), self.name())[1]
            self.expect(";")
            if target not in self.result.functions:
                self.fail(f".alias of an unknown function {target}")
            self.result.functions[alias] = self.result.functions[target]
        elif token in _LINKAGE or token in _SPACES or token in (".entry", ".func"):
            self.at -= 1
            self.declaration()
        else:
            self.at -= 1
            self.fail(f"unknown directive {token!r}")

    def skip_braces(self) -> None:
        depth = 1
        while depth:
            token = self.next()
            depth += (token == "{") - (token == "}")

    def declaration(self) -> None:
        linkage = ""
        while self.peek() in _LINKAGE:
            linkage = self.next()[1:]
        if self.peek() in (".entry", ".func"):
            self.function(linkage)
            return
        for variable in self.variables(linkage):
            known = self.result.variables.get(variable.name)
            if known is None or known.linkage == "extern":
                self.result.variables[variable.name] = variable

    # -- variables -----------------------------------------------------------------------------

    def variables(self, linkage: str = "") -> list[Variable]:
        """``.space .align n .type name[count] = {...}, ... ;`` after any linkage."""
        found = [self.variable(linkage)]
        while self.accept(","):
            first = found[0]
            found.append(self.declarator(linkage, first.space, first.element, first.align))
        self.expect(";")
        return found

    def variable(self, linkage: str = "") -> Variable:
        space = self.next()
        if space not in _SPACES:
            self.fail(f"expected a state space, found {space!r}")
        align, vector, element = 0, 1, None
        while self.kinds[self.at] == "directive":
            token = self.next()
            if token == ".align":
                align = self.integer()
                if not 0 < align <= 4096 or align & (align - 1):
                    self.fail("an alignment is a power of two up to 4096")
            elif token in (".v2", ".v4"):
                vector = int(token[2:])
            elif token[1:] in TYPE_SIZES:
                element = token[1:]
            elif token == ".attribute":
                self.expect("(")
                while self.next() != ")":
                    pass
            elif token in (".ptr", ".global", ".const", ".shared", ".local"):
                pass  # what a kernel's pointer parameter points to: a hint only
            else:
                self.fail(f"unknown word {token!r} in a variable")
        if element is None:
            self.fail("a variable without a type")
        size = TYPE_SIZES[element] * vector
        declared = self.declarator(linkage, space[1:], element, align or size, vector)
        return declared

    def declarator(self, linkage, space, element, align, vector=1) -> Variable:
        name, count, is_array = self.name(), vector, False
        while self.accept("["):
            is_array = True
            extent = 0 if self.peek() == "]" else self.integer()
            count *= extent
            self.expect("]")
        values = None
        if self.accept("="):
            values = tuple(self.initialiser())
            if is_array and count == 0:
                count = len(values)
        size = count * TYPE_SIZES[element]
        if not 0 <= size <= MAX_VARIABLE:
            self.fail(f"variable {name} of {size} bytes")
        return Variable(name, space, element, count, align, size, linkage, values, is_array)

    def initialiser(self, depth: int = 0) -> list:
        if self.accept("{"):
            if depth == MAX_DEPTH:
                self.fail(f"initial values nested deeper than {MAX_DEPTH}")
            values = []
            while not self.accept("}"):
                values += self.initialiser(depth + 1)
                self.accept(",")
            return values
        if self.kinds[self.at] == "float":
            return [_float(self.next())]
        if self.kinds[self.at] == "word":
            word = self.next()
            if word == "generic":
                self.expect("(")
                word = self.name()
                self.expect(")")
            offset = self.integer() if self.peek() in ("+", "-") else 0
            return [Symbol(word, offset)]
        return [self.integer()]

    # -- functions -----------------------------------------------------------------------------

    def function(self, linkage: str) -> None:
        is_entry = self.next() == ".entry"
        returns = self.parameter_list() if self.peek() == "(" else ()
        name = self.name()
        parameters = self.parameter_list() if self.peek() == "(" else ()
        function = Function(name, is_entry, linkage, parameters, returns)
        while self.peek() not in ("{", ";"):
            token = self.next()
            if token in (".maxntid", ".reqntid", ".minnctapersm", ".maxnreg", ".maxnctapersm",
                         ".maxclusterrank"):
                values = [self.integer()]
                while self.accept(","):
                    values.append(self.integer())
                if token == ".reqntid":
                    function.required_block = (*values, 1, 1)[:3]
                elif token == ".maxntid":
                    function.maximum_threads = 1
                    for value in values:
                        function.maximum_threads *= value
            elif token in (".noreturn", ".abi_preserve", ".unknown_cluster"):
                pass
            elif token == ".pragma":
                self.next()
            else:
                raise UnsupportedInstruction(f"function directive {token} of {name}")
        for variable in (*parameters, *returns):
            function.variables[variable.name] = variable
        if self.accept(";"):
            function.is_declaration = True
            self.result.functions.setdefault(name, function)
            return
        self.expect("{")
        _Body(self, function).read()
        known = self.result.functions.get(name)
        if known is not None and not known.is_declaration:
            self.fail(f"function {name} is defined twice")
        self.result.functions[name] = function

    def parameter_list(self) -> tuple[Variable, ...]:
        self.expect("(")
        found = []
        while not self.accept(")"):
            if self.peek() == ".reg":
                raise UnsupportedInstruction("register parameters of a function (.reg)")
            found.append(self.variable())
            self.accept(",")
        return tuple(found)


class _Body:
    """The body of one function: scopes, registers, labels, instructions."""

    def __init__(self, parser: _Parser, function: Function):
        self.p = parser
        self.function = function
        # A scope maps a register's name, or a prefix with its count, to (type, count), and ""
        # to the suffix that makes its names unique. Registers, variables and labels of an inner
        # scope hide outer ones of the same name.
        self.scopes: list[dict] = [{}]
        self.hidden: list[dict[str, str]] = [{}]  # variables: name → unique name, per scope
        self.opened = 0
        self.where: tuple[int, int] | None = None
        self.resolved: dict[str, str | None] = {}
        # What names a label, which may come later, with the suffixes of the scopes around it.
        self.jumps: list[tuple[Instruction | str, tuple[str, ...]]] = []

    def read(self) -> None:
        p, function = self.p, self.function
        while True:
            token = p.next()
            if token == "}":
                self.scopes.pop()
                self.hidden.pop()
                self.resolved.clear()
                if not self.scopes:
                    break
            elif token == "{":
                self.opened += 1
                self.scopes.append({"": f"@{self.opened}"})
                self.hidden.append({})
                self.resolved.clear()
                if len(self.scopes) > MAX_DEPTH:
                    p.fail(f"scopes nested deeper than {MAX_DEPTH}")
            elif p.peek() == ":" and p.kinds[p.at - 1] == "word":
                p.at += 1
                self.label(token)
            elif token == ".reg":
                self.registers()
            elif token == ".loc":
                self.location()
            elif token in _SPACES:
                p.at -= 1
                for variable in p.variables():
                    self.variable(variable)
            elif token == ".pragma":
                p.next()
                p.expect(";")
            elif token == ";":
                pass
            elif token == "@" or p.kinds[p.at - 1] == "word":
                p.at -= 1
                self.instruction()
            else:
                p.at -= 1
                p.fail(f"unexpected {token!r} in the body of {function.name}")
        self.find_labels()

    def variable(self, variable: Variable) -> None:
        """A variable under a name that no other scope or function uses."""
        name, function = variable.name, self.function
        unique = name + self.scopes[-1].get("", "")
        if variable.space == "shared":
            unique = f"{unique}@{function.name}"
        if variable.space in ("global", "const"):
            unique = f"{unique}@{function.name}"
            self.p.result.variables[unique] = variable
        else:
            function.variables[unique] = variable
        variable.name = unique
        self.hidden[-1][name] = unique

    def symbol(self, name: str) -> str:
        for names in reversed(self.hidden):
            if name in names:
                return names[name]
        return name

    def suffixes(self) -> tuple[str, ...]:
        return tuple(scope.get("", "") for scope in reversed(self.scopes))

    def label(self, name: str) -> None:
        p, function = self.p, self.function
        unique = name + self.scopes[-1].get("", "")
        if unique in function.labels or unique in function.branch_targets:
            p.fail(f"label {name} is defined twice")
        if p.peek() in (".branchtargets", ".calltargets"):
            jumps = p.next() == ".branchtargets"
            names = [p.name()]
            while p.accept(","):
                names.append(p.name())
            p.expect(";")
            function.branch_targets[unique] = tuple(names)
            if jumps:
                self.jumps.append((unique, self.suffixes()))
        elif p.peek() == ".callprototype":
            while p.next() != ";":
                pass
            function.branch_targets[unique] = ()
        else:
            function.labels[unique] = len(function.body)

    def find_labels(self) -> None:
        """Once all labels are known: the label that each jump means, from its scope outwards."""
        function = self.function
        targets = function.branch_targets

        def find(name: str, suffixes: tuple[str, ...], table: dict, what: str) -> str:
            for suffix in suffixes:
                if name + suffix in table:
                    return name + suffix
            self.p.fail(f"{what} unknown label {name} in {function.name}")

        for jump, suffixes in self.jumps:
            if isinstance(jump, str):
                targets[jump] = tuple(
                    find(n, suffixes, function.labels, "a table of branches has the")
                    for n in targets[jump])
                continue
            table = function.labels if jump.opcode == "bra" else targets
            jump.operands = tuple(
                Label(find(o.name, suffixes, table, f"{jump.text[:80]}: branch to an"))
                if isinstance(o, Label) else o for o in jump.operands)

    def location(self) -> None:
        p = self.p
        number, line, _ = p.integer(), p.integer(), p.integer()
        while p.accept(","):
            if p.name() == "inlined_at":
                p.integer(), p.integer(), p.integer()
            else:  # function_name label (+ offset)
                p.name()
                if p.peek() == "+":
                    p.integer()
        # NVVM marks code it made by itself with line 0; the line before is the nearer truth.
        if line:
            self.where = (number, line)
            if self.function.source is None:
                self.function.source = SourceLine("", line)
                p.locations.append((self.function, number, line))

    def registers(self) -> None:
        p, scope = self.p, self.scopes[-1]
        element = p.next()[1:]
        if element in ("v2", "v4"):
            raise UnsupportedInstruction("vector registers (.reg .v2)")
        if element not in TYPE_SIZES:
            p.fail(f"unknown register type .{element}")
        while True:
            name = p.name()
            if p.accept("<"):
                count = p.integer()
                p.expect(">")
                if not 0 <= count <= MAX_REGISTERS:
                    p.fail(f"{count} registers in one directive")
                scope[name] = (element, count)
            else:
                scope[name] = (element, None)
            if not p.accept(","):
                break
        self.resolved.clear()
        p.expect(";")

    def resolve(self, name: str) -> str | None:
        """The unique name of a register, or None where no register of that name is declared."""
        try:
            return self.resolved[name]
        except KeyError:
            pass
        found = None
        stem = name.rstrip("0123456789")
        number = int(name[len(stem):]) if 0 < len(name) - len(stem) < 8 else None
        for scope in reversed(self.scopes):
            entry = scope.get(name) if name else None
            if entry is None or entry[1] is not None:
                entry = scope.get(stem) if stem and number is not None else None
                if entry is not None and (entry[1] is None or number >= entry[1]):
                    entry = None
            if entry is not None:
                found = name + scope.get("", "")
                self.function.registers[found] = entry[0]
                break
        self.resolved[name] = found
        return found

    def instruction(self) -> None:
        p = self.p
        begin, guard = p.starts[p.at], None
        if p.accept("@"):
            negated = p.accept("!")
            guard = (self.register(p.name()), negated)
        opcode, *modifiers = p.name().replace("::", ":").split(".")
        operands, second = [], None
        while p.peek() != ";":
            operand = self.operand(opcode)
            if p.accept("|"):
                if p.accept("_"):
                    second = None
                else:
                    second = self.register(p.name())
            operands.append(operand)
            if not p.accept(","):
                break
        end = p.starts[p.at]
        p.expect(";")
        instruction = Instruction(
            opcode, tuple(modifiers), tuple(operands), guard, second, None, p.text[begin:end]
        )
        if self.where is not None:
            p.locations.append((instruction, *self.where))
        if opcode == "bra":
            if len(operands) != 1 or not isinstance(operands[0], Label):
                p.fail(f"a branch goes to one label: {instruction.text[:80]}")
            self.jumps.append((instruction, self.suffixes()))
        elif opcode == "brx":
            self.jumps.append((instruction, self.suffixes()))
        self.function.body.append(instruction)

    def register(self, name: str) -> Register:
        unique = self.resolve(name)
        if unique is None:
            self.p.at -= 1
            self.p.fail(f"register {name} is not declared")
        return Register(unique)

    def operand(self, opcode: str, depth: int = 0):
        p = self.p
        token, kind = p.peek(), p.kinds[p.at]
        if token == "[":
            p.next()
            address = self.address()
            p.expect("]")
            return address
        if token in ("{", "("):
            close = "}" if token == "{" else ")"
            p.next()
            items = []
            if depth == MAX_DEPTH:
                p.fail(f"operands nested deeper than {MAX_DEPTH}")
            while not p.accept(close):
                items.append(self.operand(opcode, depth + 1))
                p.accept(",")
                if len(items) > 4096:
                    p.fail("a list of more than 4096 operands")
            return Vector(tuple(items))
        if kind == "float":
            return _float(p.next())
        if kind == "number" or token in ("-", "+"):
            if p.kinds[p.at + 1] == "float":
                p.fail("a signed float literal; PTX writes floats as 0f or 0d bits")
            return Immediate(p.integer())
        if token == "!":  # negated predicate operand
            p.next()
            return Register("!" + self.register(p.name()).name)
        if kind == "word":
            name = p.next()
            if (unique := self.resolve(name)) is not None:
                return Register(unique)
            if name.startswith("%"):
                return Register(name)  # a special register: %tid.x
            if name == "_":
                return Register("_")
            if opcode in ("bra", "brx"):
                return Label(name)
            offset = p.integer() if p.peek() in ("+", "-") else 0
            if p.peek() == "[":  # name[offset]
                p.next()
                offset = p.integer()
                p.expect("]")
            return Symbol(self.symbol(name), offset)
        p.fail(f"expected an operand, found {token!r}")

    def address(self) -> Address:
        p = self.p
        if p.kinds[p.at] == "number":
            return Address(Immediate(p.integer()))
        name = p.name()
        unique = self.resolve(name)
        base = Register(unique) if unique is not None else Symbol(self.symbol(name))
        offset = 0
        while p.peek() in ("+", "-"):
            offset += p.integer()
        return Address(base, offset)


def _integer(token: str) -> int:
    """The value of an integer literal. Raises ValueError where it has more than 64 bits."""
    token = token.rstrip("U")
    if token[:2] in ("0x", "0X"):
        value = int(token, 16)
    elif token[:2] in ("0b", "0B"):
        value = int(token, 2)
    elif len(token) > 24:
        raise ValueError(token)
    else:
        value = int(token, 8 if len(token) > 1 and token[0] == "0" else 10)
    if value >> 64:
        raise ValueError(token)
    return value


def _float(token: str) -> Immediate:
    if token[:2] in ("0f", "0F"):
        return Immediate(int(token[2:], 16), "f32")
    if token[:2] in ("0d", "0D"):
        return Immediate(int(token[2:], 16), "f64")
    return Immediate(struct.unpack("<Q", struct.pack("<d", float(token)))[0], "f64")
