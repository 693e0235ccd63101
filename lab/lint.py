"""Checks of this repository's texts: dangling names and outdated generated pages.

    python -m lab.lint

``make check`` runs it together with ruff and import-linter. Each check is a generator of
complaints, one line each. Without complaints the exit status is 0.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image

from gpucourse.views import results
from lab.benchmarks import gpu_aims
from lab.benchmarks.gpu_worker import ORDER
from lab.gpu_check import table
from lab.pages import docs_notebooks, standins_page
from lab.pages.standins_differences import DIFFERENCES

ARTICLE = re.compile(r"\b[Aa]n? $")
RUN_TIME = re.compile("__name__|__module__|dtype|[.]type|have|kind|other|wanted")
ROLE = re.compile(r":(?:mod|func|class|meth|attr|data|exc):`~?(\.*)([\w.]+)`")
MODULE = re.compile(r"``([a-z_]+/[a-z_/]+)``")
#: A row of the recorded benchmark run, or all rows of a group.
POINTER = re.compile(r"`([a-z][a-z0-9]*(?:\.[a-z0-9]+)?)(?:/([a-z][a-z-]*))?`")


def main() -> int:
    root = Path(__file__).resolve().parents[1]
    complaints = [complaint for check in CHECKS for complaint in check(root)]
    print(*complaints, sep="\n", end="\n" if complaints else "")
    return bool(complaints)


def _sources(root: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """Yield the file, the dotted name and the syntax tree of each module of the packages."""
    for base in sorted(root.glob("packages/*/src")):
        for path in sorted(base.rglob("*.py*")):
            if path.suffix in (".py", ".pyi"):
                parts = path.relative_to(base).with_suffix("").parts
                tree = ast.parse(path.read_text(encoding="utf-8"))
                yield path, ".".join(parts).removesuffix(".__init__"), tree


# --- code -----------------------------------------------------------------------------------------


def guessed_articles(root: Path) -> Iterator[str]:
    """Find strings such as ``f"a {type(x).__name__}"``, which can print "a int"."""
    for folder in [*root.glob("packages/*/src"), root / "course"]:
        for path in sorted(folder.rglob("*.py")):
            for string in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(string, ast.JoinedStr):
                    continue
                for before, value in zip(string.values, string.values[1:], strict=False):
                    if (
                        isinstance(value, ast.FormattedValue)
                        and isinstance(before, ast.Constant)
                        and ARTICLE.search(str(before.value))
                        and RUN_TIME.search(ast.unparse(value.value))
                    ):
                        where = f"{path.relative_to(root)}:{string.lineno}"
                        yield f"{where}: an article before a word that is known only at run time"


def _defined(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    """Yield the dotted names that a module or class defines or imports, including ``self.x``."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.alias):
                yield f"{prefix}.{(node.asname or node.name).split('.')[0]}"
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield f"{prefix}.{node.id}"
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield f"{prefix}.{node.name}"
                if isinstance(node, ast.ClassDef):
                    yield from _defined(node.body, f"{prefix}.{node.name}")
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            ):
                yield f"{prefix}.{node.attr}"


def missing_references(root: Path) -> Iterator[str]:
    """Find roles (``:mod:`` and others) and ``folder/module`` that do not exist in our packages.

    A role without a leading dot whose first name is not one of our packages belongs to another
    project.
    """
    modules = list(_sources(root))
    packages = {module.split(".")[0] for _, module, _ in modules}
    names = {module for _, module, _ in modules}
    for _, module, tree in modules:
        names.update(_defined(tree.body, module))
        # A package lists the names that it imports on first use as strings.
        names.update(
            f"{module}.{node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.isidentifier()
        )
    known = {
        ".".join(parts[start:])
        for parts in (name.split(".") for name in names)
        for start in range(len(parts))
    }
    for path, _, tree in modules:
        text = path.read_text(encoding="utf-8")
        for role in ROLE.finditer(text):
            if (role[1] or role[2].split(".")[0] in packages) and role[2] not in known:
                line = text.count("\n", 0, role.start()) + 1
                yield f"{path.relative_to(root)}:{line}: {role[0]} does not exist"
        if path.stem == "__init__":
            for name in MODULE.finditer(ast.get_docstring(tree) or ""):
                if not (path.parent / f"{name[1]}.py").exists():
                    yield f"{path.relative_to(root)}: {name[1]} is not a module"


