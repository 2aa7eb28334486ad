"""One instrumented training loop, driven by a variant's techniques. Knows nothing of how its numbers are analysed."""
