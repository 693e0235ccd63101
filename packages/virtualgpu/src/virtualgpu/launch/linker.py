"""Linker of PTX modules: symbol resolution, and allocation of module variables.

Symbols resolve as in the CUDA linker: a definition satisfies declarations, strong definitions
replace ``.weak`` and ``.common`` ones, and two strong definitions are an error.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from virtualgpu.errors import LinkError
from virtualgpu.lanes.compile import compile_program
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.operations.types import DTYPES, UNSIGNED
from virtualgpu.program.comparison import Comparison
from virtualgpu.program.exact_indices import Follower
from virtualgpu.program.index_ranges import indices
from virtualgpu.program.program import CODE_BASE, Program
from virtualgpu.ptx import Function, Immediate, PTXModule, Symbol, Variable, parse

CODE_STEP = 16  # bytes between the addresses of two functions
_lock = threading.RLock()


class LoadedModule:
    """Linked PTX on a device.

    Parameters
    ----------
    memory : GlobalMemory
        Memory that holds the module's variables.
    texts : list of str
        PTX translation units.
    names : dict
        Readable names of entries, used in messages in place of their mangled names.
    """

    def __init__(self, memory: GlobalMemory, texts: list[str], names: dict[str, str] | None = None):
        self.memory, self.texts = memory, texts
        self.names = dict(names or {})
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self.debug = False
        for text in texts:
            self._add(parse(text))
        self._order = list(self.functions)
        self._addresses: dict[str, int] = {}
        self._constants: set[int] = set()
        self._programs: dict[tuple[str, bool, int], Program] = {}
        self._tables: list[str] | None = None

    def _add(self, module: PTXModule) -> None:
        self.debug |= module.debug
        for name, function in module.functions.items():
            known = self.functions.get(name)
            if known is None or known.is_declaration or known.linkage == "weak":
                self.functions[name] = function
            elif not function.is_declaration and function.linkage != "weak":
                raise LinkError(f"function {name} is defined in two PTX modules")
        for name, variable in module.variables.items():
            other = self.variables.get(name)
            if other is None or other.linkage in ("extern", "weak", "common"):
                if other is None or variable.linkage != "extern":
                    self.variables[name] = variable
            elif variable.linkage not in ("extern", "weak", "common"):
                raise LinkError(f"variable {name} is defined in two PTX modules")

    # -- symbol look-up -------------------------------------------------------------------------

    def function(self, name: str) -> Function | None:
        return self.functions.get(name)

    def display_name(self, entry: str) -> str:
        return self.names.get(entry, entry)

    def function_at(self, offset: int) -> str | None:
        """Return the function at ``CODE_BASE + offset``."""
        index, rest = divmod(offset, CODE_STEP)
        return self._order[index] if not rest and 0 <= index < len(self._order) else None

    def functions_in_tables(self) -> list[str]:
        """Return the functions whose addresses are in initialised variables (virtual tables)."""
        if self._tables is None:
            self._tables = [
                value.name
                for variable in self.variables.values()
                for value in variable.values or ()
                if isinstance(value, Symbol) and value.name in self.functions
            ]
        return self._tables

    def address(self, name: str) -> int:
        """Return the device address of a variable or function.

        Raises LinkError if the name is unknown.
        """
        if name in self._addresses:
            return self._addresses[name]
        if name in self.functions:
            return CODE_BASE + CODE_STEP * self._order.index(name)
        variable = self.variables.get(name)
        if variable is None or variable.linkage == "extern":
            raise LinkError(f"symbol {name} is declared but not defined")
        if variable.space not in ("global", "const"):
            raise LinkError(f"the {variable.space} variable {name} has no fixed address")
        address = self._addresses[name] = self.memory.allocate(variable.size, poison=False)
        if variable.space == "const":
            self._constants.add(address)
        self.memory.fill(address, 0, variable.size)
        if variable.values:
            self.memory.write(address, self._initial(variable))
        return address

    def is_constant(self, address: int) -> bool:
        """Return True if a ``.const`` variable begins at a device address."""
        return address in self._constants

    def size(self, name: str) -> int:
        return self.variables[name].size

    def placed(self) -> dict[str, int]:
        """Return the addresses of the variables that have been allocated so far."""
        return dict(self._addresses)

    def _initial(self, variable: Variable) -> np.ndarray:
        dtype = DTYPES[variable.element]
        bits, mask = UNSIGNED[dtype.itemsize], (1 << 8 * dtype.itemsize) - 1
        values = []
        for value in variable.values or ():
            if isinstance(value, Symbol):
                address = self.address(value.name) + value.offset
                if value.mask:
                    address = (address & value.mask) // (value.mask & -value.mask)
                values.append(address & mask)
            elif isinstance(value, Immediate):
                have = np.dtype("f4" if value.type == "f32" else "f8")
                number = np.array([value.value], UNSIGNED[have.itemsize]).view(have)
                if dtype.kind == "f":
                    with np.errstate(all="ignore"):
                        number = number.astype(dtype)
                values.append(int(number.view(UNSIGNED[number.itemsize])[0]) & mask)
            else:
                values.append(value & mask)
        if len(values) * dtype.itemsize > variable.size:
            raise LinkError(f"variable {variable.name} has more initial values than elements")
        return np.array(values, bits)

    def entries(self) -> list[str]:
        return [name for name, f in self.functions.items() if f.is_entry]

    def program(self, entry: str, fine: bool = False) -> Program:
        """Return the decoded kernel ``entry``. Raises LinkError if there is no such kernel."""
        with _lock:
            if (entry, fine, 0) not in self._programs:
                function = self.functions.get(entry)
                if function is None or not function.is_entry:
                    known = ", ".join(self.display_name(e) for e in self.entries()) or "none"
                    raise LinkError(f"no kernel {entry}; the module has: {known}")
                self._programs[entry, fine, 0] = compile_program(self, entry, fine)
            return self._programs[entry, fine, 0]

    def following(
        self,
        program: Program,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: Sequence[bytes],
    ) -> Program:
        """Return a program that also computes the exact value of any index that may overflow.

        If no index can overflow, this is ``program`` itself.
        """
        packed = program.packed(parameters)
        with _lock:
            known = indices(program)
            bits = 0 if packed is None else known.that_may_wrap(grid, block, packed)
            if not bits:
                return program
            key = program.name, program.fine, bits
            if key not in self._programs:

                def follow(function: Function) -> tuple[Function, dict[int, Comparison]]:
                    return Follower(function, known.arithmetic, bits).function_and_comparisons()

                made = self._programs[key] = compile_program(self, *key[:2], follow)
                made.followed = bits
            return self._programs[key]

    def unload(self) -> None:
        """Free the module's variables."""
        for address in self._addresses.values():
            self.memory.free(address)
        self._addresses.clear()
        self._constants.clear()
