"""What an H200 gave for one instruction at a time, and kernels that ask the same of this machine.

``operations/h200/README.md`` says how the numbers were made. A form is an instruction with ``$c``
for an operand and ``@c`` for a result, of the classes of ``ptx_instructions``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from native_lab import after
from ptx_lab import HEADER

FOLDER = Path(__file__).resolve().parents[1] / "operations" / "h200"
LANES = 512
_TYPES = {"p": "pred", "h": "b16", "r": "b32", "f": "b32", "d": "b64", "x": "b64"}
_COLUMNS = {"p": "b32", "h": "b16", "r": "b32", "f": "b32", "d": "b64", "x": "b64"}


@dataclass(frozen=True)
class Recorded:
    """``results[form]``: shape (results, 512), each in the low bits of 64; ``inputs``: by
    "b16", "b32", "b64", for matrices by "mma_f16" and so on, shape (512, operands)."""

    results: dict[str, np.ndarray]
    inputs: dict[str, np.ndarray]


@cache
def recorded() -> Recorded:
    with np.load(FOLDER / "vectors.npz") as file:
        found = {name: file[name] for name in file.files}
    results, at = {}, 0
    given = found.pop("results")
    for form, count in zip(found.pop("forms").tolist(), found.pop("counts").tolist(), strict=True):
        results[form] = given[at : at + count]
        at += count
    assert at == len(given)
    return Recorded(results, found)


def count(form: str) -> int:
    """How many results a form has."""
    return len(recorded().results[form])


def matrices(form: str) -> str:
    """Which inputs a product of matrices has; "" for other forms."""
    if not form.startswith("mma"):
        return ""
    kind = next(k for k in ("bf16", "tf32", "f16", "f64", "s8", "u8") if f".{k}." in form)
    return "mma_s8" if kind == "u8" else f"mma_{kind}"


def groups() -> list[list[str]]:
    """The forms, in lists that one kernel does: one after another, on the same inputs."""
    plain = [form for form in recorded().results if not matrices(form)]
    kinds = dict.fromkeys(filter(None, map(matrices, recorded().results)))
    return [plain[i : i + 60] for i in range(0, len(plain), 60)] + [
        [form for form in recorded().results if matrices(form) == kind] for kind in kinds
    ]


def asked(forms: Sequence[str]) -> tuple[str, list[np.ndarray], int, int]:
    """Forms of one group in a kernel ``k``: its PTX, its arrays, the first for results, and how
    many blocks of how many threads."""
    kind, inputs = matrices(forms[0]), recorded().inputs
    columns = [kind] if kind else ["b16", "b32", "b64"]
    arrays = [
        np.zeros((LANES, sum(map(count, forms))), np.uint64),
        *(np.ascontiguousarray(inputs[name]) for name in columns),
    ]
    text = _kernel(forms, dict(zip(columns, arrays[1:], strict=True)))
    return text, arrays, LANES // 128, 128


def results(forms: Sequence[str], contents: np.ndarray) -> dict[str, np.ndarray]:
    """What the kernel left in its first array, form by form, as :class:`Recorded` has them."""
    words = contents.view(np.uint64).reshape(LANES, -1).T
    found, at = {}, 0
    for form in forms:
        found[form] = words[at : at + count(form)]
        at += count(form)
    return found


def run(forms: Sequence[str], native) -> tuple[dict[str, np.ndarray], str]:
    """The results of forms of one group, as :class:`Recorded` has them; why native code was
    refused."""
    text, arrays, grid, block = asked(forms)
    contents, error, code = after(text, native, arrays, grid=grid, block=block)
    assert error is None, error
    return results(forms, contents[0]), code if isinstance(code, str) else ""


def _kernel(forms: Sequence[str], inputs: dict[str, np.ndarray]) -> str:
    """PTX of the kernel ``k``: inputs once into registers, then each form and its stores."""
    lines = [f"  ld.param.u64 %a{i}, [p{i}];" for i in range(len(inputs) + 1)]
    declared = ["  .reg .b32 %t, %i, %n;  .reg .b64 %at;"]
    lines += [
        "  mov.u32 %i, %ctaid.x;  mov.u32 %n, %ntid.x;  mov.u32 %t, %tid.x;",
        "  mad.lo.u32 %i, %i, %n, %t;",
    ]
    for number, (name, values) in enumerate(inputs.items(), 1):
        width = 8 * values.itemsize
        declared.append(f"  .reg .b64 %a{number};  .reg .b{width} %{name}_<{values.shape[1]}>;")
        lines.append(f"  mad.wide.u32 %at, %i, {values.shape[1] * values.itemsize}, %a{number};")
        lines += [
            f"  ld.global.b{width} %{name}_{k}, [%at+{k * values.itemsize}];"
            for k in range(values.shape[1])
        ]
    if "b64" in inputs:  # a predicate is the lowest bit
        declared.append(f"  .reg .pred %p_<{inputs['b64'].shape[1]}>;")
        lines += [
            f"  cvt.u32.u64 %t, %b64_{k};  and.b32 %t, %t, 1;  setp.ne.u32 %p_{k}, %t, 0;"
            for k in range(inputs["b64"].shape[1])
        ]
    declared.append("  .reg .b64 %a0;")
    lines.append(f"  mad.wide.u32 %at, %i, {8 * sum(map(count, forms))}, %a0;")
    at = 0
    for form in forms:
        body, stores = _with_registers(form, at)
        lines += [f"  {body};", *stores]
        at += count(form)
        declared += [
            f"  .reg .{_TYPES[letter]} %o{letter}_{number};"
            for letter, number in re.findall(r"%o(\w)_(\d+)", body)
        ]
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(inputs) + 1))
    return "\n".join(
        [
            HEADER.replace("8.4", "8.6"),
            f".visible .entry k({parameters})",
            "{",
            *declared,
            *lines,
            "  ret;",
            "}",
            "",
        ]
    )


def _with_registers(form: str, at: int) -> tuple[str, list[str]]:
    """The instruction with its registers, results numbered from ``at``, and their stores. In a few
    forms ``@`` stands before operands too; what comes first is the result."""
    opcode, _, rest = form.partition(" ")
    if "@?" in rest:  # conversions to integers: a register of the type's width
        width = re.search(r"\.[su](8|16|32|64)", opcode)[1]
        rest = rest.replace("@?", {"8": "@r", "16": "@h", "32": "@r", "64": "@d"}[width])
    operands, results, last = 0, at, at + count(form)
    stores: list[str] = []

    def register(match: re.Match) -> str:
        nonlocal operands, results
        letter = match[1]
        if results == last:
            name = "p" if letter == "p" else matrices(form) or _COLUMNS[letter]
            operands += 1
            return f"%{name}_{operands - 1}"
        name = f"%o{letter}_{results}"
        stores.append(
            f"  selp.u32 %t, 1, 0, {name};  st.global.u32 [%at+{8 * results}], %t;"
            if letter == "p"
            else f"  st.global.{_TYPES[letter]} [%at+{8 * results}], {name};"
        )
        results += 1
        return name

    return f"{opcode} {re.sub(r'[@$]([phrdfx])', register, rest)}", stores
