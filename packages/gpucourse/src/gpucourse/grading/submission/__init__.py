"""Conversion of submitted files to notebooks that are safe to grade."""
