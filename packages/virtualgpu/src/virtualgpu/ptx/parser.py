"""Parser of PTX text, which returns a :class:`~virtualgpu.ptx.module.PTXModule`.

The grammar is that of the PTX ISA, "Syntax" and "Directives", as NVVM and NVRTC write it.
Malformed text raises :class:`~virtualgpu.errors.PTXSyntaxError`, which quotes the line.
:mod:`~virtualgpu.ptx.body_parser` parses the bodies of functions, and so the instructions.
"""

from __future__ import annotations

import re
from functools import lru_cache

from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction
from virtualgpu.ptx.body_parser import Body, Declarations
from virtualgpu.ptx.module import (
    Function,
    InitialValue,
    PTXModule,
    Symbol,
    Variable,
)
from virtualgpu.ptx.tokens import (
    LINKAGE,
    MAX_DEPTH,
    MAX_TEXT,
    MAX_VARIABLE,
    SPACES,
    TYPE_SIZES,
    float_literal,
)
from virtualgpu.sources import SourceLine

# Names of library files: NVRTC combines some of its headers in a built-in header, which is not a
# file.
_LIBRARIES = re.compile(
    r"/(?:nvidia|cuda[^/]*|targets)/(?:.*/)?include/"
    r"|(?:^|/)(?:triton/language/|__nv_nvrtc_builtin_header\.h$)"
)

# MLIR's name for dynamic shared memory. NVVM writes this empty array as one byte that is not
# external (numba-cuda-mlir 0.6); on a GPU, the dynamic bytes of the launch follow that byte.
DYNAMIC_SHARED = "__dynamic_shmem__"


@lru_cache(maxsize=64)
def parse(text: str) -> PTXModule:
    """Parse PTX text. The result is cached for the same text, so do not modify it.

    Raises
    ------
    PTXSyntaxError
        The text is not PTX as the ISA defines it; the message quotes the line.
    UnsupportedInstruction
        A directive changes what a kernel does, and the virtual GPU does not support it.
    """
    if len(text) > MAX_TEXT:
        raise PTXSyntaxError(f"PTX text of {len(text)} characters; the limit is {MAX_TEXT}")
    return Parser(text).module()


@lru_cache(maxsize=1024)
def _is_librarys(filename: str) -> bool:
    """Return True for a file of the toolkit or of Triton.

    Code inlined from such a file counts as the line that calls it.
    """
    return _LIBRARIES.search(filename) is not None


def source_name(path: str) -> str:
    """Return Python's name of the file that ``.file`` names.

    IPython and ``exec`` compile under names such as ``<ipython-input-2-9b43365d>``, which Python's
    linecache knows, but the compiler puts the working directory before them.
    """
    last = path.rpartition("/")[2]
    return last if last.startswith("<") and last.endswith(">") else path


