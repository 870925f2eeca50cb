"""Environments written in Python: what a name means, how they are made, and how their spaces are read."""
