"""One-screen kernels: pictured, predicted, written, checked, counted, timed on a GPU."""