def narrow_questions(root: Path) -> Iterator[str]:
    """Find ``is_active`` in checks, which is False until Numba is imported, even with CuPy."""
    for path in sorted((root / "course" / "lectures").glob("*/checks.py")):
        if "is_active" in path.read_text(encoding="utf-8"):
            yield f"{path.relative_to(root)}: test whether a virtual GPU is used, not is_active()"


def large_files(root: Path) -> Iterator[str]:
    for path in _tracked(root):
        if path.stat().st_size > 2 * 2**20:
            yield f"{path.relative_to(root)}: larger than 2 MiB"


def _tracked(root: Path) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


# --- descriptions of the packages in ARCHITECTURE.md and pyproject.toml ---------------------------


def _contracts(root: Path) -> dict[str, dict]:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return {one["id"]: one for one in settings["tool"]["importlinter"]["contracts"]}


def _layers(contract: dict) -> list[set[str]]:
    """Return the modules of a layers contract, beginning with the highest layer."""
    return [set(layer.split(" | ")) for layer in contract["layers"] if layer != "__main__"]


def architecture(root: Path) -> Iterator[str]:
    """Compare the tables of ARCHITECTURE.md with the layers that import-linter enforces."""
    page = (root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for package, contract in _contracts(root).items():
        if "layers" not in contract or f"## `{package}`" not in page:
            continue
        section = page.split(f"## `{package}`")[1].split("\n## ")[0]
        rows = re.findall(r"^\| ((?:`[\w/]+` ?)+)\|", section, re.MULTILINE)
        listed = [name.strip("/`") for names in rows for name in names.split()]
        order = _layers(contract)
        folder = root / "packages" / package / "src" / package
        for name in listed:
            if not [*folder.glob(f"{name}.py*"), *folder.glob(f"{name}/**/*.py*")]:
                yield f"ARCHITECTURE.md: {package} has no {name}"
        # A folder that is not a package is run and never imported.
        listed = [name for name in listed if any(name in layer for layer in order)]
        for layer in order:
            now, listed = listed[: len(layer)], listed[len(layer) :]
            if set(now) != layer:
                yield f"ARCHITECTURE.md: {package} has {sorted(layer)}, but the page has {now}"
                break


def unlisted_modules(root: Path) -> Iterator[str]:
    """Find modules of virtualgpu that the "api" contract neither forbids nor makes public."""
    public = {"api", "errors", "findings", "sources", "processors"}
    contracts = _contracts(root)
    modules = set().union(*_layers(contracts["virtualgpu"])) - public
    for name in sorted(modules):
        if f"virtualgpu.{name}" not in contracts["api"]["forbidden_modules"]:
            yield f'pyproject.toml: contract "api" does not list virtualgpu.{name}'


def hooks_version(root: Path) -> Iterator[str]:
    hooks = (root / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    for version in re.findall(r"ruff-pre-commit\n    rev: v([\d.]+)\n", hooks):
        if f"\nruff=={version} " not in (root / "requirements" / "base.txt").read_text():
            yield f".pre-commit-config.yaml: ruff {version} is not the locked one"


# --- names in pages -------------------------------------------------------------------------------


def missing_verbs(root: Path) -> Iterator[str]:
    """Find ``make`` targets that the Makefile does not have."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    verbs = set(re.findall(r"(?m)^([a-z-]+):.*?## .+$", makefile))
    for path in _tracked(root):
        if path.suffix == ".md" and path.name != "CHANGELOG.md":
            text = path.read_text(encoding="utf-8")
            for verb in re.findall(r"(?m)(?:^|`)make ([a-z-]+)(?=`|$| [A-Z_]+=)", text):
                if verb not in verbs:
                    yield f"{path.relative_to(root)}: there is no make {verb}"


def decisions(root: Path) -> Iterator[str]:
    """Find decisions missing from the index, and files, modules and tests that do not exist."""
    folder = root / "docs" / "decisions"
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    listed = re.findall(r"\]\((\w+\.md)\)", pages.pop("README.md"))
    if listed != list(pages):
        yield f"docs/decisions/README.md: lists {listed} instead of all pages"
    there = [f"/{path.relative_to(root).as_posix()}" for path in _tracked(root)]
    source = root / "packages" / "virtualgpu" / "src" / "virtualgpu"
    for name, text in pages.items():
        for place in re.findall(r"`([\w./-]+\.(?:py|toml|json))`", text):
            if not any(path.endswith(f"/{place}") for path in there):
                yield f"docs/decisions/{name}: {place} does not exist"
        for file, test in re.findall(r"`([\w./]+\.py)::(\w+)`", text):
            found = [path for path in there if path.endswith(f"/tests/{file}")]
            if not any(f"\ndef {test}(" in (root / path[1:]).read_text() for path in found):
                yield f"docs/decisions/{name}: {file}::{test} does not exist"
        for row in (row for row in text.splitlines() if row.count("|") == 5 and "::" in row):
            for cell in row.split("|")[2:4]:
                first, *more = re.findall(r"`([\w/]+)`", cell)
                for module in (first, *(f"{first.rpartition('/')[0]}/{other}" for other in more)):
                    if not (source / f"{module}.py").exists():
                        yield f"docs/decisions/{name}: {module} does not exist"


def missing_rows(root: Path) -> Iterator[str]:
    """Find rows that lessons name and that the recorded run does not have."""
    run = results.recorded()
    for path in sorted((root / "course").rglob("*.py")):
        for group, contender in POINTER.findall(path.read_text(encoding="utf-8")):
            if group not in ORDER or run is None:
                continue
            try:
                run.row(group, contender) if contender else run.of(group)
            except results.NotMeasured as error:
                yield f"{path.relative_to(root)}: {error}"


def differences(root: Path) -> Iterator[str]:
    """Find differences of the stand-ins that no test shows, or that are listed twice."""
    seen = set()
    for one in DIFFERENCES:
        file, _, test = one.test.partition("::")
        paths = root.glob(f"packages/*/tests/**/{Path(file).name}")
        if not any(f"\ndef {test}(" in path.read_text(encoding="utf-8") for path in paths):
            yield f"lab/pages/standins_differences.py: there is no {one.test}"
        if (one.package, one.what) in seen:
            yield f"lab/pages/standins_differences.py: {one.what} is listed twice"
        seen.add((one.package, one.what))


# --- generated pages ------------------------------------------------------------------------------


def stale_pages(root: Path) -> Iterator[str]:
    """Find generated pages whose source has changed since."""
    made: dict[Path, tuple[Callable[[], str], str]] = {
        root / "docs/standins.md": (standins_page.page, "make build"),
        root / "lab/results/gpu_aims.md": (
            lambda: gpu_aims.aims_table(results.read(root / "lab" / "results" / results.NAME)),
            "make bench-gpu",
        ),
        root / table.PAGE: (
            lambda: table.page((root / table.PAGE).read_text("utf-8"), table.read_result(root)),
            "python -m lab.gpu_check.table",
        ),
    }
    for source in docs_notebooks.sources():
        page = root / "docs" / f"{source.stem}.ipynb"
        made[page] = (lambda source=source: docs_notebooks.text(source)), "make build"
    for page, (text, command) in made.items():
        if page.read_text(encoding="utf-8") != text():
            yield f"{page.relative_to(root)}: out of date, run {command}"


def stale_photograph(root: Path) -> Iterator[str]:
    """Compare the picture of a report card in README with the present card."""
    script = root / "img" / "report_card.py"
    program = (
        "import runpy, sys; card = runpy.run_path(sys.argv[1]); "
        "print(card['digest'](card['page']())); print(card['ALT'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, script], capture_output=True, text=True, check=True
    )
    now, alt = done.stdout.splitlines()
    told = Image.open(script.with_suffix(".png")).text
    if (told["page"], told["Description"]) != (now, alt):
        yield "img/report_card.png: shows an old card, run python img/report_card.py (Chromium)"
    if f'alt="{alt}"' not in (root / "README.md").read_text(encoding="utf-8"):
        yield "README.md: describes the report card differently from img/report_card.py"


CHECKS = (
    guessed_articles,
    missing_references,
    narrow_questions,
    large_files,
    architecture,
    unlisted_modules,
    hooks_version,
    missing_verbs,
    decisions,
    missing_rows,
    differences,
    stale_pages,
    stale_photograph,
)

if __name__ == "__main__":
    sys.exit(main())
