"""Web site and slides of the course, made from executed notebooks."""
