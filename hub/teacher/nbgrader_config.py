"""nbgrader in a teacher's server: where formgrader finds the course directory."""

from pathlib import Path

c = get_config()  # noqa: F821

c.CourseDirectory.root = str(Path.home() / "gpu-course" / "grading")