class Parser(Declarations):
    """Parser of the module level: directives, variables, functions."""

    def __init__(self, text: str):
        super().__init__(text)
        self.result = PTXModule()
        self.locations = []

    # -- module level --------------------------------------------------------------------------

    def module(self) -> PTXModule:
        while self.kinds[self.at] != "end":
            self.statement()
        files = self.result.files
        for item, chain in self.locations:
            # A `.loc` of a file that the module never names gives no source line, which does no
            # harm.
            places = [SourceLine(files[number], line) for number, line in chain if number in files]
            if places:
                own = [place for place in places if not _is_librarys(place.filename)] or places[:1]
                item.source = own[0]
                own[0].callers = tuple(own[1:])
        return self.result

    def statement(self) -> None:
        token = self.next()
        if token == ".version":
            self.result.version = self.next()
        elif token == ".target":
            self.result.target = self.next()
            while self.accept(","):
                self.result.debug |= self.next() == "debug"
        elif token == ".address_size":
            if self.integer() != 64:
                self.fail("only .address_size 64 is supported")
        elif token == ".file":
            number = self.integer()
            if self.kinds[self.at] != "string":
                self.fail("expected a file name in quotes")
            self.result.files[number] = source_name(self.next()[1:-1])
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
            alias = self.name()
            self.expect(",")
            target = self.name()
            self.expect(";")
            if target not in self.result.functions:
                self.fail(f".alias of an unknown function {target}")
            self.result.functions[alias] = self.result.functions[target]
        elif token in LINKAGE or token in SPACES or token in (".entry", ".func"):
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
        while self.peek() in LINKAGE:
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
        """Parse ``.space .align n .type name[count] = {...}, ... ;`` after any linkage."""
        found = [self.variable(linkage)]
        while self.accept(","):
            first = found[0]
            found.append(self.declarator(linkage, first.space, first.element, first.align))
        self.expect(";")
        return found

    def variable(self, linkage: str = "") -> Variable:
        space = self.next()
        if space not in SPACES:
            self.fail(f"expected a state space, found {space!r}")
        align, vector = 0, 1
        element: str | None = None
        while self.kinds[self.at] == "directive":
            token = self.next()
            if token == ".align":
                align = self.integer()
                if not 0 < align <= 4096 or align & (align - 1):
                    self.fail("an alignment must be a power of two up to 4096")
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
                self.fail(f"unknown word {token!r} in the declaration of a variable")
        if element is None:
            self.fail("a variable without a type")
        size = TYPE_SIZES[element] * vector
        declared = self.declarator(linkage, space[1:], element, align or size, vector)
        return declared

    def declarator(
        self, linkage: str, space: str, element: str, align: int, vector: int = 1
    ) -> Variable:
        name, count, is_array = self.name(), vector, False
        while self.accept("["):
            is_array = True
            extent = 0 if self.peek() == "]" else self.integer()
            count *= extent
            self.expect("]")
        if space == "shared" and not is_array and name.startswith(DYNAMIC_SHARED):
            count, is_array = 0, True
        values = None
        if self.accept("="):
            values = tuple(self.initialiser())
            if is_array and count == 0:
                count = len(values)
        size = count * TYPE_SIZES[element]
        if not 0 <= size <= MAX_VARIABLE:
            self.fail(f"variable {name} has {size} bytes; the limit is {MAX_VARIABLE}")
        return Variable(name, space, element, count, align, size, linkage, values, is_array)

    def initialiser(self, depth: int = 0) -> list[InitialValue]:
        if self.accept("{"):
            if depth == MAX_DEPTH:
                self.fail(f"initial values nested deeper than {MAX_DEPTH}")
            values: list[InitialValue] = []
            while not self.accept("}"):
                values += self.initialiser(depth + 1)
                self.accept(",")
            return values
        if self.kinds[self.at] == "float":
            return [float_literal(self.next())]
        if self.kinds[self.at] == "word":
            return [self.symbol()]
        value = self.integer()
        if self.accept("("):  # some bits of an address: 0xFF00(symbol)
            symbol = self.symbol()
            self.expect(")")
            if value <= 0:
                self.fail(f"the mask {value} of an address selects nothing")
            return [symbol._replace(mask=value)]
        return [value]

    def symbol(self) -> Symbol:
        """Parse ``name`` or ``generic(name)``, either with an offset."""
        word = self.name()
        if word == "generic":
            self.expect("(")
            word = self.name()
            self.expect(")")
        return Symbol(word, self.integer() if self.peek() in ("+", "-") else 0)

    # -- functions -----------------------------------------------------------------------------

    def function(self, linkage: str) -> None:
        is_entry = self.next() == ".entry"
        returns = self.parameter_list() if self.peek() == "(" else ()
        name = self.name()
        parameters = self.parameter_list() if self.peek() == "(" else ()
        function = Function(name, is_entry, linkage, parameters, returns)
        while self.peek() not in ("{", ";"):
            token = self.next()
            if token in (
                ".maxntid",
                ".reqntid",
                ".minnctapersm",
                ".maxnreg",
                ".maxnctapersm",
                ".maxclusterrank",
                ".reqnctapercluster",
            ):
                values = [self.integer()]
                while self.accept(","):
                    values.append(self.integer())
                if token == ".reqntid":
                    function.required_block = (*values, 1, 1)[:3]
                elif token == ".reqnctapercluster":
                    x, y, z = (*values, 1, 1)[:3]
                    function.required_cluster = (x, y, z)
                elif token == ".maxclusterrank":
                    function.maximum_cluster = values[0]
                elif token == ".maxntid":
                    function.maximum_threads = 1
                    for value in values:
                        function.maximum_threads *= value
            elif token == ".explicitcluster":
                function.explicit_cluster = True
            elif token in (".noreturn", ".abi_preserve", ".unknown_cluster"):
                pass
            elif token == ".pragma":
                self.next()
            else:
                raise UnsupportedInstruction(f"function directive {token} of {name}")
        for variable in (*parameters, *returns):
            function.variables[variable.name] = variable
            if variable.space == "reg" and function.is_entry:
                self.fail(f"the parameters of the kernel {name} must be in .param")
        if self.accept(";"):
            function.is_declaration = True
            self.result.functions.setdefault(name, function)
            return
        self.expect("{")
        Body(self, function).read()
        known = self.result.functions.get(name)
        if known is not None and not known.is_declaration:
            self.fail(f"function {name} is defined twice")
        self.result.functions[name] = function

    def parameter_list(self) -> tuple[Variable, ...]:
        self.expect("(")
        found = []
        while not self.accept(")"):
            found.append(self.register_parameter() if self.accept(".reg") else self.variable())
            self.accept(",")
        return tuple(found)

    def register_parameter(self) -> Variable:
        """Parse ``.reg .u32 name``, a parameter that is a register of the body.

        See the PTX ISA, "Kernel and Function Directives: .func".
        """
        element = self.next()[1:]
        if element not in TYPE_SIZES:
            self.fail(f"unknown register type .{element}")
        size = TYPE_SIZES[element]
        return Variable(self.name(), "reg", element, 1, size, size)
