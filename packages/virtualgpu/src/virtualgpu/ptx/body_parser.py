"""Parser of one PTX function body: scopes, registers, labels, instructions.

PTX ISA, "Directives", "Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from virtualgpu.errors import UnsupportedInstruction
from virtualgpu.ptx.module import (
    MARK,
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Operand,
    PTXModule,
    Register,
    Symbol,
    Variable,
    Vector,
)
from virtualgpu.ptx.opcodes import TEXTURES, traits
from virtualgpu.ptx.tokens import (
    MAX_DEPTH,
    MAX_REGISTERS,
    SPACES,
    TYPE_SIZES,
    Tokens,
    float_literal,
)
from virtualgpu.sources import SourceLine

# tcgen05 instructions have operands with their own grammar. The virtual GPU supports none of them
# and reports that where the instruction is decoded.
_OTHER_GRAMMAR = {"tcgen05"}
_USED_BYTES = re.compile(r"used_bytes_mask\s+(0x[0-9a-fA-F]{1,16}|[1-9][0-9]{0,19})")
_CLOSING = {"{": "}", "(": ")", "[": "]"}


def _may_part(instruction: Instruction) -> bool:
    """Return True if lanes may separate after an instruction, or if some lanes may skip it."""
    return instruction.guard is not None or traits(instruction).ends


class Declarations(Tokens):
    """Interface that a body's parser needs: the tokens, the variables and the result."""

    result: PTXModule
    locations: list[tuple[Instruction | Function, tuple[tuple[int, int], ...]]]

    def variables(self, linkage: str = "") -> list[Variable]:
        raise NotImplementedError


