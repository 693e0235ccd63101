"""Takes into the package what lies elsewhere in the checkout, for places that have no checkout.

An sdist has these files in place already, and a wheel made from it finds nothing to add.
"""

from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# path in the checkout: path in the package
TAKEN = {
    "course/course.toml": "gpucourse/lessons/course.toml",
    "benchmarks/results": "gpucourse/recorded",
}


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        checkout = Path(self.root).parents[1]
        if version == "editable" or not (checkout / "course").is_dir():
            return
        prefix = "" if self.target_name == "wheel" else "src/"
        # Of a lesson's folder what its notebook asks for while it runs: no answer, no hidden test.
        lessons = {
            str(path.relative_to(checkout)): f"gpucourse/lessons/{path.parent.name}/{name}"
            for name in ("checks.py", "predictions.toml")
            for path in sorted(checkout.glob(f"course/*/*/{name}"))
        }
        # Puzzles whole: they aren't graded, and their solution is counted beside the learner's.
        lessons |= {
            str(path.relative_to(checkout)):
                f"gpucourse/lessons/{path.parts[-3]}/puzzles/{path.name}"
            for path in sorted(checkout.glob("course/lectures/*/puzzles/*.toml"))
        }
        for origin, place in (TAKEN | lessons).items():
            build_data["force_include"][str(checkout / origin)] = prefix + place
