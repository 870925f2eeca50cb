"""Environment parameters, and lessons that change them as agents improve."""