class Body:
    """Parser of one function's body: scopes, registers, labels, instructions."""

    def __init__(self, parser: Declarations, function: Function):
        self.p = parser
        self.function = function
        # A scope maps the name of a register, or a prefix with its count, to (type, count). It maps
        # "" to the suffix that makes its names unique. Registers, variables and labels of an inner
        # scope hide outer ones of the same name.
        self.scopes: list[dict[str, Any]] = [
            {v.name: (v.element, None) for v in function.variables.values() if v.space == "reg"}
        ]
        self.hidden: list[dict[str, str]] = [{}]  # variables: name → unique name, per scope
        self.opened = 0
        # The last `.loc`: file and line, then the lines at which it is inlined. `chains` has the
        # same for every position so far.
        self.where: tuple[tuple[int, int], ...] | None = None
        self.chains: dict[tuple[int, int, int], tuple[tuple[int, int], ...]] = {}
        self.resolved: dict[str, str | None] = {}
        # Instructions and tables that name labels, which may come later, each with the suffixes of
        # the scopes around it.
        self.jumps: list[tuple[Instruction | str, tuple[str, ...]]] = []

    def read(self) -> None:
        p, function = self.p, self.function
        used_bytes: int | None = None
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
            elif token in SPACES:
                p.at -= 1
                for variable in p.variables():
                    self.variable(variable)
            elif token == ".pragma":
                pragma = p.next().strip('"')
                p.expect(";")
                if pragma.startswith(MARK):
                    self.mark(pragma)
                    continue
                function.pragmas.append(pragma)
                if said := _USED_BYTES.fullmatch(pragma):  # applies to the next load
                    used_bytes = int(said[1], 0)
            elif token == ";":
                pass
            elif token == "@" or p.kinds[p.at - 1] == "word":
                p.at -= 1
                self.instruction()
                if used_bytes is not None and function.body:
                    function.body[-1].used_bytes, used_bytes = used_bytes, None
            else:
                p.at -= 1
                p.fail(f"unexpected {token!r} in the body of {function.name}")
        self.find_labels()

    def variable(self, variable: Variable) -> None:
        """Add a variable under a name that no other scope or function uses."""
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

    def mark(self, pragma: str) -> None:
        """Record a source line at the instruction before it in its basic block, or at the next."""
        from urllib.parse import unquote  # takes 3 ms, and only a measured run needs it

        function = self.function
        number, _, file = pragma.removeprefix(MARK).strip().partition(" ")
        if not (number.isascii() and number.isdigit()):
            return  # a pragma of another tool: unknown strings are ignored
        at = len(function.body)
        begins = at == 0 or at in function.labels.values() or _may_part(function.body[-1])
        function.marks.append((at - (not begins), SourceLine(unquote(file), int(number))))

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
            if function.marks and function.marks[-1][0] == len(function.body):
                # A line without its own instruction needs one that runs exactly when the line does.
                jump = Instruction("bra", ("uni",), (Label(name),), text=f"bra.uni {name};")
                self.jumps.append((jump, self.suffixes()))
                function.body.append(jump)
            function.labels[unique] = len(function.body)

    def find_labels(self) -> None:
        """Resolve the label of each jump, from its scope outwards, when all labels are known."""
        function = self.function
        targets = function.branch_targets

        def find(name: str, suffixes: tuple[str, ...], table: Container[str], what: str) -> str:
            for suffix in suffixes:
                if name + suffix in table:
                    return name + suffix
            self.p.fail(f"{what} unknown label {name} in {function.name}")

        for jump, suffixes in self.jumps:
            if isinstance(jump, str):
                targets[jump] = tuple(
                    find(n, suffixes, function.labels, "a table of branches has the")
                    for n in targets[jump]
                )
                continue
            table = function.labels if jump.opcode == "bra" else targets
            jump.operands = tuple(
                Label(find(o.name, suffixes, table, f"{jump.text[:80]}: branch to an"))
                if isinstance(o, Label)
                else o
                for o in jump.operands
            )

    def location(self) -> None:
        p = self.p
        here = number, line, _ = p.integer(), p.integer(), p.integer()
        chain: tuple[tuple[int, int], ...] = ((number, line),)
        while p.accept(","):
            if p.name() == "inlined_at":
                caller = p.integer(), p.integer(), p.integer()
                chain = (*chain, *self.chains.get(caller, (caller[:2],))[:MAX_DEPTH])
            else:  # function_name label (+ offset)
                p.name()
                if p.peek() == "+":
                    p.integer()
        # NVVM gives line 0 to code that it generates itself; the line before is closer to the
        # truth.
        self.chains[here] = chain
        if line:
            self.where = chain
            if self.function.source is None:
                self.function.source = SourceLine("", line)
                p.locations.append((self.function, chain))

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
        """Return the unique name of a register, or None if no register of that name is declared."""
        try:
            return self.resolved[name]
        except KeyError:
            pass
        found = None
        stem = name.rstrip("0123456789")
        number = int(name[len(stem) :]) if 0 < len(name) - len(stem) < 8 else None
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
        operands: list[Operand] = []
        second: Register | None = None
        if opcode in _OTHER_GRAMMAR or (opcode == "cp" and "tensor" in modifiers):
            operands.append(Register("_"))
            while p.peek() not in (";", ""):
                p.next()
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
            p.locations.append((instruction, self.where))
        if opcode == "bra":
            if len(operands) != 1 or not isinstance(operands[0], Label):
                p.fail(f"a branch must name one label: {instruction.text[:80]}")
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

    def operand(self, opcode: str, depth: int = 0) -> Operand:
        p = self.p
        token, kind = p.peek(), p.kinds[p.at]
        if token == "[" and opcode not in TEXTURES:
            p.next()
            address = self.address()
            p.expect("]")
            return address
        if token in _CLOSING:
            close = _CLOSING[token]
            p.next()
            items: list[Operand] = []
            if depth == MAX_DEPTH:
                p.fail(f"operands nested deeper than {MAX_DEPTH}")
            while not p.accept(close):
                if items:
                    p.expect(",")
                item = self.operand(opcode, depth + 1)
                # [object, {x, y}] is one flat vector (PTX ISA, "Texture Instructions", "Surface
                # Instructions").
                items += item.items if close == "]" and isinstance(item, Vector) else (item,)
                if len(items) > 4096:
                    p.fail("a list of more than 4096 operands")
            # Triton writes `ld.global.b32 {%r1}, [%rd1]` for a single value, and ptxas accepts it.
            return items[0] if len(items) == 1 and close == "}" else Vector(tuple(items))
        if kind == "float":
            return float_literal(p.next())
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
