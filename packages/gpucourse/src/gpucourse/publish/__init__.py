"""The course's build: from course/ to notebooks, and from pyproject.toml to environments."""
