"""Takes into the package what lies elsewhere in the checkout, for places that have no checkout.

An sdist has these files in place already, and a wheel made from it finds nothing to add.
"""

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What the package needs of the checkout's other packages: pip alone looks for them on the index.
BESIDE = ("virtualgpu", "gpustandins")

# path in the checkout: path in the package
TAKEN = {
    "course/course.toml": "gpucourse/lessons/course.toml",
    # the one of the results that lessons show
    "lab/results/gpu_bench.json": "gpucourse/recorded/gpu_bench.json",
}


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        checkout = Path(self.root).parents[1]
        if version == "editable" or not (checkout / "course").is_dir():
            return
        if self.target_name == "wheel" and "PIP_BUILD_TRACKER" in os.environ:
            # pip installs from the checkout: a wheel that is built to be handed on names no folder.
            # First, since pip gives up at the first name that the index does not have.
            packages = checkout / "packages"
            links = [f"{name} @ {(packages / name).as_uri()}" for name in BESIDE]
            self.metadata.core.dependencies[:0] = links
        prefix = "" if self.target_name == "wheel" else "src/"
        # Of a lesson's folder what its notebook asks for while it runs: no answer, no hidden test.
        lessons = {
            str(path.relative_to(checkout)): f"gpucourse/lessons/{path.parent.name}/{path.name}"
            for name in ("checks.py", "predictions.toml")
            for path in sorted(checkout.glob(f"course/*/*/{name}"))
        }
        lessons |= copies(checkout, "lectures/*/puzzles/*.toml", without_answers)
        lessons |= copies(checkout, "*/*/*.po", without_hidden_tests)
        for origin, place in (TAKEN | lessons).items():
            build_data["force_include"][str(checkout / origin)] = prefix + place


def copies(checkout: Path, pattern: str, reduced: Callable[[str], str]) -> dict[str, str]:
    """Copy files of lessons, their text reduced; return each file's path in the package."""
    made = Path(tempfile.mkdtemp(prefix="lessons-"))
    found = {}
    for path in sorted(checkout.glob(f"course/{pattern}")):
        # What comes behind course/lectures or course/projects: the lesson's name first.
        inside = Path(*path.relative_to(checkout).parts[2:])
        (made / inside).parent.mkdir(parents=True, exist_ok=True)
        (made / inside).write_text(reduced(path.read_text(encoding="utf-8")), encoding="utf-8")
        found[str(made / inside)] = f"gpucourse/lessons/{inside.as_posix()}"
    return found


def without_hidden_tests(text: str) -> str:
    """Return a lesson's catalogue, of which each entry ends with an empty line."""
    return "\n\n".join(
        entry for entry in text.split("\n\n") if 'msgctxt "hidden test"' not in entry
    )


def without_answers(text: str) -> str:
    """Return a puzzle's file with ``pass`` for its solution, and without other answers."""
    text = re.sub(
        r"( *)### BEGIN SOLUTION\n.*?### END SOLUTION",
        r"\1### BEGIN SOLUTION\n\1pass\n\1### END SOLUTION",
        text,
        flags=re.DOTALL,
    )
    answer = re.compile(r"^\[\[(wrong|also)\]\].*?(?=^\[|\Z)", re.DOTALL | re.MULTILINE)
    return answer.sub("", text)
