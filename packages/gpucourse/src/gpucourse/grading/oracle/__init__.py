"""Trusted side of the grader: hidden tests, the secret seed, expected answers and the device."""
