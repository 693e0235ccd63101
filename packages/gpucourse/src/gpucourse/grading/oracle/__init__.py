"""The trusted side: hidden tests, the secret seed, expected answers, and the device."""
