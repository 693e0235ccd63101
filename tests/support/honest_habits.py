"""Habits of writing code that change no result, applied to every answer of a notebook.

Each habit is a function from the text of an answer cell to another text with the same effect. The
habits in one of the two rows of ``HABITS`` are applied together to one notebook.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable

from gpucourse.grading.submission.assignment import Assignment
from honest_styles import place

Habit = Callable[[str], str]


def statements(text: str) -> list[str]:
    """Return the top-level statements of a text, with their decorators and comments."""
    lines = text.split("\n")
    starts = [
        min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))]) - 1
        for node in ast.parse(text).body
    ]
    ends = [*starts[1:], len(lines)]
    return [
        "\n".join(lines[begin:end]).strip("\n")
        for begin, end in zip([0, *starts[1:]], ends, strict=True)
    ]


def functions(text: str, decorated: bool = True) -> list[str]:
    """Return the names of the functions that a text defines."""
    found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in found if decorated or not node.decorator_list]


# --- written with other words -------------------------------------------------------------------


def annotated(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for argument in node.args.args:
                argument.annotation = ast.Constant("np.ndarray")
    return ast.unparse(tree)


def letters_of_ones_own_language(text: str) -> str:
    """Rename local variables to `total_größe`."""
    tree = ast.parse(text)
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        inside = [*ast.walk(function)]
        stored = {
            node.id
            for node in inside
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        given = {node.arg for node in inside if isinstance(node, ast.arg)}
        outer = {
            name
            for node in inside
            if isinstance(node, (ast.Global, ast.Nonlocal))
            for name in node.names
        }
        for node in inside:
            if isinstance(node, ast.Name) and node.id in stored - given - outer:
                node.id += "_größe"
    return ast.unparse(tree)


def translated_comments(text: str) -> str:
    text = re.sub(r'"""[^"]*"""', '"""Число событий."""', text)
    return re.sub(r"(?m)# .*$", "# комментарий", text)


def formatted(text: str) -> str:
    """Format with ruff, as black does, with short lines."""
    command = [sys.executable, "-m", "ruff", "format", "--line-length", "60", "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=True).stdout


def in_tabs(text: str) -> str:
    return re.sub(r"(?m)^( {4})+", lambda found: "\t" * (len(found[0]) // 4), text)


# --- put together in another way ----------------------------------------------------------------


def cuda_by_another_name(text: str) -> str:
    """Import ``cuda as gpu`` from numba."""
    if "cuda." not in text:
        return text
    return "from numba import cuda as gpu\n" + re.sub(r"(?<![.\w])cuda\.", "gpu.", text)


def kernels_by_assignment(text: str) -> str:
    """Write ``kernel = cuda.jit(_kernel)`` in place of a decorator."""
    parts = []
    for part in statements(text):
        if found := re.match(r"@cuda\.jit(.*)\ndef (\w+)", part):
            options, name = found.groups()
            plain = part.split("\n", 1)[1].replace(f"def {name}(", f"def _{name}(", 1)
            part = f"{plain}\n\n\n{name} = cuda.jit{options or '()'}(_{name})"
        parts.append(part)
    return "\n\n\n".join(parts)


def lambdas(text: str) -> str:
    for name in functions(text, decorated=False):
        text = re.sub(rf"(?m)^def {name}\(", f"def _of_{name}(", text)
        text += f"\n\n{name} = lambda *given: _of_{name}(*given)"
    return text


def callable_dataclass(text: str) -> str:
    names = functions(text, decorated=False)
    made = "\n".join(f"{name} = Answer({name})" for name in names)
    return f"{text}\n\n{DATACLASS}\n\n{made}" if names else text


DATACLASS = """
from dataclasses import dataclass


@dataclass(eq=False)
class Answer:
    function: object
    calls: int = 0

    def __call__(self, *given):
        self.calls += 1
        return self.function(*given)
"""


def helpers_last(text: str) -> str:
    """Reverse the order of the functions, if a cell contains nothing else."""
    parts = statements(text)
    mixed = any(re.match(r"import|from|\w+ = ", part) for part in parts)
    return text if mixed else "\n\n\n".join(reversed(parts))


def one_kernel_more(text: str) -> str:
    return ANOTHER_KERNEL + text


ANOTHER_KERNEL = """from numba import cuda as _cuda
import numpy as _np


@_cuda.jit
def _unused(out):
    out[_cuda.grid(1)] = 1


_out = _cuda.device_array(32, _np.int32)
_unused[1, 32](_out)
assert _out.copy_to_host().sum() == 32


"""

# --- and something beside it --------------------------------------------------------------------


def own_tests(text: str) -> str:
    checks = "\n".join(f"    assert callable({name})" for name in functions(text)) or "    pass"
    return f"{text}\n\n\ndef test_mine():\n{checks}\n\n\ntest_mine()\nprint('all pass')"


def a_plot(text: str) -> str:
    return f"{text}\n\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"


def a_script(text: str) -> str:
    return f"{text}\n\nif __name__ == '__main__':\n    print('ready')\n"


def a_line_that_is_timed(text: str) -> str:
    return f"{text}\n%timeit -n 1 -r 1 sum(range(10))\n%time _ = 1"


def a_cell_that_is_timed(text: str) -> str:
    return f"%%time\n{text}"


def a_title_of_colab(text: str) -> str:
    return f'#@title Mine {{ display-mode: "form" }}\n!pip install -q numba-cuda\n{text}'


HABITS: dict[str, tuple[Habit, ...]] = {
    "beside": (
        annotated,
        letters_of_ones_own_language,
        lambdas,
        one_kernel_more,
        own_tests,
        a_plot,
        a_script,
        a_line_that_is_timed,
        a_title_of_colab,
    ),
    "otherwise": (
        translated_comments,
        kernels_by_assignment,
        callable_dataclass,
        helpers_last,
        formatted,
        cuda_by_another_name,
        in_tabs,
        a_cell_that_is_timed,
    ),
}


def accustomed(notebook: dict, assignment: Assignment, habits: tuple[Habit, ...]) -> dict:
    """Return a solved notebook, changed in place, with all `habits` in each code answer."""
    for answer in assignment.solutions:
        if answer.cell_type == "code":
            cell = notebook["cells"][place(notebook, answer.grade_id)]
            for habit in habits:
                cell["source"] = habit(cell["source"])
    return notebook
