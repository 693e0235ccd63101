"""Generator of the ``virtualgpu`` reference on the site, one Markdown page, from docstrings.

It is written here, because our packages cannot be imported in the environment of Sphinx.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import virtualgpu

PAGE = Path("docs/virtualgpu_reference.md")
#: A title, the module whose docstring follows it (or none), and "module:class" of each class.
PARTS = (
    ("What check() gives", "", ("findings:Report", "findings:Finding")),
    (
        "What profile() gives",
        "watch.counters",
        ("watch.profiling:Profile", "watch.profiling:LaunchProfile", "watch.counters:Counters"),
    ),
    (
        "What launches() gives",
        "standins.recorder",
        ("standins.recorder:Launches", "standins.recorder:Launched"),
    ),
)
_ROLE = re.compile(r":\w+:`(~?)([^`]+)`")
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class _Text(str):
    __repr__ = str.__str__  # an annotation, shown without quotes


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"virtualgpu.{name}")


def page() -> str:
    """Return the whole page as Markdown."""
    public = [getattr(virtualgpu, name) for name in virtualgpu.__all__]
    parts = [
        f"# Reference of `virtualgpu`\n\nVersion {virtualgpu.__version__}, by its docstrings. "
        "What is modelled and what is not: [the virtual GPU](virtualgpu.md).\n\n## Functions",
        *(entry(one) for one in public if inspect.isfunction(one)),
        "## Classes",
        entry(virtualgpu.Module),
        entry(virtualgpu.VirtualDevice),
        entry(virtualgpu.HugeArray),
    ]
    for title, module, classes in PARTS:
        parts += [f"## {title}", introduction(module) if module else ""]
        parts += [
            entry(getattr(_module(place), name))
            for place, name in (one.split(":") for one in classes)
        ]
    errors = _module("errors")
    parts += ["## Errors", introduction("errors")]
    own = [
        one
        for one in vars(errors).values()
        if inspect.isclass(one) and one.__module__ in (errors.__name__, "virtualgpu")
    ]
    parts += [
        entry(one)
        for one in dict.fromkeys(
            [*own, *(one for one in public if inspect.isclass(one) and issubclass(one, Exception))]
        )
    ]
    parts += [
        "## In pytest",
        introduction("pytest_plugin"),
        options(),
        "## The command",
        introduction("cli"),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def introduction(module: str) -> str:
    """Return a module's docstring as Markdown."""
    # The empty first line keeps the indentation of the others.
    return markdown(f"\n{_module(module).__doc__}")


def entry(one: type | Callable) -> str:
    """Return the entry of a function, or of a class with its public methods and properties."""
    if not inspect.isclass(one):
        return f"### {one.__name__}\n\n{_signature(one)}\n\n{markdown(one.__doc__)}"
    bases = ", ".join(f"`{base.__name__}`" for base in one.__bases__ if base is not object)
    parts = [f"### {one.__name__}", bases and f"Derived from {bases}.", markdown(one.__doc__)]
    for signature, text in _members(one):
        parts.append(re.sub(r"(?m)\n(?=.)", "\n  ", f"- {signature}\n\n{markdown(text)}".rstrip()))
    return "\n\n".join(filter(None, parts))


def _members(one: type) -> Iterator[tuple[str, str | None]]:
    for name, member in vars(one).items():
        if isinstance(member, property):
            yield f"`{name}: {member.fget.__annotations__['return']}`", member.__doc__
        elif not name.startswith("_") and callable(getattr(one, name)):
            yield _signature(getattr(one, name)), member.__doc__


def _signature(function: Callable) -> str:
    """Return a function's signature; for a context manager, with the value of ``with``."""
    plain = inspect.signature(function)
    shown = plain.replace(
        parameters=[
            one.replace(annotation=_Text(one.annotation))
            for one in plain.parameters.values()
            if one.name != "self"
        ],
        return_annotation=_Text(plain.return_annotation),
    )
    if not inspect.isgeneratorfunction(inspect.unwrap(function)):
        return f"`{function.__name__}{shown}`"
    given = shown.return_annotation.removeprefix("Iterator[").removesuffix("]")
    call = f"`with {function.__name__}{shown.replace(return_annotation=plain.empty)}`"
    return call + (f"; gives a `{given}`" if given != "None" else "")


def options() -> str:
    """Return the options and settings that the pytest plugin adds, with their help."""
    found: list[str] = []

    def add(name: str, help: str, metavar: str = "", **_: object) -> None:
        found.append(f"- `{f'{name} {metavar}'.strip()}`: {help}")

    _module("pytest_plugin").pytest_addoption(
        SimpleNamespace(getgroup=lambda *_: SimpleNamespace(addoption=add), addini=add)
    )
    return "\n".join(found)


def markdown(docstring: str | None) -> str:
    """Convert a docstring, with its roles, examples and NumPy sections, to Markdown."""
    text = inspect.cleandoc(docstring or "")
    text = _ROLE.sub(lambda role: f"`{role[2].rsplit('.', 1)[-1] if role[1] else role[2]}`", text)
    text = _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", text)
    head, *sections = _SECTION.split(text)
    done = [head.rstrip()]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        if title in ("Parameters", "Attributes", "Returns", "Raises"):  # of "name : type"
            body = re.sub(
                r"(?m)^(\S.*?)(?: : (.+))?$",
                lambda item: f"- `{item[1]}`" + (f" ({item[2]})" if item[2] else ""),
                body,
            )
            body = re.sub(r"(?m)^ {4}", "  ", re.sub(r"(?m)^(- .+)\n {4}", r"\1\\\n    ", body))
        done.append(f"**{title}**\n\n{body.rstrip()}")
    return "\n\n".join(filter(None, done))
