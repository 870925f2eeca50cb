"""One run: build it, loop, evaluate."""
