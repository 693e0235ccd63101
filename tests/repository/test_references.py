"""What docstrings and comments name by a role (``:mod:`` and the like) is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpucourse

PACKAGES = ("virtualgpu", "gpucourse", "jaxpile")
MODULE = re.compile(r"``([a-z_]+/[a-z_/]+)``")
ROLE = re.compile(r":(?:mod|func|class|meth|attr|data|exc):`~?(\.*)([\w.]+)`")


def defined(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    """Dotted names of what a module or class defines or imports, attributes of ``self`` too."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.alias):
                yield f"{prefix}.{(node.asname or node.name).split('.')[0]}"
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield f"{prefix}.{node.id}"
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield f"{prefix}.{node.name}"
                if isinstance(node, ast.ClassDef):
                    yield from defined(node.body, f"{prefix}.{node.name}")
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            ):
                yield f"{prefix}.{node.attr}"


def sources(repository: Path) -> Iterator[tuple[Path, str]]:
    """Each module's file and dotted name."""
    for package in PACKAGES:
        base = repository / "packages" / package / "src"
        for path in sorted(base.rglob("*.py*")):
            if path.suffix in (".py", ".pyi"):
                parts = path.relative_to(base).with_suffix("").parts
                yield path, ".".join(parts).removesuffix(".__init__")


@pytest.fixture(scope="module")
def known(repository) -> set[str]:
    """All names by their last parts: of ``a.b.c`` also ``b.c`` and ``c``."""
    names = set()
    for path, module in sources(repository):
        names.add(module)
        names.update(defined(ast.parse(path.read_text(encoding="utf-8")).body, module))
    # What a package imports when it is first asked for.
    names |= {f"gpucourse.{name}" for name in (*gpucourse.VERBS, *gpucourse.VIEWS, *gpucourse.WORK)}
    return {
        ".".join(parts[start:])
        for parts in (name.split(".") for name in names)
        for start in range(len(parts))
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_what_roles_name_is_there(repository, known, package):
    """Names that begin with no package of ours and no dot are another project's."""
    missing = [
        f"{path.relative_to(repository)}:{text.count(chr(10), 0, role.start()) + 1}: {role[0]}"
        for path, module in sources(repository)
        if module.split(".")[0] == package
        for text in [path.read_text(encoding="utf-8")]
        for role in ROLE.finditer(text)
        if (role[1] or role[2].split(".")[0] in PACKAGES) and role[2] not in known
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_names_of_its_modules_is_there(repository, package):
    """``folder/module`` in the docstring of an ``__init__.py`` is a file below it."""
    missing = [
        f"{path.relative_to(repository)}: {name[1]}"
        for path, module in sources(repository)
        if path.stem == "__init__" and module.split(".")[0] == package
        for name in MODULE.finditer(ast.get_docstring(ast.parse(path.read_text())) or "")
        if not (path.parent / f"{name[1]}.py").exists()
    ]
    assert not missing, "\n".join(missing)
