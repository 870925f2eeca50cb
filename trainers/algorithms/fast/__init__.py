"""Fast forms of what the algorithms define, and what an update computes with.

Each computes the same as its algorithm's own `_gradient`, and its file says when it is used; tests compare
the two. The algorithms read as their papers without this folder.
"""
