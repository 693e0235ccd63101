"""One-screen kernels: pictured, predicted, written, checked, counted, and timed where there is a GPU."""
