"""The site and the slides, made from executed notebooks."""
