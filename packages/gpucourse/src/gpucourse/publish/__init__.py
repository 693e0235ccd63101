"""Build of the course: notebooks from course/, environments from pyproject.toml, and the site."""
