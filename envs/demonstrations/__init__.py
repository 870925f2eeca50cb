"""Demonstrations: Unity's `.demo` files, read, written, and recorded from any environment."""
